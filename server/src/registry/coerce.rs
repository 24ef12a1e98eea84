//! Brings `metadata` of a request's object into the shape of `ObjectMeta`.
//!
//! The kube-apiserver decodes the metadata of custom resources into the Go type and writes it
//! back: unknown fields go, empty ones go, times become whole seconds in UTC, and a value of the
//! wrong type is refused. The same is done here on the JSON value.

use serde_json::{Map, Value};

use super::Object;

/// Metadata that no `ObjectMeta` can hold.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CoerceError {
    /// `metadata` is not an object.
    #[error("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta")]
    NotAnObject {
        /// JSON type that was found.
        found: &'static str,
    },
    /// A field has a value of another type.
    #[error("json: cannot unmarshal {found} into Go struct field ObjectMeta.{field} of type {want}")]
    Type {
        /// Path below `metadata`.
        field: String,
        /// JSON type that was found.
        found: &'static str,
        /// Type that the field has in Go.
        want: &'static str,
    },
    /// A time is not RFC 3339.
    #[error("parsing time {value:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse metadata.{field}")]
    Time {
        /// Path below `metadata`.
        field: String,
        /// What was given.
        value: String,
    },
}

/// Shape of one field.
enum Shape {
    Text,
    Integer,
    Bool,
    Time,
    TextMap,
    TextList,
    Any,
    List(&'static [(&'static str, Shape, Empty)]),
}

/// What becomes of an empty value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Empty {
    /// `omitempty`: the key goes.
    Drop,
    /// The key stays.
    Keep,
}

const OWNER_REFERENCE: &[(&str, Shape, Empty)] = &[
    ("apiVersion", Shape::Text, Empty::Keep),
    ("blockOwnerDeletion", Shape::Bool, Empty::Drop),
    ("controller", Shape::Bool, Empty::Drop),
    ("kind", Shape::Text, Empty::Keep),
    ("name", Shape::Text, Empty::Keep),
    ("uid", Shape::Text, Empty::Keep),
];

const MANAGED_FIELDS: &[(&str, Shape, Empty)] = &[
    ("apiVersion", Shape::Text, Empty::Drop),
    ("fieldsType", Shape::Text, Empty::Drop),
    ("fieldsV1", Shape::Any, Empty::Drop),
    ("manager", Shape::Text, Empty::Drop),
    ("operation", Shape::Text, Empty::Drop),
    ("subresource", Shape::Text, Empty::Drop),
    ("time", Shape::Time, Empty::Drop),
];

const OBJECT_META: &[(&str, Shape, Empty)] = &[
    ("annotations", Shape::TextMap, Empty::Drop),
    ("creationTimestamp", Shape::Time, Empty::Drop),
    ("deletionGracePeriodSeconds", Shape::Integer, Empty::Drop),
    ("deletionTimestamp", Shape::Time, Empty::Drop),
    ("finalizers", Shape::TextList, Empty::Drop),
    ("generateName", Shape::Text, Empty::Drop),
    ("generation", Shape::Integer, Empty::Drop),
    ("labels", Shape::TextMap, Empty::Drop),
    ("managedFields", Shape::List(MANAGED_FIELDS), Empty::Drop),
    ("name", Shape::Text, Empty::Drop),
    ("namespace", Shape::Text, Empty::Drop),
    ("ownerReferences", Shape::List(OWNER_REFERENCE), Empty::Drop),
    ("resourceVersion", Shape::Text, Empty::Drop),
    ("selfLink", Shape::Text, Empty::Drop),
    ("uid", Shape::Text, Empty::Drop),
];

/// Shapes `object.metadata` in place (an absent one becomes empty) and returns the paths of the
/// fields that `ObjectMeta` does not know and that were dropped, sorted.
///
/// # Errors
/// [`CoerceError`] when a value has a type that its field cannot hold; the object is then left
/// in an unspecified state and must not be used.
pub fn metadata(object: &mut Object) -> Result<Vec<String>, CoerceError> {
    let mut unknown = Vec::new();
    let slot = object.entry("metadata").or_insert(Value::Null);
    match slot {
        Value::Null => *slot = Value::Object(Map::new()),
        Value::Object(map) => fields(map, OBJECT_META, "", &mut unknown)?,
        other => return Err(CoerceError::NotAnObject { found: type_name(other) }),
    }
    Ok(unknown)
}

fn fields(
    map: &mut Map<String, Value>,
    known: &[(&str, Shape, Empty)],
    parent: &str,
    unknown: &mut Vec<String>,
) -> Result<(), CoerceError> {
    let keys: Vec<String> = map.keys().cloned().collect();
    for key in keys {
        let Some((_, shape, empty)) = known.iter().find(|(name, ..)| *name == key) else {
            unknown.push(format!("metadata.{parent}{key}"));
            map.remove(&key);
            continue;
        };
        let Some(value) = map.get_mut(&key) else { continue };
        let path = format!("{parent}{key}");
        shape.apply(value, &path, unknown)?;
        if value.is_null() || (*empty == Empty::Drop && is_empty(value, shape)) {
            map.remove(&key);
        }
    }
    for (name, _, empty) in known {
        if *empty == Empty::Keep && !map.contains_key(*name) {
            map.insert((*name).to_owned(), Value::String(String::new()));
        }
    }
    Ok(())
}

/// Go's `omitempty` for the types of these fields. A pointer (bool, grace period) is only empty
/// when it is nil, which `fields` has dropped as null already.
fn is_empty(value: &Value, shape: &Shape) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty() && !matches!(shape, Shape::Any),
        _ => false,
    }
}

