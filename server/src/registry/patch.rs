//! JSON patch (RFC 6902) and JSON merge patch (RFC 7386) on an object.

use json_patch::jsonptr::Pointer;
use json_patch::{PatchOperation, patch_unsafe};
use serde_json::Value;

use super::{Object, RegistryError};
use crate::schema::FieldError;

/// Most operations in one JSON patch.
const MAX_OPERATIONS: usize = 10_000;
/// Most bytes that the `copy` operations of one JSON patch may copy together.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;
/// Deepest nesting that a JSON patch may build. Parsing JSON text stops at 128, so that what is
/// stored can always be read again, and recursion over a value stays within the stack.
const MAX_DEPTH: usize = 120;

/// A patch as the client sent it, decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// `application/json-patch+json`: operations in their order.
    Json(Vec<Value>),
    /// `application/merge-patch+json`.
    Merge(Object),
}

impl Patch {
    /// A JSON patch from its decoded body.
    ///
    /// # Errors
    /// 400 unless it is a list of objects; 413 for more than 10 000 operations.
    pub fn json(body: Value) -> Result<Self, RegistryError> {
        let Value::Array(operations) = body else {
            return Err(decoding(&body, "[]handlers.jsonPatchOp"));
        };
        if let Some(other) = operations.iter().find(|operation| !operation.is_object()) {
            return Err(decoding(other, "handlers.jsonPatchOp"));
        }
        if operations.len() > MAX_OPERATIONS {
            return Err(RegistryError::TooLarge(format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            )));
        }
        Ok(Self::Json(operations))
    }

    /// A merge patch from its decoded body.
    ///
    /// # Errors
    /// 400 unless it is an object.
    pub fn merge(body: Value) -> Result<Self, RegistryError> {
        match body {
            Value::Object(patch) => Ok(Self::Merge(patch)),
            other => Err(decoding(&other, "map[string]interface {}")),
        }
    }

    /// Applies the patch to a copy of `object`.
    ///
    /// # Errors
    /// 422 when an operation does not apply, or when the outcome is no object.
    pub fn apply(&self, object: &Object) -> Result<Object, RegistryError> {
        let mut document = Value::Object(object.clone());
        match self {
            Self::Json(operations) => apply_operations(&mut document, operations)?,
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
        "error decoding patch: json: cannot unmarshal {found} into Go value of type {into}"
    ))
}

fn apply_operations(document: &mut Value, operations: &[Value]) -> Result<(), RegistryError> {
    let mut copied = 0;
    for operation in operations {
        let parsed: PatchOperation = serde_json::from_value(operation.clone())
            .map_err(|e| RegistryError::PatchFailed(format!("invalid operation: {e}")))?;
        check_growth(document, &parsed, &mut copied)?;
        patch_unsafe(document, std::slice::from_ref(&parsed))
            .map_err(|e| RegistryError::PatchFailed(e.to_string()))?;
    }
    Ok(())
}

/// Refuses an operation that would make the document too deep, or copy too much of it: a few
/// operations could otherwise double it until memory ends.
fn check_growth(
    document: &Value,
    operation: &PatchOperation,
    copied: &mut usize,
) -> Result<(), RegistryError> {
    let (path, added) = match operation {
        PatchOperation::Add(add) => (&add.path, depth(&add.value)),
        PatchOperation::Replace(replace) => (&replace.path, depth(&replace.value)),
        PatchOperation::Move(mov) => (&mov.path, source(document, &mov.from).map_or(0, depth)),
        PatchOperation::Copy(copy) => {
            let source = source(document, &copy.from);
            *copied += source.map_or(0, |value| value.to_string().len());
            (&copy.path, source.map_or(0, depth))
        }
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    if *copied > MAX_COPIED_BYTES {
        return Err(RegistryError::PatchFailed(format!(
            "Unable to complete the copy, the accumulated size increase of copy is {copied}, \
             exceeding the limit {MAX_COPIED_BYTES}"
        )));
    }
    if path.tokens().count() + added > MAX_DEPTH {
        return Err(RegistryError::PatchFailed(format!(
            "exceeded the depth of {MAX_DEPTH} levels at path {path}"
        )));
    }
    Ok(())
}

fn source<'a>(document: &'a Value, from: &Pointer) -> Option<&'a Value> {
    document.pointer(from.as_str())
}

/// Levels of a value; 1 for a scalar. Recursion is bounded: by the parser for values of a request,
/// by [`MAX_DEPTH`] for the document.
fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(map) => map.values().map(depth).max(),
        _ => None,
    };
    1 + below.unwrap_or(0)
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
        Patch::json(operations)?.apply(&stored).map(Value::Object)
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
        for body in [json!({}), json!([1]), json!("x"), json!(null)] {
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
        let result = patched(json!([{"op": "replace", "path": "", "value": 1}]));
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
