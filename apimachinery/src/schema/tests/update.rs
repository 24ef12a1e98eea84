use rstest::rstest;
use serde_json::{Value, json};

use super::schema;
use crate::schema::Structural;

/// Returns a schema whose objects may hold values that it would refuse now.
fn tightened() -> Structural {
    schema(&json!({
        "a": { "type": "string", "maxLength": 1 },
        "o": { "type": "object", "properties": {
            "x": { "type": "string", "maxLength": 1 },
            "y": { "type": "string" },
        } },
        "list": { "type": "array", "items": { "type": "string", "maxLength": 1 } },
        "map": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": { "type": "object", "required": ["k"], "properties": {
                "k": { "type": "string" },
                "v": { "type": "string", "maxLength": 1 },
            } },
        },
        "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
        "any": {
            "type": "object",
            "properties": { "x": { "type": "string" } },
            "anyOf": [{ "properties": { "x": { "maxLength": 1 } } }],
        },
    }))
}

#[rstest]
#[case::untouched_field(json!({ "a": "long", "o": {} }), json!({ "a": "long" }), &[])]
#[case::changed_field(json!({ "a": "longer" }), json!({ "a": "long" }), &["a: Too long: may not be more than 1 byte"])]
#[case::new_field(json!({ "a": "long" }), json!({}), &["a: Too long: may not be more than 1 byte"])]
#[case::untouched_beside_a_change(json!({ "o": { "x": "long", "y": "2" } }), json!({ "o": { "x": "long", "y": "1" } }), &[])]
#[case::untouched_list(json!({ "list": ["long"], "a": "b" }), json!({ "list": ["long"] }), &[])]
#[case::lists_are_compared_as_a_whole(json!({ "list": ["long", "b"] }), json!({ "list": ["long"] }), &["list[0]: Too long: may not be more than 1 byte"])]
#[case::items_with_keys_are_found_again(json!({ "map": [{ "k": "2" }, { "k": "1", "v": "long" }] }), json!({ "map": [{ "k": "1", "v": "long" }] }), &[])]
#[case::items_without_keys_are_not(json!({ "map": [{ "v": "a" }], "a": "b" }), json!({ "map": [{ "v": "a" }] }), &["map[0].k: Required value"])]
#[case::below_a_junctor_nothing_is_compared(json!({ "any": { "x": "long", "z": "2" } }), json!({ "any": { "x": "long" } }), &["<nil>: Invalid value: \"\": \"any\" must validate at least one schema (anyOf)", "any.x: Too long: may not be more than 1 byte"])]
#[case::set_that_was_wrong(json!({ "set": ["a", "a", "a"] }), json!({ "set": ["a", "a"] }), &[])]
#[case::set_that_was_right(json!({ "set": ["a", "a"] }), json!({ "set": ["a"] }), &["set[1]: Duplicate value: \"a\""])]
fn untouched_errors_are_let_pass(
    #[case] new: Value,
    #[case] old: Value,
    #[case] expected: &[&str],
) {
    let mut errors: Vec<String> = tightened()
        .validate_update(&new, &old)
        .iter()
        .map(ToString::to_string)
        .collect();
    errors.sort();
    assert_eq!(errors, expected);
}

#[test]
fn an_object_that_has_not_changed_is_right() {
    let object = json!({ "a": "long", "o": { "x": "long" }, "list": ["long"] });
    assert_eq!(tightened().validate(&object).len(), 3);
    assert_eq!(tightened().validate_update(&object, &object), []);
}
