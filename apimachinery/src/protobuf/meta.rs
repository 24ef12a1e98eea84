//! `ObjectMeta` and `ListMeta`.

use serde_json::Value;

use super::envelope;
use super::writer::Writer;
use crate::encoding;

/// Returns a `PartialObjectMetadata` of this metadata, without its envelope.
pub(super) fn partial(metadata: &Value) -> Vec<u8> {
    let mut partial = Writer::default();
    partial.message(1, |meta| object_meta(meta, metadata));
    partial.into_bytes()
}

/// A `PartialObjectMetadataList` to which items are added one by one.
#[derive(Debug)]
pub struct PartialList(Writer);

impl PartialList {
    /// Returns an empty list with this metadata.
    #[must_use]
    pub fn new(metadata: &Value) -> Self {
        let mut list = Writer::default();
        list.message(1, |meta| list_meta(meta, metadata));
        Self(list)
    }

    /// Adds an object with this metadata.
    pub fn push(&mut self, metadata: &Value) {
        self.0.bytes(2, &partial(metadata));
    }

    /// Returns the list as a document.
    #[must_use]
    pub fn document(self, api_version: &str) -> Vec<u8> {
        envelope(
            api_version,
            "PartialObjectMetadataList",
            &self.0.into_bytes(),
        )
    }
}

/// Writes a `ListMeta`.
pub(super) fn list_meta(out: &mut Writer, metadata: &Value) {
    out.text(1, "");
    out.text(2, text(metadata, "resourceVersion"));
    out.text(3, text(metadata, "continue"));
    if let Some(remaining) = metadata["remainingItemCount"].as_i64() {
        out.number(4, remaining);
    }
}

fn object_meta(out: &mut Writer, metadata: &Value) {
    out.text(1, text(metadata, "name"));
    out.text(2, text(metadata, "generateName"));
    out.text(3, text(metadata, "namespace"));
    out.text(4, text(metadata, "selfLink"));
    out.text(5, text(metadata, "uid"));
    out.text(6, text(metadata, "resourceVersion"));
    out.number(7, metadata["generation"].as_i64().unwrap_or_default());
    out.message(8, |time| timestamp(time, &metadata["creationTimestamp"]));
    if metadata["deletionTimestamp"].is_string() {
        out.message(9, |time| timestamp(time, &metadata["deletionTimestamp"]));
    }
    if let Some(seconds) = metadata["deletionGracePeriodSeconds"].as_i64() {
        out.number(10, seconds);
    }
    texts_by_key(out, 11, &metadata["labels"]);
    texts_by_key(out, 12, &metadata["annotations"]);
    for owner in items(metadata, "ownerReferences") {
        out.message(13, |out| owner_reference(out, owner));
    }
    for finalizer in items(metadata, "finalizers") {
        out.text(14, finalizer.as_str().unwrap_or_default());
    }
    for entry in items(metadata, "managedFields") {
        out.message(17, |out| managed_fields(out, entry));
    }
}

fn owner_reference(out: &mut Writer, owner: &Value) {
    out.text(1, text(owner, "kind"));
    out.text(3, text(owner, "name"));
    out.text(4, text(owner, "uid"));
    out.text(5, text(owner, "apiVersion"));
    for (field, name) in [(6, "controller"), (7, "blockOwnerDeletion")] {
        if let Some(value) = owner[name].as_bool() {
            out.boolean(field, value);
        }
    }
}

fn managed_fields(out: &mut Writer, entry: &Value) {
    out.text(1, text(entry, "manager"));
    out.text(2, text(entry, "operation"));
    out.text(3, text(entry, "apiVersion"));
    if entry["time"].is_string() {
        out.message(4, |time| timestamp(time, &entry["time"]));
    }
    out.text(6, text(entry, "fieldsType"));
    let fields = &entry["fieldsV1"];
    if !fields.is_null() {
        let raw = encoding::to_json(fields).unwrap_or_default();
        out.message(7, |out| out.bytes(1, &raw));
    }
    out.text(8, text(entry, "subresource"));
}

/// Writes a `Time`; a value that is none stays empty.
fn timestamp(out: &mut Writer, value: &Value) {
    let time = value.as_str().and_then(|text| text.parse().ok());
    if let Some(time) = time.map(jiff::Timestamp::as_second) {
        out.number(1, time);
        out.number(2, 0);
    }
}

fn texts_by_key(out: &mut Writer, field: u32, map: &Value) {
    for (key, value) in map.as_object().into_iter().flatten() {
        out.message(field, |entry| {
            entry.text(1, key);
            entry.text(2, value.as_str().unwrap_or_default());
        });
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

fn items<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    object[field].as_array().into_iter().flatten()
}
