//! One stored object.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{Body, BodyError, Labels, ObjectKey};

/// An object at one resourceVersion. Immutable; shared between the cache, events and snapshots.
#[derive(Clone, Debug)]
pub struct StoredObject {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub rv: u64,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `metadata.creationTimestamp` in seconds since the epoch; 0 where the object has none.
    pub created: i64,
    /// True while the object is as it was imported: no write of ours has touched it.
    pub as_imported: bool,
    /// The JSON text, in the storage version.
    pub body: Body,
}

impl StoredObject {
    /// Returns the object's canonical JSON (compact, sorted keys), resourceVersion included.
    ///
    /// # Errors
    /// Only when the memory of the body is corrupt.
    pub fn json(&self) -> Result<Bytes, BodyError> {
        let mut out = Vec::new();
        self.append_json(&mut out, None)?;
        Ok(out.into())
    }

    /// Appends the text of [`StoredObject::json`] to `out`, with `api_version` in place of the
    /// object's own where it is given: versions without conversion differ in nothing else.
    ///
    /// # Errors
    /// Only when the memory of the body is corrupt.
    pub fn append_json(
        &self,
        out: &mut Vec<u8>,
        api_version: Option<&str>,
    ) -> Result<(), BodyError> {
        self.body.append_json(out, self.rv, api_version)
    }

    /// Returns the JSON text of `metadata`, resourceVersion included, without decompressing the
    /// rest.
    ///
    /// # Errors
    /// Only when the memory of the body is corrupt.
    pub fn metadata_json(&self) -> Result<Bytes, BodyError> {
        let mut out = Vec::new();
        self.append_metadata_json(&mut out)?;
        Ok(out.into())
    }

    /// Appends the text of [`StoredObject::metadata_json`] to `out`.
    ///
    /// # Errors
    /// Only when the memory of the body is corrupt.
    pub fn append_metadata_json(&self, out: &mut Vec<u8>) -> Result<(), BodyError> {
        self.body.append_metadata(out, self.rv)
    }

    /// Returns whether the object is stored as `object` with `api_version` in place of its own: a
    /// write of that would store the same text, and reading the text gives that. Where it is not
    /// certain, the answer is no.
    ///
    /// The text is not parsed, and not looked at behind the first difference.
    #[must_use]
    pub fn is_stored_as(&self, object: &Map<String, Value>, api_version: &str) -> bool {
        self.body.is_of(self.rv, object, api_version)
    }

    /// Returns the same object with `body`, which has the same text.
    pub(crate) fn with_body(&self, body: Body) -> Self {
        Self {
            key: self.key.clone(),
            uid: self.uid.clone(),
            rv: self.rv,
            labels: self.labels.clone(),
            created: self.created,
            as_imported: self.as_imported,
            body,
        }
    }

    /// Returns the object parsed.
    ///
    /// # Errors
    /// Only when the memory of the body is corrupt.
    pub fn value(&self) -> Result<Value, BodyError> {
        Ok(serde_json::from_slice(&self.json()?)?)
    }

    /// Returns `metadata.creationTimestamp`.
    #[must_use]
    pub fn creation_timestamp(&self) -> Option<Timestamp> {
        (self.created != 0)
            .then(|| Timestamp::from_second(self.created).ok())
            .flatten()
    }

    /// Returns the memory that this object holds, in bytes; memory that it shares with others
    /// counts in full.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.key.as_str().len()
            + self.uid.len()
            + self.labels.memory()
            + self.body.memory()
    }
}
