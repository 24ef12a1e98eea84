use rstest::rstest;
use serde_json::{Value, json};

use super::{report, schema};
use crate::schema::{FieldErrorKind, MAX_ERRORS, Structural};

/// Returns errors as the `reason` and the text of a Status cause with its field.
fn errors(schema: &Structural, object: &Value) -> Vec<String> {
    let mut errors: Vec<String> = schema
        .validate(object)
        .iter()
        .map(|error| format!("{} {error}", error.kind.reason()))
        .collect();
    errors.sort();
    errors
}

#[rstest]
#[case(json!([{ "policy": "p", "result": "bogus" }]), &[r#"FieldValueNotSupported results[0].result: Unsupported value: "bogus": supported values: "pass", "fail", "warn", "error", "skip""#])]
#[case(json!([{}]), &["FieldValueRequired results[0].policy: Required value"])]
#[case(json!([{ "policy": "p", "timestamp": {} }]), &["FieldValueRequired results[0].timestamp.nanos: Required value", "FieldValueRequired results[0].timestamp.seconds: Required value"])]
#[case(json!("x"), &[r#"FieldValueTypeInvalid results: Invalid value: "string": results in body must be of type array: "string""#])]
#[case(json!([{ "policy": 1 }]), &[r#"FieldValueTypeInvalid results[0].policy: Invalid value: "integer": results[0].policy in body must be of type string: "integer""#])]
#[case(json!([{ "policy": "p", "timestamp": { "seconds": 1, "nanos": 4_294_967_296_i64 } }]), &[r#"FieldValueInvalid <nil>: Invalid value: "": Checked value must be of type integer with format int32 in results[0].timestamp.nanos"#])]
#[case(json!([{ "policy": "p", "timestamp": { "seconds": 1.5, "nanos": 0 } }]), &[r#"FieldValueInvalid <nil>: Invalid value: "": Checked value must be of type integer with format int64 in results[0].timestamp.seconds"#, r#"FieldValueTypeInvalid results[0].timestamp.seconds: Invalid value: "float64": results[0].timestamp.seconds in body must be of type int64: "float64""#])]
#[case(json!([null]), &[r#"FieldValueTypeInvalid results[0]: Invalid value: "null": results[0] in body must be of type object: "null""#])]
#[case(json!([{ "policy": "p", "timestamp": { "seconds": true, "nanos": 0 } }]), &[r#"FieldValueTypeInvalid results[0].timestamp.seconds: Invalid value: "": results[0].timestamp.seconds in body must be of type int64: """#])]
#[case(json!([{ "policy": "p", "result": "pass", "properties": { "a": "b" }, "timestamp": { "seconds": 1.0, "nanos": 0 } }]), &[])]
#[case(json!([]), &[])]
fn results_of_a_report(#[case] results: Value, #[case] expected: &[&str]) {
    assert_eq!(errors(&report(), &json!({ "results": results })), expected);
}

