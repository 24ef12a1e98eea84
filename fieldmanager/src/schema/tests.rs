use rstest::rstest;
use serde_json::{Value, json};

use super::{ListRelation, Schema, TypeRef, meta};

fn schema(properties: Value) -> Result<Schema, String> {
    let schema = json!({"type": "object", "properties": {"spec": properties}});
    Schema::from_openapi(&schema).map_err(|error| error.to_string())
}

#[test]
fn object_meta_is_readable() {
    assert!(Schema::from_openapi(&meta::object_meta()).is_ok());
}

#[test]
fn metadata_is_that_of_objects_whatever_the_schema_says() {
    let declared = json!({"type": "object", "properties": {"metadata": {"type": "string"}}});
    let schema = Schema::from_openapi(&declared).unwrap();
    let root = schema.root().resolve().map.as_ref().unwrap();
    let metadata = root.type_of("metadata").resolve().map.as_ref().unwrap();
    let finalizers = metadata
        .type_of("finalizers")
        .resolve()
        .list
        .as_ref()
        .unwrap();
    assert_eq!(finalizers.relation, ListRelation::Set);
    let owners = metadata
        .type_of("ownerReferences")
        .resolve()
        .list
        .as_ref()
        .unwrap();
    assert_eq!(owners.relation, ListRelation::Map(vec!["uid".to_owned()]));
    assert!(root.type_of("unknown").is_undeclared());
}

#[rstest]
#[case(json!({"type": "text"}), "properties[spec]: unrecognized type: 'text'")]
#[case(json!({"type": "array"}), "properties[spec]: `items` must be specified on arrays")]
#[case(
    json!({"type": "array", "items": [{"type": "string"}]}),
    "properties[spec]: structural schema arrays must have exactly one member subtype"
)]
#[case(
    json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
    "properties[spec]: missing map keys"
)]
#[case(
    json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"}),
    "properties[spec]: unknown list type bag"
)]
#[case(
    json!({"type": "object", "x-kubernetes-map-type": "loose"}),
    "properties[spec]: unknown map type loose"
)]
fn refused(#[case] properties: Value, #[case] error: &str) {
    assert_eq!(schema(properties).unwrap_err(), error);
}

/// The keys beside its properties that an object may have.
#[rstest]
#[case(json!({"type": "object"}), "deduced")]
#[case(json!({"type": "object", "properties": {"a": {"type": "string"}}}), "undeclared")]
#[case(
    json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-preserve-unknown-fields": true}),
    "deduced"
)]
#[case(json!({"type": "object", "additionalProperties": true}), "deduced")]
#[case(json!({"type": "object", "additionalProperties": false}), "undeclared")]
#[case(json!({"type": "object", "additionalProperties": {"type": "string"}}), "inline")]
#[case(json!({"type": "object", "x-kubernetes-embedded-resource": true}), "undeclared")]
#[case(json!({"x-kubernetes-int-or-string": true}), "deduced")]
fn unknown_keys(#[case] properties: Value, #[case] expected: &str) {
    let schema = schema(properties).unwrap();
    let root = schema.root().resolve().map.as_ref().unwrap();
    let spec = root.type_of("spec").resolve().map.as_ref().unwrap();
    let found = match spec.type_of("unknown") {
        TypeRef::Deduced => "deduced",
        TypeRef::Undeclared => "undeclared",
        TypeRef::Untyped => "untyped",
        TypeRef::Inline(_) => "inline",
    };
    assert_eq!(found, expected);
}

#[test]
fn what_keeps_unknown_fields_does_so_for_all_below() {
    let schema = schema(json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}},
    }))
    .unwrap();
    let root = schema.root().resolve().map.as_ref().unwrap();
    let spec = root.type_of("spec").resolve().map.as_ref().unwrap();
    let below = spec.type_of("a").resolve().map.as_ref().unwrap();
    assert!(matches!(below.type_of("unknown"), TypeRef::Deduced));
}
