//! The text of an object, compressed in memory.

mod codec;
mod dictionary;
pub(crate) mod frame;
mod layout;
pub(crate) mod packed;
mod same;

use std::io;
use std::sync::Arc;

use serde::ser::{Error as _, SerializeMap as _};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use self::dictionary::Decoder;
pub(crate) use self::dictionary::{Dictionary, Samples};
use self::frame::Framed;
use self::layout::Layout;
use super::projection::Projection;
use super::{Labels, ObjectKey, StoredObject};

/// The reason why a text cannot be stored as an object.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// Not a JSON object, or `metadata` is missing or of the wrong shape.
    #[error("not an object with metadata: {0}")]
    Shape(#[from] serde_json::Error),
    /// A label holds a NUL character, which no valid label does.
    #[error("metadata.labels: a label contains a NUL character")]
    Label,
    /// Larger than 4 GiB.
    #[error("object is too large")]
    TooLarge,
    /// The compressor or decompressor failed; a decompressor cannot unless memory is corrupt.
    #[error("compressing an object: {0}")]
    Codec(#[from] io::Error),
}

/// Canonical JSON of an object: compact, keys sorted, compressed with zstd.
///
/// `metadata.resourceVersion` is not part of the compressed text, because it is assigned in the
/// commit, after the object was encoded. Its place is known, and every function that returns the
/// text inserts it.
#[derive(Clone)]
pub struct Body {
    /// The text up to and including `metadata`, so that metadata can be read without the rest, and
    /// behind it the text after `metadata`; each compressed by itself.
    frames: Box<[u8]>,
    /// Length of the first frame.
    head_frame: u32,
    layout: Layout,
    /// The dictionary of both.
    decoder: Arc<Decoder>,
}

impl Body {
    /// Compresses a canonical text.
    fn compress(json: &[u8], layout: Layout, dictionary: &Dictionary) -> Result<Self, BodyError> {
        let (head, tail) = json.split_at(layout.head_len());
        let mut frames = Vec::new();
        codec::compress(head, &dictionary.encoder, &mut frames)?;
        let head_frame = layout::offset(frames.len())?;
        codec::compress(tail, &dictionary.encoder, &mut frames)?;
        Ok(Self {
            // A copy takes no more memory than it needs.
            frames: frames.as_slice().into(),
            head_frame,
            layout,
            decoder: Arc::clone(&dictionary.decoder),
        })
    }

    /// Returns the same text, compressed with `dictionary`.
    ///
    /// # Errors
    /// Only when the memory of the body is corrupt.
    pub(crate) fn recompress(&self, dictionary: &Dictionary) -> Result<Self, BodyError> {
        Self::compress(self.text()?.as_bytes(), self.layout, dictionary)
    }

    /// Returns the JSON text without its resourceVersion.
    fn text(&self) -> Result<String, BodyError> {
        let mut text = Vec::with_capacity(self.layout.len());
        self.append_head(&mut text)?;
        self.append_tail(&mut text)?;
        Ok(String::from_utf8(text).map_err(serde_json::Error::custom)?)
    }

    /// Returns the length of the JSON text without its resourceVersion, in bytes.
    #[must_use]
    pub fn json_len(&self) -> usize {
        self.layout.len()
    }

    /// Returns the length of the compressed text, in bytes.
    pub(crate) fn compressed_len(&self) -> usize {
        self.frames.len()
    }

    /// Returns the number of the dictionary that the text was compressed with.
    pub(crate) fn generation(&self) -> u64 {
        self.decoder.generation
    }

    /// Returns the memory held, in bytes, without the dictionary, which bodies share.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.frames.len() + size_of::<Self>()
    }

    /// Appends the JSON text with resourceVersion `rv`; `api_version` replaces the object's own.
    pub(super) fn append_json(
        &self,
        out: &mut Vec<u8>,
        rv: u64,
        api_version: Option<&str>,
    ) -> Result<(), BodyError> {
        let start = out.len();
        out.reserve(self.layout.len() + 64);
        self.append_head(out)?;
        // What is inserted lies in the head, so the tail need not be moved for it.
        self.layout.splice(out, start, 0, rv, api_version);
        self.append_tail(out)
    }

    /// Appends the JSON text of `metadata` with resourceVersion `rv`.
    pub(super) fn append_metadata(&self, out: &mut Vec<u8>, rv: u64) -> Result<(), BodyError> {
        let start = out.len();
        self.append_head(out)?;
        out.drain(start..start + self.layout.metadata_at());
        self.layout
            .splice(out, start, self.layout.metadata_at(), rv, None);
        Ok(())
    }

    /// Appends the text up to and including `metadata`, as it was compressed.
    fn append_head(&self, out: &mut Vec<u8>) -> Result<(), BodyError> {
        let frame = &self.frames[..self.head_frame as usize];
        let (len, dictionary) = (self.layout.head_len(), &self.decoder.prepared);
        Ok(codec::decompress(frame, len, dictionary, out)?)
    }

    /// Appends the text after `metadata`.
    fn append_tail(&self, out: &mut Vec<u8>) -> Result<(), BodyError> {
        let frame = &self.frames[self.head_frame as usize..];
        let (len, dictionary) = (self.layout.tail_len(), &self.decoder.prepared);
        Ok(codec::decompress(frame, len, dictionary, out)?)
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Body({} bytes in {})", self.json_len(), self.memory())
    }
}