impl Shape {
    fn apply(
        &self,
        value: &mut Value,
        path: &str,
        unknown: &mut Vec<String>,
    ) -> Result<(), CoerceError> {
        match (self, &mut *value) {
            (_, Value::Null)
            | (Shape::Any, _)
            | (Shape::Text, Value::String(_))
            | (Shape::Bool, Value::Bool(_)) => Ok(()),
            (Shape::Integer, Value::Number(number)) if number.is_i64() => Ok(()),
            (Shape::Time, Value::String(text)) => {
                *value = seconds(text, path)?;
                Ok(())
            }
            (Shape::TextMap, Value::Object(map)) => {
                map.values_mut().try_for_each(|v| text(v, path))
            }
            (Shape::TextList, Value::Array(items)) => {
                items.iter_mut().try_for_each(|v| text(v, path))
            }
            (Shape::List(known), Value::Array(items)) => list(items, known, path, unknown),
            (_, other) => Err(CoerceError::Type {
                field: path.to_owned(),
                found: type_name(other),
                want: self.go_type(),
            }),
        }
    }

    fn go_type(&self) -> &'static str {
        match self {
            Shape::Text => "string",
            Shape::Integer => "int64",
            Shape::Bool => "bool",
            Shape::Time => "v1.Time",
            Shape::TextMap => "map[string]string",
            Shape::TextList => "[]string",
            Shape::Any => "v1.FieldsV1",
            Shape::List(_) => "[]struct",
        }
    }
}

fn list(
    items: &mut [Value],
    known: &[(&str, Shape, Empty)],
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), CoerceError> {
    for (index, item) in items.iter_mut().enumerate() {
        if item.is_null() {
            *item = Value::Object(Map::new());
        }
        match item {
            Value::Object(map) => fields(map, known, &format!("{path}[{index}]."), unknown)?,
            other => {
                return Err(CoerceError::Type {
                    field: path.to_owned(),
                    found: type_name(other),
                    want: "struct",
                });
            }
        }
    }
    Ok(())
}

/// An element of a map or list of strings; null is the zero value.
fn text(value: &mut Value, path: &str) -> Result<(), CoerceError> {
    match value {
        Value::String(_) => Ok(()),
        Value::Null => {
            *value = Value::String(String::new());
            Ok(())
        }
        other => Err(CoerceError::Type {
            field: path.to_owned(),
            found: type_name(other),
            want: "string",
        }),
    }
}

fn seconds(text: &str, path: &str) -> Result<Value, CoerceError> {
    let time: jiff::Timestamp = text.parse().map_err(|_| CoerceError::Time {
        field: path.to_owned(),
        value: text.to_owned(),
    })?;
    Ok(Value::String(super::rfc3339(time)))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn coerced(metadata: Value) -> (Value, Vec<String>) {
        let mut object = Map::from_iter([("metadata".to_owned(), metadata)]);
        let unknown = super::metadata(&mut object).unwrap();
        (object.remove("metadata").unwrap(), unknown)
    }

    fn refused(metadata: Value) -> String {
        let mut object = Map::from_iter([("metadata".to_owned(), metadata)]);
        super::metadata(&mut object).unwrap_err().to_string()
    }

    #[test]
    fn unknown_and_empty_fields_go() {
        let (metadata, unknown) = coerced(json!({
            "name": "a", "foo": 1, "labels": {}, "annotations": {"a": null}, "finalizers": [],
            "creationTimestamp": null, "generateName": "", "clusterName": "c",
            "ownerReferences": [{"kind": "Pod", "bar": 2, "controller": false}],
            "managedFields": [{"manager": "m", "fieldsV1": {}}],
        }));
        assert_eq!(unknown, [
            "metadata.clusterName",
            "metadata.foo",
            "metadata.ownerReferences[0].bar"
        ]);
        assert_eq!(metadata, json!({
            "name": "a", "annotations": {"a": ""},
            "ownerReferences":
                [{"apiVersion": "", "kind": "Pod", "name": "", "uid": "", "controller": false}],
            "managedFields": [{"manager": "m", "fieldsV1": {}}],
        }));
    }

    #[test]
    fn times_become_seconds_in_utc() {
        let (metadata, _) = coerced(json!({
            "creationTimestamp": "2026-11-21T09:00:00.987+01:00", "deletionGracePeriodSeconds": 0,
        }));
        assert_eq!(metadata, json!({
            "creationTimestamp": "2026-11-21T08:00:00Z", "deletionGracePeriodSeconds": 0,
        }));
    }

    #[test]
    fn absent_metadata_becomes_empty() {
        let mut object = Map::new();
        assert_eq!(super::metadata(&mut object), Ok(Vec::new()));
        assert_eq!(object["metadata"], json!({}));
    }

    #[test]
    fn wrong_types_are_refused_with_the_field() {
        assert_eq!(refused(json!("x")), "json: cannot unmarshal string into Go value of type v1.ObjectMeta");
        for (metadata, field) in [
            (json!({"name": 1}), "name"),
            (json!({"labels": 1}), "labels"),
            (json!({"labels": {"a": 1}}), "labels"),
            (json!({"finalizers": "a"}), "finalizers"),
            (json!({"finalizers": [1]}), "finalizers"),
            (json!({"generation": "1"}), "generation"),
            (json!({"generation": 1.5}), "generation"),
            (json!({"ownerReferences": [[]]}), "ownerReferences"),
            (json!({"ownerReferences": [{"controller": "yes"}]}), "ownerReferences[0].controller"),
            (json!({"creationTimestamp": 5}), "creationTimestamp"),
            (json!({"creationTimestamp": "yesterday"}), "creationTimestamp"),
        ] {
            assert!(refused(metadata).contains(field), "{field}");
        }
    }
}
