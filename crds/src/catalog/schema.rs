//! Builders of structural schemas. Each takes the description first: no field goes without one.

use serde_json::{Map, Value, json};

/// A field of an object: its name and its schema.
pub type Field = (&'static str, Value);

/// Returns the schema of any text.
pub fn string(description: &str) -> Value {
    json!({"description": description, "type": "string"})
}

/// Returns the schema of one of some texts.
pub fn one_of(description: &str, values: &[&str]) -> Value {
    json!({"description": description, "type": "string", "enum": values})
}

/// Returns the schema of a whole number.
pub fn integer(description: &str) -> Value {
    json!({"description": description, "type": "integer"})
}

/// Returns the schema of a whole number of `int32` or `int64`.
pub fn sized_integer(description: &str, format: &str) -> Value {
    json!({"description": description, "type": "integer", "format": format})
}

/// Returns the schema of true or false.
pub fn boolean(description: &str) -> Value {
    json!({"description": description, "type": "boolean"})
}

/// Returns the schema of a list.
pub fn list(description: &str, items: &Value) -> Value {
    json!({"description": description, "type": "array", "items": items})
}

/// Returns the schema of a map from text to text.
pub fn string_map(description: &str) -> Value {
    json!({
        "description": description,
        "type": "object",
        "additionalProperties": {"type": "string"},
    })
}

/// Returns the schema of an object with fields, some of them required.
pub fn object(
    description: &str,
    required: &[&str],
    fields: impl IntoIterator<Item = Field>,
) -> Value {
    let properties: Map<String, Value> = fields
        .into_iter()
        .map(|(name, schema)| (name.to_owned(), schema))
        .collect();
    let mut schema = json!({
        "description": description,
        "type": "object",
        "properties": properties,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// Returns the same list or object, which server-side apply replaces as a whole.
pub fn atomic(mut schema: Value) -> Value {
    let key = match schema["type"].as_str() {
        Some("array") => "x-kubernetes-list-type",
        _ => "x-kubernetes-map-type",
    };
    schema[key] = json!("atomic");
    schema
}

/// Returns the schema of a whole object of Kubernetes: `apiVersion`, `kind`, `metadata` and the
/// fields given.
pub fn resource(
    description: &str,
    required: &[&str],
    fields: impl IntoIterator<Item = Field>,
) -> Value {
    let common = [
        (
            "apiVersion",
            string("API group and version in which this object is written."),
        ),
        ("kind", string("Kind of this object.")),
        // Kubernetes specifies metadata itself; a CRD may not even describe it.
        ("metadata", json!({"type": "object"})),
    ];
    object(description, required, common.into_iter().chain(fields))
}
