//! The positions of fields in the canonical text of an object.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{BodyError, Labels};

/// Offsets in a canonical text without resourceVersion, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    head_len: u32,
    tail_len: u32,
    metadata_at: u32,
    /// The place of the resourceVersion: behind the last key that sorts before it.
    rv_at: u32,
    /// The commas that it needs there.
    rv_commas: Commas,
    /// The quoted value of `apiVersion`; empty where there is none before `metadata`.
    api_version: (u32, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commas {
    Before,
    After,
    None,
}

/// The metadata that memory keeps.
pub(super) struct Metadata {
    pub uid: String,
    pub labels: Labels,
    pub created: i64,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, rename = "apiVersion")]
    api_version: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow, default)]
    uid: Option<Cow<'a, str>>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    creation_timestamp: Option<jiff::Timestamp>,
}

/// Finds the offsets in a canonical text and reads the metadata in it.
pub(super) fn read(json: &[u8]) -> Result<(Layout, Metadata), BodyError> {
    let object: Object = serde_json::from_slice(json)?;
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(object.metadata.get())?;
    let meta: Meta = serde_json::from_str(object.metadata.get())?;
    let labels = meta.labels.unwrap_or_default();
    if labels
        .iter()
        .any(|(k, v)| k.contains('\0') || v.contains('\0'))
    {
        return Err(BodyError::Label);
    }

    let metadata = range(json, object.metadata);
    let before = fields.range(..String::from("resourceVersion")).next_back();
    let after = before.map_or(!fields.is_empty(), |(k, _)| {
        fields.range(k.clone()..).nth(1).is_some()
    });
    let (rv_at, rv_commas) = match before {
        Some((_, value)) => (range(json, value).end, Commas::Before),
        None if after => (metadata.start + 1, Commas::After),
        None => (metadata.start + 1, Commas::None),
    };
    let api_version = object
        .api_version
        .map(|v| range(json, v))
        .filter(|r| r.end <= metadata.start)
        .unwrap_or_default();
    let layout = Layout {
        head_len: offset(metadata.end)?,
        tail_len: offset(json.len() - metadata.end)?,
        metadata_at: offset(metadata.start)?,
        rv_at: offset(rv_at)?,
        rv_commas,
        api_version: (offset(api_version.start)?, offset(api_version.end)?),
    };
    let created = meta
        .creation_timestamp
        .map_or(0, jiff::Timestamp::as_second);
    let uid = meta.uid.unwrap_or_default().into_owned();
    Ok((
        layout,
        Metadata {
            uid,
            labels: labels.into_iter().collect(),
            created,
        },
    ))
}

/// Returns the range of `part`, which was borrowed from `whole`, in it.
fn range(whole: &[u8], part: &RawValue) -> Range<usize> {
    let start = part.get().as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.get().len()
}

/// Returns a length or a place in a text as memory keeps it.
pub(super) fn offset(n: usize) -> Result<u32, BodyError> {
    u32::try_from(n).map_err(|_| BodyError::TooLarge)
}

impl Layout {
    pub fn len(&self) -> usize {
        self.head_len() + self.tail_len()
    }

    pub fn head_len(&self) -> usize {
        self.head_len as usize
    }

    pub fn tail_len(&self) -> usize {
        self.tail_len as usize
    }

    pub fn metadata_at(&self) -> usize {
        self.metadata_at as usize
    }

    /// Inserts the resourceVersion, and `api_version` if given, into the text that begins at
    /// `start` of `out` and lacks its first `skipped` bytes.
    pub fn splice(
        &self,
        out: &mut Vec<u8>,
        start: usize,
        skipped: usize,
        rv: u64,
        api_version: Option<&str>,
    ) {
        let rv_at = start + self.rv_at as usize - skipped;
        let text = match self.rv_commas {
            Commas::Before => format!(r#","resourceVersion":"{rv}""#),
            Commas::After => format!(r#""resourceVersion":"{rv}","#),
            Commas::None => format!(r#""resourceVersion":"{rv}""#),
        };
        out.splice(rv_at..rv_at, text.bytes());
        let (from, to) = self.api_version;
        if let Some(version) = api_version.filter(|_| to > from) {
            let quoted = start + from as usize + 1..start + to as usize - 1;
            out.splice(quoted, version.bytes());
        }
    }
}
