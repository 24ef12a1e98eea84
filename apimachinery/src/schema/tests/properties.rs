use proptest::prelude::*;
use serde_json::{Map, Value};

use super::{report, schema};
use crate::schema::{Encoding, Malformed, Structural, decode};
use serde_json::json;

/// Returns JSON that often uses the names of the schema, so that it is not pruned at once.
fn hostile() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|thousandths| (f64::from(thousandths) / 1000.0).into()),
        "[a-c]{0,4}".prop_map(Value::from),
        prop::sample::select(vec!["pass", "2026-11-21T04:09:53Z", "5m", "\u{0}", "ü"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 5, |inner| {
        let name = prop::sample::select(vec![
            "apiVersion",
            "kind",
            "metadata",
            "results",
            "policy",
            "result",
            "properties",
            "timestamp",
            "seconds",
            "nanos",
            "scope",
            "summary",
            "pass",
            "name",
            "labels",
            "finalizers",
            "ownerReferences",
            "managedFields",
            "creationTimestamp",
            "set",
            "map",
            "k",
            "emb",
            "pre",
            "x",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..6).prop_map(|fields| {
                Value::Object(
                    fields
                        .into_iter()
                        .map(|(k, v)| (k.to_owned(), v))
                        .collect::<Map<_, _>>(),
                )
            }),
        ]
    })
}

fn rich() -> Structural {
    schema(&json!({
        "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
        "map": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": { "type": "object", "properties": { "k": { "type": "string", "default": "d" } } },
        },
        "emb": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        },
        "pre": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": { "k": { "type": "object", "properties": { "x": { "type": "string" } } } },
        },
        "x": { "type": "string", "nullable": true, "default": "d" },
        "results": { "type": "array", "maxItems": 2, "uniqueItems": true, "items": {
            "type": "object", "minProperties": 1,
            "oneOf": [{ "required": ["policy"] }, { "required": ["result"] }],
            "additionalProperties": { "x-kubernetes-int-or-string": true },
        } },
    }))
}

proptest! {
    #[test]
    fn pruning_twice_is_pruning_once(object in hostile(), rich_schema: bool) {
        let schema = if rich_schema { rich() } else { report() };
        let mut once = object;
        if schema.coerce(&mut once, Malformed::Drop).is_err() { return Ok(()); }
        let mut twice = once.clone();
        let unknown = schema.coerce(&mut twice, Malformed::Refuse).expect("what was kept is well-formed");
        prop_assert_eq!(unknown, Vec::<String>::new());
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn filling_in_twice_is_filling_in_once(object in hostile()) {
        let schema = rich();
        let mut once = object;
        if schema.coerce(&mut once, Malformed::Drop).is_err() { return Ok(()); }
        schema.default_values(&mut once);
        let mut twice = once.clone();
        schema.default_values(&mut twice);
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn what_is_in_shape_and_has_its_defaults_is_read_as_it_is(object in hostile()) {
        let schema = rich();
        let mut once = object;
        if schema.coerce(&mut once, Malformed::Drop).is_err() { return Ok(()); }
        schema.default_values(&mut once);
        let mut twice = once.clone();
        schema.coerce(&mut twice, Malformed::Refuse).expect("what was kept is well-formed");
        schema.default_values(&mut twice);
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn the_valid_is_valid_in_its_own_place(object in hostile()) {
        let schema = rich();
        if schema.validate(&object).is_empty() {
            prop_assert_eq!(schema.validate_update(&object, &object), Vec::new());
        }
    }

    #[test]
    fn an_update_has_no_errors_that_a_creation_has_not(new in hostile(), old in hostile()) {
        let schema = rich();
        let errors = schema.validate(&new);
        for error in schema.validate_update(&new, &old) {
            prop_assert!(errors.contains(&error), "{} is not among {:?}", error, errors);
        }
    }

    #[test]
    fn unknown_fields_are_no_errors(object in hostile()) {
        // Pruning takes away what nothing is said about, so it cannot change the verdict on types
        // and values; only nulls that it drops can.
        let schema = report();
        let mut pruned = object.clone();
        if schema.coerce(&mut pruned, Malformed::Drop).is_err() { return Ok(()); }
        let before = schema.validate(&object);
        for error in schema.validate(&pruned) {
            prop_assert!(
                before.contains(&error) || error.detail.is_empty() && error.message() == "Required value",
                "{} is new", error
            );
        }
    }

    #[test]
    fn a_decoded_body_is_what_was_written(object in hostile()) {
        let text = serde_json::to_vec(&object).unwrap();
        let json = decode(&text, Encoding::Json).unwrap();
        let again = decode(&serde_json::to_vec(&json.value).unwrap(), Encoding::Json).unwrap();
        prop_assert_eq!(&again, &json);
        prop_assert_eq!(json.duplicates, Vec::<String>::new());
    }
}
