//! JSON patch (RFC 6902) and JSON merge patch (RFC 7386) on an object, read and done as the
//! kube-apiserver reads and does them.

mod merge;
mod node;
mod operations;
mod read;

use apimachinery::schema::{self, Encoding, FieldError};
use serde_json::Value;

use self::node::Node;
use self::operations::Operation;
use super::{Object, RegistryError};

/// Most operations in one JSON patch.
const MAX_OPERATIONS: usize = 10_000;
/// Message of the decoder of objects about a list.
const NO_OBJECT: &str = "couldn't get version/kind; json parse error: json: cannot unmarshal array \
                         into Go value of type struct { APIVersion string \
                         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                         \"json:\\\"kind,omitempty\\\"\" }";

/// A patch as the client sent it, decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// `application/json-patch+json`: operations in their order.
    Json(Vec<Operation>),
    /// `application/merge-patch+json`.
    Merge(Object),
    /// A merge patch that is a list, which takes the place of the object.
    List(Node),
}

impl Patch {
    /// Returns a JSON patch from its text, which has to be JSON, and, where it is read `strictly`,
    /// the mistakes in it.
    ///
    /// # Errors
    /// 400 unless it is a list of objects, strictly also unless their members are texts; 413 for
    /// more than 10 000 operations.
    pub fn json(text: &str, strictly: bool) -> Result<(Self, Vec<String>), RegistryError> {
        let (operations, told) = read::operations(text, strictly)?;
        if operations.len() > MAX_OPERATIONS {
            return Err(RegistryError::TooLarge(format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            )));
        }
        Ok((Self::Json(operations), told))
    }

    /// Returns a merge patch from its text and the value of that text.
    ///
    /// # Errors
    /// 400 unless it is an object, or a list that is not read `strictly`.
    pub fn merge(text: &str, value: Value, strictly: bool) -> Result<Self, RegistryError> {
        match value {
            Value::Object(patch) => Ok(Self::Merge(patch)),
            Value::Array(_) if !strictly => {
                let mut list = Node::written(text);
                list.prune_nulls();
                Ok(Self::List(list))
            }
            Value::Null => Err(no_patch()),
            _ if !strictly => Err(no_patch()),
            other => {
                let into = "Go value of type map[string]interface {}";
                Err(decoding(strictly, &other, into))
            }
        }
    }

    /// Applies the patch to a copy of `object`.
    ///
    /// # Errors
    /// 422 when an operation does not apply, or when the outcome is no object.
    pub fn apply(&self, object: &Object) -> Result<Patched, RegistryError> {
        let patched = match self {
            Self::Merge(patch) => {
                let mut object = object.clone();
                merge::merge(&mut object, patch);
                let duplicates = Vec::new();
                return Ok(Patched { object, duplicates });
            }
            Self::Json(list) => {
                let mut document = Node::from(Value::Object(object.clone()));
                operations::apply(&mut document, list)?;
                document
            }
            Self::List(list) => list.clone(),
        };
        let text = patched.to_string();
        let refuse = |why: &str| FieldError::invalid("patch", text.as_str(), why);
        let decoded = schema::decode(text.as_bytes(), Encoding::Json)
            .map_err(|error| RegistryError::PatchResult(refuse(&error.to_string())))?;
        match decoded.value {
            Value::Object(object) => Ok(Patched {
                object,
                duplicates: decoded.duplicates,
            }),
            _ => Err(RegistryError::PatchResult(refuse(NO_OBJECT))),
        }
    }
}

/// The outcome of a patch on an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Patched {
    /// The outcome.
    pub object: Object,
    /// Keys that are twice in one of its objects, which a value of a patch may bring along.
    pub duplicates: Vec<String>,
}

/// Returns the error of the library for a text that is no patch.
fn no_patch() -> RegistryError {
    RegistryError::BadRequest("Invalid JSON Patch".to_owned())
}