#[rstest]
#[case::max_length(json!({ "type": "string", "maxLength": 3 }), json!("abcd"), &["FieldValueTooLong x: Too long: may not be more than 3 bytes"])]
#[case::max_length_1(json!({ "type": "string", "maxLength": 1 }), json!("ab"), &["FieldValueTooLong x: Too long: may not be more than 1 byte"])]
#[case::lengths_are_characters(json!({ "type": "string", "maxLength": 1 }), json!("ü"), &[])]
#[case::min_length(json!({ "type": "string", "minLength": 3 }), json!("ü"), &[r#"FieldValueInvalid x: Invalid value: "ü": x in body should be at least 3 chars long"#])]
#[case::pattern(json!({ "type": "string", "pattern": "^a+$" }), json!("b"), &[r#"FieldValueInvalid x: Invalid value: "b": x in body should match '^a+$'"#])]
#[case::first_of_a_text(json!({ "type": "string", "pattern": "^a+$", "maxLength": 1 }), json!("bb"), &["FieldValueTooLong x: Too long: may not be more than 1 byte"])]
#[case::maximum(json!({ "type": "integer", "maximum": 10 }), json!(11), &["FieldValueInvalid x: Invalid value: 11: x in body should be less than or equal to 10"])]
#[case::exclusive_maximum(json!({ "type": "integer", "maximum": 10, "exclusiveMaximum": true }), json!(10), &["FieldValueInvalid x: Invalid value: 10: x in body should be less than 10"])]
#[case::minimum(json!({ "type": "number", "minimum": 0.5 }), json!(0.25), &["FieldValueInvalid x: Invalid value: 0.25: x in body should be greater than or equal to 0.5"])]
#[case::exclusive_minimum(json!({ "type": "number", "minimum": 0.5, "exclusiveMinimum": true }), json!(0.5), &["FieldValueInvalid x: Invalid value: 0.5: x in body should be greater than 0.5"])]
#[case::bounds_of_integers_are_cut(json!({ "type": "number", "maximum": 2.5 }), json!(3), &["FieldValueInvalid x: Invalid value: 3: x in body should be less than or equal to 2"])]
#[case::multiple_of(json!({ "type": "integer", "multipleOf": 3 }), json!(7), &["FieldValueInvalid x: Invalid value: 7: x in body should be a multiple of 3"])]
#[case::multiple_of_float(json!({ "type": "number", "multipleOf": 0.5 }), json!(0.7), &["FieldValueInvalid x: Invalid value: 0.7: x in body should be a multiple of 0.5"])]
#[case::right_multiple(json!({ "type": "number", "multipleOf": 0.1 }), json!(0.3), &[])]
#[case::factor_cut_to_zero(json!({ "type": "number", "multipleOf": 0.5 }), json!(1), &["FieldValueInvalid x: Invalid value: 0: factor MultipleOf declared for x must be positive: 0"])]
#[case::float_in_an_int_range(json!({ "type": "integer" }), json!(1e20), &[r#"FieldValueInvalid <nil>: Invalid value: "": Checked value must be of type integer (default format) in x"#, r#"FieldValueTypeInvalid x: Invalid value: "number": x in body must be of type integer: "number""#])]
#[case::nearly_whole(json!({ "type": "integer" }), json!(123_456_789.123_456_79), &[r#"FieldValueInvalid <nil>: Invalid value: "": Checked value must be of type integer (default format) in x"#])]
#[case::a_little_below_a_whole(json!({ "type": "integer" }), json!(2.999_999_999_999_9), &[r#"FieldValueInvalid <nil>: Invalid value: "": Checked value must be of type integer (default format) in x"#, r#"FieldValueTypeInvalid x: Invalid value: "number": x in body must be of type integer: "number""#])]
#[case::float_range(json!({ "type": "number", "format": "float" }), json!(1e39), &[r#"FieldValueInvalid <nil>: Invalid value: "": Checked value must be of type number with format float in x"#])]
#[case::large_bound(json!({ "type": "number", "maximum": 1e300 }), json!(1.5e300), &["FieldValueInvalid x: Invalid value: 1.5e+300: x in body should be less than or equal to 1e+300"])]
#[case::min_items(json!({ "type": "array", "minItems": 2, "items": { "type": "string" } }), json!(["a"]), &["FieldValueInvalid x: Invalid value: 1: x in body should have at least 2 items"])]
#[case::max_items(json!({ "type": "array", "maxItems": 1, "items": { "type": "string" } }), json!(["a", "b"]), &["FieldValueTooMany x: Too many: 2: must have at most 1 item"])]
#[case::unique_items(json!({ "type": "array", "uniqueItems": true, "items": { "type": "string" } }), json!(["a", "b", "a"]), &[r#"FieldValueInvalid x: Invalid value: "": x in body shouldn't contain duplicates"#])]
#[case::min_properties(json!({ "type": "object", "minProperties": 1 }), json!({}), &["FieldValueInvalid x: Invalid value: 0: x in body should have at least 1 properties"])]
#[case::max_properties(json!({ "type": "object", "maxProperties": 1, "additionalProperties": { "type": "string" } }), json!({ "a": "x", "b": "y" }), &["FieldValueTooMany x: Too many: 2: must have at most 1 item"])]
#[case::value_of_a_map(json!({ "type": "object", "additionalProperties": { "type": "integer" } }), json!({ "a": "x" }), &[r#"FieldValueTypeInvalid x.a: Invalid value: "string": x.a in body must be of type integer: "string""#])]
#[case::format(json!({ "type": "string", "format": "date-time" }), json!("today"), &[r#"FieldValueTypeInvalid x: Invalid value: "today": x in body must be of type date-time: "today""#])]
#[case::format_and_number(json!({ "type": "string", "format": "date-time" }), json!(5), &[r#"FieldValueTypeInvalid x: Invalid value: "int64": x in body must be of type date-time: "int64""#])]
#[case::format_lets_lists_pass_as_in_kube(json!({ "type": "string", "format": "date-time" }), json!(["x"]), &[])]
#[case::int_or_string(json!({ "x-kubernetes-int-or-string": true }), json!(true), &[r#"FieldValueTypeInvalid x: Invalid value: "boolean": x in body must be of type integer,string: "boolean""#])]
#[case::int_or_string_pattern(json!({ "x-kubernetes-int-or-string": true, "pattern": "^[0-9]+%$", "anyOf": [{ "type": "integer" }, { "type": "string" }] }), json!("x"), &[r#"FieldValueInvalid x: Invalid value: "x": x in body should match '^[0-9]+%$'"#])]
#[case::enumeration_of_integers(json!({ "type": "integer", "enum": [1, 2] }), json!(3), &[r#"FieldValueNotSupported x: Unsupported value: 3: supported values: "1", "2""#])]
#[case::null_is_in_no_enumeration(json!({ "type": "string", "enum": ["a"], "nullable": true }), json!(null), &[r#"FieldValueNotSupported x: Unsupported value: null: supported values: "a""#])]
#[case::nullable(json!({ "type": "string", "nullable": true }), json!(null), &[])]
#[case::any_of(json!({ "type": "object", "properties": { "a": { "type": "integer" }, "b": { "type": "string" } }, "anyOf": [{ "required": ["a"] }, { "required": ["b"], "properties": { "b": { "maxLength": 1 } } }] }), json!({ "b": "xx" }), &[r#"FieldValueInvalid <nil>: Invalid value: "": "x" must validate at least one schema (anyOf)"#, "FieldValueTooLong x.b: Too long: may not be more than 1 byte"])]
#[case::one_of_both(json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } }, "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] }), json!({ "a": "", "b": "" }), &[r#"FieldValueInvalid <nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#])]
#[case::one_of_none(json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } }, "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] }), json!({}), &[r#"FieldValueInvalid <nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found none valid"#, "FieldValueRequired x.a: Required value"])]
#[case::all_of(json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } }, "allOf": [{ "required": ["a"] }, { "required": ["b"] }] }), json!({ "a": "" }), &[r#"FieldValueInvalid <nil>: Invalid value: "": "x" must validate all the schemas (allOf)"#, "FieldValueRequired x.b: Required value"])]
#[case::not(json!({ "type": "object", "properties": { "a": { "type": "string" } }, "not": { "required": ["a"] } }), json!({ "a": "" }), &[r#"FieldValueInvalid <nil>: Invalid value: "": "x" must not validate the schema (not)"#])]
#[case::set(json!({ "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } }), json!(["a", "b", "a", "a"]), &[r#"FieldValueDuplicate x[2]: Duplicate value: "a""#])]
#[case::map(json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": { "type": "object", "properties": { "k": { "type": "string" } } } }), json!([{ "k": "a" }, { "k": "a" }]), &[r#"FieldValueDuplicate x[1]: Duplicate value: {"k":"a"}"#])]
#[case::map_of_strangers(json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": { "type": "object", "properties": { "k": { "type": "string" } } } }), json!([1]), &["FieldValueInvalid x[0]: Invalid value: 1: must be an object for an array of list-type map", r#"FieldValueTypeInvalid x[0]: Invalid value: "integer": x[0] in body must be of type object: "integer""#])]
#[case::embedded(json!({ "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true }), json!({ "kind": "A", "metadata": { "name": "a/b", "labels": { "a": "-" } } }), &[r#"FieldValueInvalid x.metadata.labels: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#, r#"FieldValueInvalid x.metadata.name: Invalid value: "a/b": may not contain '/'"#, "FieldValueRequired x.apiVersion: Required value"])]
fn rules(#[case] property: Value, #[case] value: Value, #[case] expected: &[&str]) {
    assert_eq!(
        errors(&schema(&json!({ "x": property })), &json!({ "x": value })),
        expected
    );
}

#[test]
fn an_object_is_wanted_at_the_root() {
    let expected = r#"FieldValueTypeInvalid <nil>: Invalid value: "array":  in body must be of type object: "array""#;
    assert_eq!(errors(&report(), &json!([])), [expected]);
}

#[test]
fn the_number_of_errors_is_bounded() {
    let results: Vec<Value> = (0..5000).map(|_| json!({})).collect();
    let errors = report().validate(&json!({ "results": results }));
    assert_eq!(errors.len(), MAX_ERRORS);
    assert!(
        errors
            .iter()
            .all(|error| error.kind == FieldErrorKind::Required)
    );
}