/// An object that is ready to be stored: its text for the database, and the values that memory
/// keeps of it.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    /// Canonical JSON without resourceVersion.
    pub json: String,
    pub body: Body,
    /// The uid; empty where the object has none.
    pub uid: Box<str>,
    pub labels: Labels,
    /// `metadata.creationTimestamp` in seconds since the epoch; 0 where the object has none.
    pub created: i64,
    /// The projection that a database keeps beside the text; `None` for nothing.
    pub projection: Option<Box<Projection>>,
    /// The text in two parts, where it was taken apart already.
    pub framed: Option<Box<Framed>>,
    /// The text as SQLite keeps it, where it was packed already.
    pub packed: Option<Box<[u8]>>,
}

/// A formatter that writes floats as Go does: the text that is read is copied out of the store as
/// it is.
struct GoNumbers;

impl serde_json::ser::Formatter for GoNumbers {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(fieldmanager::go::float(value).as_bytes())
    }
}

/// Returns the text in which an object is stored, with its resourceVersion: compact, keys sorted.
///
/// # Errors
/// If a number cannot be written, which no number is that was read.
pub fn canonical_json(object: &Value) -> Result<Vec<u8>, BodyError> {
    written(object)
}

fn written(value: &impl Serialize) -> Result<Vec<u8>, BodyError> {
    // serde_json's map is sorted by key (its feature `preserve_order` is off; a test says so), which
    // makes this text canonical.
    let mut text = Vec::with_capacity(TYPICAL);
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, GoNumbers);
    value.serialize(&mut serializer)?;
    Ok(text)
}

/// An object without `metadata.resourceVersion`.
struct Unversioned<'a>(&'a Value);

impl Serialize for Unversioned<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(fields) = self.0 else {
            return self.0.serialize(serializer);
        };
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (key, value) in fields {
            match value {
                Value::Object(metadata) if key == "metadata" => {
                    map.serialize_entry(key, &WithoutVersion(metadata))?;
                }
                value => map.serialize_entry(key, value)?,
            }
        }
        map.end()
    }
}

/// Metadata without its resourceVersion.
struct WithoutVersion<'a>(&'a Map<String, Value>);

impl Serialize for WithoutVersion<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter(|(key, _)| *key != "resourceVersion"))
    }
}

/// Room for the text of a report, in bytes; larger ones take more as they are written.
const TYPICAL: usize = 8 << 10;

impl Encoded {
    /// Encodes `object` for a memory that uses `dictionary`; a resourceVersion in it is left out.
    pub fn from_value(object: &Value, dictionary: &Dictionary) -> Result<Self, BodyError> {
        let text = written(&Unversioned(object))?;
        let text = String::from_utf8(text).map_err(serde_json::Error::custom)?;
        Self::from_json(text, dictionary)
    }

    /// Encodes `object`, with its projection, and its text in two parts. `before` is the object that
    /// it replaces, where that is known.
    pub fn with_projection(
        object: &Value,
        before: Option<&StoredObject>,
        dictionary: &Dictionary,
    ) -> Result<Self, BodyError> {
        let projection = Projection::of(object).map(Box::new);
        let encoded = Self::from_value(object, dictionary)?;
        let framed = match before.and_then(|before| before.body.text().ok()) {
            Some(before) => Framed::replacing(&encoded.json, &before),
            None => Framed::of(&encoded.json),
        };
        Ok(Self {
            projection,
            framed: Some(Box::new(framed)),
            ..encoded
        })
    }