/// Returns the error of Go for a value of the wrong type. A strict reader names the place.
fn decoding(strictly: bool, found: &Value, into: &str) -> RegistryError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let head = if strictly {
        "error decoding patch: "
    } else {
        ""
    };
    RegistryError::BadRequest(format!("{head}json: cannot unmarshal {found} into {into}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    fn json_patch(patch: &Value) -> Result<(Patch, Vec<String>), RegistryError> {
        Patch::json(&patch.to_string(), true)
    }

    fn patched(operations: &Value) -> Result<Value, RegistryError> {
        let stored = object(json!({"a": {"b": 1}, "l": [1, 2]}));
        let (patch, _) = json_patch(operations)?;
        patch
            .apply(&stored)
            .map(|patched| Value::Object(patched.object))
    }

    fn refused<T: std::fmt::Debug>(read: Result<T, RegistryError>) -> String {
        match read.unwrap_err() {
            RegistryError::BadRequest(message) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn json_patch_applies() {
        let result = patched(&json!([
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
            json!({"OP": "remove", "path": "/a"}),
        ] {
            assert!(matches!(
                patched(&json!([operation])),
                Err(RegistryError::PatchFailed(_))
            ));
        }
    }

    #[rstest::rstest]
    #[case(
        "{}",
        "object into Go value of type []handlers.jsonPatchOp",
        "object into Go value of type jsonpatch.Patch"
    )]
    #[case(
        "\"x\"",
        "string into Go value of type []handlers.jsonPatchOp",
        "string into Go value of type jsonpatch.Patch"
    )]
    #[case(
        "[1]",
        "number into Go value of type handlers.jsonPatchOp",
        "number into Go value of type jsonpatch.Operation"
    )]
    #[case(
        "[null, true]",
        "bool into Go value of type handlers.jsonPatchOp",
        "bool into Go value of type jsonpatch.Operation"
    )]
    fn what_is_no_json_patch(#[case] text: &str, #[case] strict: &str, #[case] careless: &str) {
        let head = "json: cannot unmarshal";
        assert_eq!(
            refused(Patch::json(text, true)),
            format!("error decoding patch: {head} {strict}")
        );
        assert_eq!(
            refused(Patch::json(text, false)),
            format!("{head} {careless}")
        );
    }

    #[test]
    fn odd_members_are_found_at_once_or_when_they_are_needed() {
        let text = r#"[{"path":[],"op":7},{"op":true}]"#;
        assert_eq!(
            refused(Patch::json(text, true)),
            "error decoding patch: json: cannot unmarshal array into Go struct field \
             jsonPatchOp.path of type string"
        );
        let (patch, told) = Patch::json(text, false).unwrap();
        assert_eq!(told, [""; 0]);
        assert!(matches!(
            patch.apply(&Object::new()),
            Err(RegistryError::PatchFailed(_))
        ));
    }

    #[test]
    fn what_a_strict_reader_says() {
        let text = r#"[{"op":"add","note":1,"path":"/a","path":"/b","note":2,
            "value":{"x":1,"x":[{"y":1,"y":2}]}}, {"op":"remove","path":"/a","Op":"x"}]"#;
        let (_, told) = Patch::json(text, true).unwrap();
        assert_eq!(
            told,
            [
                "unknown field \"[0].note\"",
                "duplicate field \"[0].path\"",
                "duplicate field \"[0].value.x\"",
                "duplicate field \"[0].value.x[0].y\"",
                "unknown field \"[1].Op\"",
            ]
        );
        let nothing = Patch::json("null", true).unwrap();
        assert_eq!(nothing, (Patch::Json(Vec::new()), Vec::new()));
    }

    #[test]
    fn what_is_there_twice_stays_until_it_is_looked_into() {
        let stored = object(json!({"a": 1}));
        let outcome = |operations: &str| {
            let (patch, _) = Patch::json(operations, true).unwrap();
            patch.apply(&stored).unwrap()
        };
        let add = r#"{"op":"add","path":"/b","value":{"x":1,"x":2.0}}"#;
        let patched = outcome(&format!("[{add}]"));
        assert_eq!(
            Value::Object(patched.object),
            json!({"a": 1, "b": {"x": 2}})
        );
        assert_eq!(patched.duplicates, ["duplicate field \"b.x\""]);
        let patched = outcome(&format!(
            r#"[{add},{{"op":"add","path":"/b/y","value":3}}]"#
        ));
        assert_eq!(patched.duplicates, [""; 0]);
    }

    #[test]
    fn too_many_operations() {
        let operations = vec![json!({"op": "test", "path": "/l/0", "value": 1}); 10_001];
        assert!(matches!(
            json_patch(&Value::Array(operations)),
            Err(RegistryError::TooLarge(_))
        ));
    }

    #[test]
    fn copies_cannot_double_without_end() {
        let mut operations = vec![json!({"op": "add", "path": "/x", "value": ["x".repeat(1000)]})];
        operations.extend((0..64).map(|_| json!({"op": "copy", "from": "/x", "path": "/x/-"})));
        let error = patched(&Value::Array(operations)).unwrap_err();
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
        let error = patched(&Value::Array(operations)).unwrap_err();
        assert!(matches!(error, RegistryError::PatchFailed(text) if text.contains("depth")));
    }

    #[test]
    fn outcome_must_be_an_object() {
        let result = patched(&json!([{"op": "replace", "path": "", "value": [1]}]));
        assert!(matches!(result, Err(RegistryError::PatchResult(_))));
    }

    #[test]
    fn merge_patch_sets_and_removes() {
        let stored = object(json!({"a": {"b": 1, "c": 2}, "l": [1]}));
        let value = json!({"a": {"b": null, "d": 3}, "l": [2]});
        let patch = Patch::merge(&value.to_string(), value, true).unwrap();
        assert_eq!(
            patch
                .apply(&stored)
                .map(|patched| Value::Object(patched.object)),
            Ok(json!({"a": {"c": 2, "d": 3}, "l": [2]}))
        );
    }

    #[test]
    fn a_list_is_no_merge_patch_but_for_the_careless() {
        let (text, value) = (r#"[{"a": null, "b": 1.0}]"#, json!([{"a": null, "b": 1}]));
        assert_eq!(
            refused(Patch::merge(text, value.clone(), true)),
            "error decoding patch: json: cannot unmarshal array into Go value of type \
             map[string]interface {}"
        );
        let patch = Patch::merge(text, value, false).unwrap();
        let RegistryError::PatchResult(error) = patch.apply(&Object::new()).unwrap_err() else {
            panic!("another error");
        };
        assert_eq!(error.value, Some(json!(r#"[{"b":1.0}]"#)));
        for text in ["null", "7", "\"x\""] {
            let value = serde_json::from_str(text).unwrap();
            assert_eq!(
                refused(Patch::merge(text, value, false)),
                "Invalid JSON Patch"
            );
        }
    }
}
