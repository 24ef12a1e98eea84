//! Access to `metadata` of an object as JSON. A missing or wrong-typed field reads as empty.

use serde_json::{Map, Value};

use super::Object;

/// Returns the metadata, where it is an object.
#[must_use]
pub fn metadata(object: &Object) -> Option<&Map<String, Value>> {
    object.get("metadata").and_then(Value::as_object)
}

/// Changes the metadata; anything but an object in its place becomes an empty one first.
pub fn edit<R>(object: &mut Object, change: impl FnOnce(&mut Map<String, Value>) -> R) -> R {
    let mut metadata = match object.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    let result = change(&mut metadata);
    object.insert("metadata".to_owned(), Value::Object(metadata));
    result
}

/// Returns a text of the metadata; empty when it is missing.
#[must_use]
pub fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    metadata(object)
        .and_then(|m| m.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Sets a text of the metadata; an empty one removes the field.
pub fn set_text(object: &mut Object, field: &str, value: &str) {
    edit(object, |metadata| {
        if value.is_empty() {
            metadata.remove(field);
        } else {
            metadata.insert(field.to_owned(), Value::String(value.to_owned()));
        }
    });
}

/// Returns `metadata.resourceVersion`; `None` where it is no number. Rust takes a leading plus sign,
/// Go does not.
#[must_use]
pub fn resource_version(object: &Object) -> Option<u64> {
    let text = text(object, "resourceVersion");
    if text.starts_with('+') {
        return None;
    }
    text.parse().ok()
}

/// Returns `metadata.generation`; 0 when it is missing.
#[must_use]
pub fn generation(object: &Object) -> i64 {
    metadata(object)
        .and_then(|m| m.get("generation"))
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// Returns whether the object is being deleted.
#[must_use]
pub fn has_deletion_timestamp(object: &Object) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// Returns the finalizers in their order.
pub fn finalizers(object: &Object) -> impl Iterator<Item = &str> {
    metadata(object)
        .and_then(|m| m.get("finalizers"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Returns the entries of a map of texts (`labels`, `annotations`) in a metadata object.
pub fn text_map<'a>(
    metadata: &'a Map<String, Value>,
    field: &str,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    metadata
        .get(field)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}
