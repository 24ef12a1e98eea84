//! The schemas of a resource's objects and lists.

use serde_json::{Map, Value, json};

use super::{Resource, reference};
use crate::meta_v1::META;

const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// Returns the schema of the objects: the CRD's, with the `metadata` of all Kubernetes objects.
pub(super) fn object(resource: &Resource<'_>, meta: &Map<String, Value>) -> Value {
    let kind = &resource.definition.kind;
    let mut schema = (*resource.version.open_api).clone();
    publish(&mut schema, meta);
    insert_properties(&mut schema, type_meta(meta));
    insert_properties(
        &mut schema,
        [("metadata", metadata("ObjectMeta", "object's", "metadata"))],
    );
    schema["x-kubernetes-group-version-kind"] = json!([resource.gvk(kind)]);
    schema
}

/// Returns the schema of the lists.
pub(super) fn list(resource: &Resource<'_>, meta: &Map<String, Value>) -> Value {
    let definition = resource.definition;
    let (kind, list_kind) = (&definition.kind, &definition.list_kind);
    let mut schema = json!({
        "description": format!("{list_kind} is a list of {kind}"),
        "type": "object",
        "required": ["items"],
        "properties": {
            "items": {
                "description": format!("List of {}. More info: {CONVENTIONS}", definition.plural),
                "type": "array",
                "items": reference(&resource.model(kind)),
            },
            "metadata": metadata("ListMeta", "list", "types-kinds"),
        },
        "x-kubernetes-group-version-kind": [resource.gvk(list_kind)],
    });
    insert_properties(&mut schema, type_meta(meta));
    schema
}

fn metadata(schema: &str, whose: &str, section: &str) -> Value {
    json!({
        "description": format!("Standard {whose} metadata. More info: {CONVENTIONS}#{section}"),
        "allOf": [reference(&format!("{META}.{schema}"))],
    })
}

/// Returns `apiVersion` and `kind`, as all kinds of `meta/v1` describe them.
fn type_meta(meta: &Map<String, Value>) -> impl Iterator<Item = (&'static str, Value)> {
    let properties = meta
        .get(&format!("{META}.Status"))
        .and_then(|schema| schema.get("properties"));
    ["apiVersion", "kind"].into_iter().map(move |name| {
        let described = properties
            .and_then(|properties| properties.get(name))
            .cloned();
        (
            name,
            described.unwrap_or_else(|| json!({ "type": "string" })),
        )
    })
}

fn insert_properties(
    schema: &mut Value,
    properties: impl IntoIterator<Item = (&'static str, Value)>,
) {
    for (name, property) in properties {
        schema["properties"][name] = property;
    }
}

/// Brings a CRD's schema into its published form: values that are an integer or a string say so in
/// plain OpenAPI as well, and embedded objects have the fields of all objects.
fn publish(schema: &mut Value, meta: &Map<String, Value>) {
    let Value::Object(fields) = schema else {
        return;
    };
    for below in fields
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flatten()
    {
        publish(below.1, meta);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(below) = fields.get_mut(name) {
            publish(below, meta);
        }
    }
    if is_true(fields, "x-kubernetes-int-or-string") {
        publish_int_or_string(fields);
    }
    if is_true(fields, "x-kubernetes-embedded-resource") {
        publish_embedded(schema, meta);
    }
}

fn is_true(fields: &Map<String, Value>, name: &str) -> bool {
    fields.get(name) == Some(&Value::Bool(true))
}

fn publish_int_or_string(fields: &mut Map<String, Value>) {
    let alternatives = json!([{ "type": "integer" }, { "type": "string" }]);
    let said = |fields: &Map<String, Value>| {
        fields.get("anyOf") == Some(&alternatives)
            || fields.get("allOf").and_then(|all| all.get(0)?.get("anyOf")) == Some(&alternatives)
    };
    if said(fields) {
        return;
    }
    if !fields.contains_key("anyOf") {
        fields.insert("anyOf".to_owned(), alternatives);
        return;
    }
    let mut all = vec![json!({ "anyOf": alternatives })];
    if let Some(Value::Array(given)) = fields.remove("allOf") {
        all.extend(given);
    }
    fields.insert("allOf".to_owned(), Value::Array(all));
}

fn publish_embedded(schema: &mut Value, meta: &Map<String, Value>) {
    insert_properties(schema, type_meta(meta));
    insert_properties(
        schema,
        [("metadata", metadata("ObjectMeta", "object's", "metadata"))],
    );
    let mut required = schema
        .get("required")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    for name in ["kind", "apiVersion"] {
        if !required.iter().any(|given| given == name) {
            required.push(name.into());
        }
    }
    schema["required"] = Value::Array(required);
}
