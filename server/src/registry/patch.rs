//! JSON patch (RFC 6902) and JSON merge patch (RFC 7386) on an object.

mod operations;

use serde_json::Value;

use super::{Object, RegistryError};
use crate::schema::FieldError;

/// Most operations in one JSON patch.
const MAX_OPERATIONS: usize = 10_000;
/// What an operation consists of.
const MEMBERS: [&str; 4] = ["op", "path", "from", "value"];

/// A patch as the client sent it, decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// `application/json-patch+json`: operations in their order.
    Json(Vec<Value>),
    /// `application/merge-patch+json`.
    Merge(Object),
}

impl Patch {
    /// A JSON patch from its decoded body, and what a strict reader has to say of it.
    ///
    /// # Errors
    /// 400 unless it is a list of objects whose members are texts; 413 for more than 10 000
    /// operations.
    pub fn json(body: Value) -> Result<(Self, Vec<String>), RegistryError> {
        let operations = match body {
            Value::Array(operations) => operations,
            Value::Null => Vec::new(),
            other => return Err(decoding(&other, "Go value of type []handlers.jsonPatchOp")),
        };
        let mut unknown = Vec::new();
        for (index, operation) in operations.iter().enumerate() {
            let members = match operation {
                Value::Object(members) => members,
                Value::Null => continue,
                other => return Err(decoding(other, "Go value of type handlers.jsonPatchOp")),
            };
            for name in ["op", "path", "from"] {
                let value = members.get(name).unwrap_or(&Value::Null);
                if !(value.is_string() || value.is_null()) {
                    let field = format!("Go struct field jsonPatchOp.{name} of type string");
                    return Err(decoding(value, &field));
                }
            }
            let odd = members.keys().filter(|name| !MEMBERS.contains(&&***name));
            unknown.extend(odd.map(|name| format!("unknown field \"[{index}].{name}\"")));
        }
        if operations.len() > MAX_OPERATIONS {
            return Err(RegistryError::TooLarge(format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            )));
        }
        Ok((Self::Json(operations), unknown))
    }

    /// A merge patch from its decoded body.
    ///
    /// # Errors
    /// 400 unless it is an object.
    pub fn merge(body: Value) -> Result<Self, RegistryError> {
        match body {
            Value::Object(patch) => Ok(Self::Merge(patch)),
            Value::Null => Err(RegistryError::BadRequest("Invalid JSON Patch".to_owned())),
            other => Err(decoding(&other, "Go value of type map[string]interface {}")),
        }
    }

    /// Applies the patch to a copy of `object`.
    ///
    /// # Errors
    /// 422 when an operation does not apply, or when the outcome is no object.
    pub fn apply(&self, object: &Object) -> Result<Object, RegistryError> {
        let mut document = Value::Object(object.clone());
        match self {
            Self::Json(list) => operations::apply(&mut document, list)?,
            Self::Merge(patch) => {
                json_patch::merge(&mut document, &Value::Object(patch.clone()));
            }
        }
        match document {
            Value::Object(patched) => Ok(patched),
            other => Err(RegistryError::PatchResult(FieldError::invalid(
                "patch",
                other.to_string(),
                "json: cannot unmarshal into an object",
            ))),
        }
    }
}

fn decoding(found: &Value, into: &str) -> RegistryError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    RegistryError::BadRequest(format!(
        "error decoding patch: json: cannot unmarshal {found} into {into}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    fn patched(operations: Value) -> Result<Value, RegistryError> {
        let stored = object(json!({"a": {"b": 1}, "l": [1, 2]}));
        let (patch, _) = Patch::json(operations)?;
        patch.apply(&stored).map(Value::Object)
    }

    #[test]
    fn json_patch_applies() {
        let result = patched(json!([
            {"op": "test", "path": "/a/b", "value": 1},
            {"op": "replace", "path": "/a/b", "value": 2},
            {"op": "add", "path": "/l/-", "value": 3},
            {"op": "remove", "path": "/l/0"},
        ]));
        assert_eq!(result, Ok(json!({"a": {"b": 2}, "l": [2, 3]})));
    }

    #[test]
    fn failing_operations_are_unprocessable() {
        for operation in [
            json!({"op": "test", "path": "/a/b", "value": 2}),
            json!({"op": "remove", "path": "/missing"}),
            json!({"op": "nonsense", "path": "/a"}),
            json!({"op": "add", "path": "no-slash", "value": 1}),
            json!(null),
            json!({"path": "/a"}),
        ] {
            assert!(matches!(
                patched(json!([operation])),
                Err(RegistryError::PatchFailed(_))
            ));
        }
    }

    #[test]
    fn unreadable_patches_are_bad_requests() {
        for body in [json!({}), json!([1]), json!("x"), json!([{"op": 1}])] {
            assert!(matches!(
                Patch::json(body),
                Err(RegistryError::BadRequest(_))
            ));
        }
        for body in [json!([]), json!("x"), json!(null)] {
            assert!(matches!(
                Patch::merge(body),
                Err(RegistryError::BadRequest(_))
            ));
        }
    }

    #[test]
    fn unknown_members_are_told() {
        let (_, unknown) = Patch::json(json!([{"op": "remove", "path": "/a", "note": 1}])).unwrap();
        assert_eq!(unknown, ["unknown field \"[0].note\""]);
        let nothing = Patch::json(json!(null)).unwrap();
        assert_eq!(nothing, (Patch::Json(Vec::new()), Vec::new()));
    }

    #[test]
    fn too_many_operations() {
        let operations = vec![json!({"op": "test", "path": "/l/0", "value": 1}); 10_001];
        assert!(matches!(
            Patch::json(Value::Array(operations)),
            Err(RegistryError::TooLarge(_))
        ));
    }

    #[test]
    fn copies_cannot_double_without_end() {
        let mut operations = vec![json!({"op": "add", "path": "/x", "value": ["x".repeat(1000)]})];
        operations.extend((0..64).map(|_| json!({"op": "copy", "from": "/x", "path": "/x/-"})));
        let error = patched(Value::Array(operations)).unwrap_err();
        assert!(matches!(error, RegistryError::PatchFailed(text) if text.contains("exceed")));
    }

    #[test]
    fn nesting_is_bounded() {
        let mut operations = vec![json!({"op": "add", "path": "/x", "value": {}})];
        for _ in 0..5000 {
            operations.push(json!({"op": "move", "from": "/x", "path": "/y"}));
            operations.push(json!({"op": "add", "path": "/x", "value": {}}));
            operations.push(json!({"op": "move", "from": "/y", "path": "/x/z"}));
        }
        operations.truncate(10_000);
        let error = patched(Value::Array(operations)).unwrap_err();
        assert!(matches!(error, RegistryError::PatchFailed(text) if text.contains("depth")));
    }

    #[test]
    fn outcome_must_be_an_object() {
        let result = patched(json!([{"op": "replace", "path": "", "value": [1]}]));
        assert!(matches!(result, Err(RegistryError::PatchResult(_))));
    }

    #[test]
    fn merge_patch_sets_and_removes() {
        let stored = object(json!({"a": {"b": 1, "c": 2}, "l": [1]}));
        let patch = Patch::merge(json!({"a": {"b": null, "d": 3}, "l": [2]})).unwrap();
        assert_eq!(
            patch.apply(&stored).map(Value::Object),
            Ok(json!({"a": {"c": 2, "d": 3}, "l": [2]}))
        );
    }
}
