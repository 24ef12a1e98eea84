//! Schemas of field types that need more than their Rust type says, and the last changes of the
//! schema that kube derives.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// Go duration without sign, such as `1h30m`. The small units are there because typed clients write
/// them: nothing at all is `0ns` to [`kube::core::Duration`].
const DURATION_PATTERN: &str = r"^([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h)){1,4}$";
/// Kubernetes quantity that is not negative.
const QUANTITY_PATTERN: &str =
    r"^[0-9]{1,18}(\.[0-9]{1,9})?([KMGTPE]i|[munkMGTPE]|[eE][-+]?[0-9]{1,2})?$";
/// The kube-apiserver's own pattern for quantities in the schemas of built-in types.
const ANY_QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Returns a [`kube::core::Duration`] that is not negative and at most a year.
pub fn duration(_: &mut SchemaGenerator) -> Schema {
    bounded_duration(
        "duration(self) <= duration('8784h')",
        "must not be longer than 8784h (366 days)",
    )
}

/// Returns a [`kube::core::Duration`] that is not negative and at most an hour.
pub fn window(_: &mut SchemaGenerator) -> Schema {
    bounded_duration(
        "duration(self) <= duration('1h')",
        "must not be longer than 1h",
    )
}

/// Returns the lifetime of a certificate: from a minute to ten years. The lower bound keeps a
/// certificate from expiring faster than the operator can replace it and the server can read it.
pub fn validity(_: &mut SchemaGenerator) -> Schema {
    bounded_duration(
        "duration(self) >= duration('1m') && duration(self) <= duration('87840h')",
        "must be between 1m and 87840h (ten years)",
    )
}

fn bounded_duration(rule: &str, message: &str) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 48,
        "pattern": DURATION_PATTERN,
        "x-kubernetes-validations": [{"rule": rule, "message": message}],
    })
}

/// Returns a quantity of bytes or things, written as a string (`10Gi`).
pub fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": 32, "pattern": QUANTITY_PATTERN})
}

/// Returns annotations or a node selector: at most 64 entries.
pub fn string_map(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": {"type": "string", "maxLength": 4096},
    })
}

/// Returns a number or a percentage, as in a `PodDisruptionBudget`.
pub fn int_or_percent(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": 16,
        "pattern": "^[0-9]+%?$",
    })
}

/// Returns any object. Its content is checked by the program that it is handed to.
pub fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Returns a list of at most 16 such objects.
pub fn any_objects(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": 16, "items": any_object(generator)})
}

/// Returns conditions, with the bounds that Kubernetes sets for its own.
pub fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "description": "What is told.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": {
                    "description": "Whether it is so.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "reason": {
                    "description": "Why, as a token for programs.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "description": "Why, in words for people.",
                    "type": "string",
                    "maxLength": 32768,
                },
                "lastTransitionTime": {
                    "description": "When the status last changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "observedGeneration": {
                    "description": "Generation of the specification that this is about.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
            },
        },
    })
}

/// Leaves the description to the field: kube 5.0 prefers that of the type where a field is an
/// optional enum, and then the field's own words and its default would be lost.
pub fn without_description(schema: &mut Schema) {
    schema.remove("description");
}

/// Turns a derived schema into the published one.
///
/// - `nullable` and `null` in enums go: `null` means nothing here, and leaving the field out does.
/// - `default` goes: defaults are the operator's and are shown in status, so that a new version of
///   the CRD never changes objects which are stored already.
/// - Descriptions taken over from built-in types are cut to their first paragraph, and their
///   quantities get the pattern that the kube-apiserver publishes.
pub(super) fn publish(schema: &mut Value) {
    let Value::Object(node) = schema else { return };
    node.remove("nullable");
    node.remove("default");
    if let Some(Value::Array(values)) = node.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if node.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
        publish_int_or_string(node);
    }
    publish_description(node);
    for key in ["properties", "patternProperties"] {
        if let Some(Value::Object(children)) = node.get_mut(key) {
            children.values_mut().for_each(publish);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = node.get_mut(key) {
            publish(child);
        }
    }
}

/// Keeps the first paragraph, on one line.
fn publish_description(node: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = node.get_mut("description") {
        let end = text.find("\n\n").unwrap_or(text.len());
        *text = text[..end].split_whitespace().collect::<Vec<_>>().join(" ");
    }
}

fn publish_int_or_string(node: &mut Map<String, Value>) {
    node.remove("format");
    node.insert(
        "anyOf".into(),
        json!([{"type": "integer"}, {"type": "string"}]),
    );
    let quantity = node
        .get("description")
        .and_then(Value::as_str)
        .is_some_and(|text| text.starts_with("Quantity is"));
    if quantity {
        node.insert("pattern".into(), json!(ANY_QUANTITY_PATTERN));
        node.remove("description");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use regex::Regex;
    use rstest::rstest;

    use super::DURATION_PATTERN;

    #[rstest]
    #[case(Duration::ZERO)]
    #[case(Duration::from_nanos(1))]
    #[case(Duration::from_nanos(1500))]
    #[case(Duration::from_millis(20))]
    #[case(Duration::from_hours(24))]
    #[case(Duration::new(31_622_400, 999_999_999))]
    fn what_a_typed_client_writes_is_accepted(#[case] duration: Duration) {
        let pattern = Regex::new(DURATION_PATTERN).unwrap();
        let written = serde_json::to_value(kube::core::Duration::from(duration)).unwrap();
        assert!(pattern.is_match(written.as_str().unwrap()), "{written}");
    }
}
