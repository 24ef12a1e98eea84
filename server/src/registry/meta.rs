//! Access to `metadata` of an object as JSON. A missing or wrong-typed field reads as empty.

use serde_json::{Map, Value};

use super::Object;

/// The metadata, where it is an object.
#[must_use]
pub fn metadata(object: &Object) -> Option<&Map<String, Value>> {
    object.get("metadata").and_then(Value::as_object)
}

/// The metadata to change; anything else in its place becomes an empty object first.
pub fn metadata_mut(object: &mut Object) -> &mut Map<String, Value> {
    let slot = object.entry("metadata").or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// A text of the metadata; empty when it is missing.
#[must_use]
pub fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    metadata(object)
        .and_then(|m| m.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Sets a text of the metadata; an empty one removes the field.
pub fn set_text(object: &mut Object, field: &str, value: &str) {
    let metadata = metadata_mut(object);
    if value.is_empty() {
        metadata.remove(field);
    } else {
        metadata.insert(field.to_owned(), Value::String(value.to_owned()));
    }
}

/// `metadata.generation`; 0 when it is missing.
#[must_use]
pub fn generation(object: &Object) -> i64 {
    metadata(object)
        .and_then(|m| m.get("generation"))
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// Whether the object is being deleted.
#[must_use]
pub fn has_deletion_timestamp(object: &Object) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// The finalizers in their order.
pub fn finalizers(object: &Object) -> impl Iterator<Item = &str> {
    metadata(object)
        .and_then(|m| m.get("finalizers"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// The entries of a map of texts (`labels`, `annotations`) in a metadata object.
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