    /// Adds the projection of the object.
    pub fn project(&mut self) -> Result<(), BodyError> {
        let object: Value = serde_json::from_str(&self.json)?;
        self.projection = Projection::of(&object).map(Box::new);
        Ok(())
    }

    /// Takes a text that [`Encoded::from_value`] made.
    pub fn from_json(json: String, dictionary: &Dictionary) -> Result<Self, BodyError> {
        let (layout, metadata) = layout::read(json.as_bytes())?;
        Ok(Self {
            body: Body::compress(json.as_bytes(), layout, dictionary)?,
            uid: metadata.uid.into(),
            labels: metadata.labels,
            created: metadata.created,
            json,
            projection: None,
            framed: None,
            packed: None,
        })
    }

    /// Returns the object under `key` with version `rv`.
    pub fn into_object(self, key: ObjectKey, rv: u64, as_imported: bool) -> StoredObject {
        let Self {
            body,
            uid,
            labels,
            created,
            ..
        } = self;
        StoredObject {
            key,
            uid,
            rv,
            labels,
            created,
            as_imported,
            body,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{BodyError, Dictionary, Encoded};
    use crate::model::{ObjectKey, StoredObject};

    fn encode(object: &Value) -> Result<Encoded, BodyError> {
        Encoded::from_value(object, Dictionary::built_in())
    }

    fn stored(object: &Value, rv: u64) -> StoredObject {
        let encoded = encode(object).unwrap();
        encoded.into_object(ObjectKey::new("ns", "n"), rv, false)
    }

    fn report() -> Value {
        json!({"apiVersion": "g/v1", "kind": "K", "aaa": {"metadata": 1}, "results": [1, "é\n"],
            "metadata": {"name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7",
                "labels": {"b": "2", "a": "1"}, "creationTimestamp": "2026-11-21T08:00:00Z"}})
    }

    #[test]
    fn text_carries_the_version_it_was_committed_with() {
        let mut want = report();
        want["metadata"]["resourceVersion"] = json!("42");
        let object = stored(&report(), 42);
        assert_eq!(object.json().unwrap(), want.to_string());
        assert_eq!(
            object.metadata_json().unwrap(),
            want["metadata"].to_string()
        );
        assert_eq!(object.value().unwrap(), want);
        assert_eq!(&*object.uid, "u");
        assert_eq!(object.labels.get("b"), Some("2"));
        assert_eq!(
            object.creation_timestamp().unwrap().to_string(),
            "2026-11-21T08:00:00Z"
        );
    }

    #[test]
    fn text_is_served_in_another_version_and_appended() {
        let mut want = report();
        want["metadata"]["resourceVersion"] = json!("42");
        want["apiVersion"] = json!("group.example/v1beta1");
        let mut out = b"[".to_vec();
        stored(&report(), 42)
            .append_json(&mut out, Some("group.example/v1beta1"))
            .unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("[{want}"));
    }

    #[test]
    fn the_version_has_its_place_wherever_metadata_ends() {
        for metadata in [
            json!({}),
            json!({"name": "n"}),
            json!({"uid": "u"}),
            json!({"resourceVersions": "x"}),
            json!({"name": "n", "selfLink": ""}),
        ] {
            let mut want = json!({"metadata": metadata, "z": 1});
            let got = stored(&want, 9);
            want["metadata"]["resourceVersion"] = json!("9");
            assert_eq!(got.json().unwrap(), want.to_string());
            assert_eq!(got.metadata_json().unwrap(), want["metadata"].to_string());
        }
    }

    #[test]
    fn floats_are_written_as_in_go() {
        for (value, text) in [
            (9.223_372_036_854_776e18, "9223372036854776000"),
            (0.5, "0.5"),
        ] {
            let stored = stored(&json!({"metadata": {}, "z": value}), 9);
            let json = stored.json().unwrap();
            let end = format!("\"z\":{text}}}");
            assert!(json.ends_with(end.as_bytes()), "{json:?}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for bad in [
            json!(1),
            json!({}),
            json!({"metadata": []}),
            json!({"metadata": {"uid": 1}}),
        ] {
            assert!(encode(&bad).is_err(), "{bad}");
        }
        let nul = json!({"metadata": {"labels": {"a": "x\u{0}y"}}});
        assert!(encode(&nul).is_err());
    }

    #[test]
    fn keys_are_sorted_by_the_json_library() {
        assert_eq!(json!({"b": 1, "a": 2}).to_string(), r#"{"a":2,"b":1}"#);
    }
}
