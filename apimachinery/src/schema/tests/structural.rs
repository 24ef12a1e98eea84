use rstest::rstest;
use serde_json::{Value, json};

use super::{parse, try_schema};

#[rstest]
#[case(json!({ "type": "string", "x-kubernetes-validations": [{ "rule": "self != ''" }] }), "properties[x].x-kubernetes-validations: validation rules in CEL are not supported by this server")]
#[case(json!({ "type": "string", "format": "email" }), "properties[x].format: the format \"email\" is not supported by this server")]
#[case(json!({ "type": "string", "pattern": "(" }), "properties[x].pattern: must be a valid regular expression: regex parse error:\n    (\n    ^\nerror: unclosed group")]
#[case(json!({ "type": "tuple" }), "properties[x].type: unsupported value \"tuple\": must be one of array, boolean, integer, number, object, string")]
#[case(json!({}), "properties[x].type: must not be empty")]
#[case(json!({ "type": "array" }), "properties[x].items: must be specified")]
#[case(json!({ "type": "array", "items": [{ "type": "string" }] }), "properties[x].items: must be a schema object and not an array")]
#[case(json!({ "type": "array", "items": {} }), "properties[x].items.type: must not be empty")]
#[case(json!({ "type": "object", "additionalProperties": { "type": "array" } }), "properties[x].additionalProperties.items: must be specified")]
#[case(json!({ "type": "object", "patternProperties": { "a": { "type": "string" } } }), "properties[x].patternProperties: is not allowed in a structural schema")]
#[case(json!({ "$ref": "#/x" }), "properties[x].$ref: is not allowed in a structural schema")]
#[case(json!({ "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "map" }), "properties[x].x-kubernetes-list-map-keys: must not be empty if x-kubernetes-list-type is map")]
#[case(json!({ "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "bag" }), "properties[x].x-kubernetes-list-type: unsupported value \"bag\": must be one of atomic, map, set")]
#[case(json!({ "type": "string", "x-kubernetes-embedded-resource": true }), "properties[x].type: must be object if x-kubernetes-embedded-resource is true")]
#[case(json!({ "type": "object", "anyOf": [{ "type": "object" }] }), "properties[x].anyOf[0].type: must be empty to be structural")]
#[case(json!({ "type": "object", "allOf": [{ "properties": { "a": { "default": 1 } } }] }), "properties[x].allOf[0].properties[a].default: must be undefined to be structural")]
#[case(json!({ "type": "object", "not": { "nullable": true } }), "properties[x].not.nullable: must be undefined to be structural")]
fn what_cannot_be_done_is_refused_by_name(#[case] property: Value, #[case] message: &str) {
    assert_eq!(
        try_schema(&json!({ "x": property }))
            .unwrap_err()
            .to_string(),
        message
    );
}

#[rstest]
#[case(json!({ "type": "array", "items": { "type": "string" } }), "type: must be object at the root")]
#[case(json!({ "x-kubernetes-preserve-unknown-fields": true }), "type: must be object at the root")]
#[case(json!({ "type": "object", "additionalProperties": true }), "additionalProperties: must not be used at the root")]
fn the_root_is_an_object(#[case] schema: Value, #[case] message: &str) {
    assert_eq!(parse(&schema).unwrap_err().to_string(), message);
}

#[rstest]
#[case(json!({ "x-kubernetes-preserve-unknown-fields": true }))]
#[case(json!({ "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] }))]
#[case(json!({ "x-kubernetes-int-or-string": true, "allOf": [{ "anyOf": [{ "type": "integer" }, { "type": "string" }] }] }))]
#[case(json!({ "type": "string", "format": "of-our-own" }))]
#[case(json!({ "type": "object", "x-kubernetes-map-type": "atomic" }))]
fn what_is_structural_is_taken(#[case] property: Value) {
    try_schema(&json!({ "x": property })).unwrap();
}
