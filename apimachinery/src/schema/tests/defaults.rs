use rstest::rstest;
use serde_json::{Value, json};

use super::{report, schema};
use crate::schema::Malformed;

#[rstest]
#[case::missing(json!({}), json!({ "a": "x", "o": { "d": 1 } }))]
#[case::given(json!({ "a": "y", "o": {} }), json!({ "a": "y", "o": { "d": 1 } }))]
#[case::null(json!({ "a": null }), json!({ "a": "x", "o": { "d": 1 } }))]
#[case::null_that_may_be(json!({ "n": null }), json!({ "a": "x", "n": null, "o": { "d": 1 } }))]
#[case::items(json!({ "l": [{}, { "d": 2 }] }), json!({ "a": "x", "l": [{ "d": 1 }, { "d": 2 }], "o": { "d": 1 } }))]
#[case::map_values(json!({ "m": { "k": {} } }), json!({ "a": "x", "m": { "k": { "d": 1 } }, "o": { "d": 1 } }))]
#[case::default_of_an_item(json!({ "s": [null] }), json!({ "a": "x", "s": ["i"], "o": { "d": 1 } }))]
fn defaults_are_filled_in(#[case] object: Value, #[case] expected: Value) {
    let inner =
        json!({ "type": "object", "properties": { "d": { "type": "integer", "default": 1 } } });
    let schema = schema(&json!({
        "a": { "type": "string", "default": "x" },
        "n": { "type": "string", "nullable": true },
        "o": { "type": "object", "default": {}, "properties": inner["properties"] },
        "l": { "type": "array", "items": inner },
        "m": { "type": "object", "additionalProperties": inner },
        "s": { "type": "array", "items": { "type": "string", "default": "i" } },
    }));
    let mut object = object;
    schema.coerce(&mut object, Malformed::Refuse).unwrap();
    schema.default_values(&mut object);
    assert_eq!(object, expected);
}

#[test]
fn a_schema_without_defaults_knows_it() {
    assert!(!report().has_defaults());
    assert!(schema(&json!({ "a": { "type": "string", "default": "x" } })).has_defaults());
}
