use std::borrow::Cow;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Duplicates, Typed};
use crate::set::FieldSet;
use crate::testing::{object, schema, spec, typed};

/// Returns the set of `.spec` alone, a path a line.
fn fields(spec: Value) -> String {
    let set = typed(&json!({"spec": spec})).to_field_set().unwrap();
    set.to_string().replace('\n', " ")
}

#[rstest]
#[case(json!({"text": "a", "number": 1}), ".spec.number .spec.text")]
#[case(json!({"map": {"a": "x"}}), ".spec.map.a")]
#[case(json!({"map": {}}), ".spec.map")]
#[case(json!({"map": null}), ".spec.map")]
#[case(json!({"text": null}), ".spec.text")]
#[case(json!({"maps": {"a": {"b": "c"}}}), ".spec.maps.a .spec.maps.a.b")]
#[case(json!({"set": ["b", "a"]}), r#".spec.set[="a"] .spec.set[="b"]"#)]
#[case(json!({"set": ["b", "b", "a"]}), r#".spec.set[="a"] .spec.set[="b"]"#)]
#[case(json!({"set": []}), "")]
#[case(json!({"atomicList": []}), ".spec.atomicList")]
#[case(json!({"atomicMap": {"a": "b"}}), ".spec.atomicMap")]
#[case(
    json!({"ports": [{"port": 80, "name": "x"}]}),
    r#".spec.ports[port=80,protocol="TCP"] .spec.ports[port=80,protocol="TCP"].name .spec.ports[port=80,protocol="TCP"].port"#
)]
#[case(
    json!({"ports": [{"port": 80, "name": "x"}, {"port": 80, "protocol": "TCP"}]}),
    r#".spec.ports[port=80,protocol="TCP"]"#
)]
#[case(json!({"any": {"a": {"b": [1]}}}), ".spec.any.a .spec.any.a.b")]
#[case(json!({"any": "text"}), ".spec.any")]
#[case(json!({"intOrString": "50%"}), ".spec.intOrString")]
#[case(
    json!({"template": {"kind": "Pod", "metadata": {"finalizers": ["f"]}, "spec": {"a": 1}}}),
    r#".spec.template.kind .spec.template.spec .spec.template.metadata.finalizers[="f"] .spec.template.spec.a"#
)]
fn mentioned_fields(#[case] spec: Value, #[case] expected: &str) {
    assert_eq!(fields(spec), expected);
}

/// Recorded from the kube-apiserver's own library, see `docs/decisions`.
#[rstest]
#[case(json!({"text": 1.0}), ".spec.text: expected string, got &value.valueUnstructured{Value:1}")]
#[case(
    json!({"text": {"a": null}}),
    ".spec.text: expected string, got &value.valueUnstructured{Value:map[string]interface {}{\"a\":interface {}(nil)}}"
)]
#[case(json!({"number": "x"}), ".spec.number: expected numeric (int or float), got string")]
#[case(json!({"flag": "x"}), ".spec.flag: expected boolean, got &{x}")]
#[case(json!({"map": ["a", 1.5]}), ".spec.map: expected map, got &{[a 1.5]}")]
#[case(json!({"set": {"a": 1.0}}), ".spec.set: expected list, got &{map[a:1]}")]
#[case(json!({"unknown": 1}), ".spec.unknown: field not declared in schema")]
#[case(json!({"set": ["a", "a"]}), r#".spec.set: duplicate entries for key [="a"]"#)]
#[case(
    json!({"set": [null]}),
    ".spec.set: element 0: associative list without keys has an element that's an explicit null"
)]
#[case(
    json!({"set": [{}]}),
    ".spec.set: element 0: associative list without keys has an element that's a map type"
)]
#[case(
    json!({"set": [[]]}),
    ".spec.set: element 0: not supported: associative list with lists as elements"
)]
#[case(
    json!({"ports": [{"port": 80.0}, {"port": 80.0, "protocol": "TCP"}]}),
    r#".spec.ports: duplicate entries for key [port=80,protocol="TCP"]"#
)]
#[case(
    json!({"ports": [null]}),
    ".spec.ports: element 0: associative list with keys may not have a null element"
)]
#[case(
    json!({"ports": ["x"]}),
    ".spec.ports: element 0: associative list with keys may not have non-map elements"
)]
#[case(
    json!({"ports": [{"port": 1.0, "name": 2.0}], "set": ["b", 1.5]}),
    "errors:\n  .spec.ports[port=1,protocol=\"TCP\"].name: expected string, got &value.valueUnstructured{Value:2}\n  .spec.set[=1.5]: expected string, got &value.valueUnstructured{Value:1.5}"
)]
fn refused(#[case] spec: Value, #[case] expected: &str) {
    let value = Cow::Owned(json!({"spec": spec}));
    let error = Typed::new(value, &schema(), Duplicates::Refused).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn an_item_without_keys_is_refused() {
    let openapi = json!({
        "type": "object",
        "properties": {"list": {
            "type": "array",
            "items": {"type": "object", "properties": {"a": {"type": "string"}}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a", "b"],
        }},
    });
    let schema = crate::Schema::from_openapi(&openapi).unwrap();
    let error = Typed::new(
        Cow::Owned(json!({"list": [{}]})),
        &schema,
        Duplicates::Allowed,
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        ".list: element 0: associative list with keys has an element that omits all key fields \
         [\"a\" \"b\"] (and doesn't have default values for any key fields)"
    );
}

/// Added, modified and removed paths below `.spec`.
#[rstest]
#[case(json!({"text": "a"}), json!({"text": "b", "number": 1}), "+.spec.number ~.spec.text")]
#[case(json!({"map": {"a": "1", "b": "2"}}), json!({"map": {"b": "2"}}), "-.spec.map.a")]
#[case(json!({"set": ["a", "b"]}), json!({"set": ["b", "a"]}), "")]
#[case(json!({"set": ["a"]}), json!({"set": ["b"]}), r#"+.spec.set[="b"] -.spec.set[="a"]"#)]
#[case(json!({"set": ["a"]}), json!({"set": ["a", "a"]}), r#"+.spec.set[="a"] -.spec.set[="a"]"#)]
#[case(json!({"set": ["a", "a"]}), json!({"set": ["a"]}), r#"+.spec.set[="a"] -.spec.set[="a"]"#)]
#[case(json!({"set": ["a", "a"]}), json!({"set": ["a", "a", "a"]}), r#"~.spec.set[="a"]"#)]
#[case(json!({"atomicList": ["a"]}), json!({"atomicList": ["a", "b"]}), "~.spec.atomicList")]
#[case(json!({"number": 1}), json!({"number": 1.0}), "")]
#[case(json!({"map": {}}), json!({"map": null}), "~.spec.map")]
#[case(json!({"map": {}}), json!({}), "-.spec.map")]
#[case(json!({"any": "a"}), json!({"any": {"b": 1}}), "+.spec.any.b ~.spec.any")]
#[case(json!({"any": {"b": 1}}), json!({"any": "a"}), "~.spec.any -.spec.any.b")]
#[case(
    json!({"ports": [{"port": 1, "name": "a"}]}),
    json!({"ports": [{"port": 1, "name": "b"}, {"port": 2}]}),
    r#"+.spec.ports[port=2,protocol="TCP"] +.spec.ports[port=2,protocol="TCP"].port ~.spec.ports[port=1,protocol="TCP"].name"#
)]
fn differences(#[case] old: Value, #[case] new: Value, #[case] expected: &str) {
    let (old, new) = (typed(&json!({"spec": old})), typed(&json!({"spec": new})));
    let comparison = old.compare(&new).unwrap();
    let sets = [
        ("+", &comparison.added),
        ("~", &comparison.modified),
        ("-", &comparison.removed),
    ];
    let found: Vec<String> = sets
        .iter()
        .flat_map(|(sign, set)| {
            set.paths()
                .into_iter()
                .map(move |path| format!("{sign}{path}"))
        })
        .collect();
    assert_eq!(found.join(" "), expected);
    assert_eq!(comparison.is_same(), expected.is_empty());
}

#[rstest]
#[case::leaf(json!({"text": "a", "number": 1}), json!({"text": "b"}), json!({"text": "b", "number": 1}))]
#[case::null(json!({"text": "a"}), json!({"text": null}), json!({"text": null}))]
#[case::empty_map(json!({"map": null}), json!({"map": {}}), json!({"map": {}}))]
#[case::emptied(json!({"map": {"a": "b"}}), json!({"map": {}}), json!({"map": {"a": "b"}}))]
#[case::atomic(json!({"atomicMap": {"a": "b"}}), json!({"atomicMap": {"c": "d"}}), json!({"atomicMap": {"c": "d"}}))]
#[case::other_type(json!({"any": {"a": 1}}), json!({"any": [1]}), json!({"any": [1]}))]
#[case::set_added(json!({"set": ["a", "b"]}), json!({"set": ["c"]}), json!({"set": ["a", "b", "c"]}))]
#[case::set_reordered(json!({"set": ["a", "b", "c"]}), json!({"set": ["c", "a"]}), json!({"set": ["b", "c", "a"]}))]
#[case::set_inserted(json!({"set": ["a", "c"]}), json!({"set": ["a", "b", "c"]}), json!({"set": ["a", "b", "c"]}))]
#[case::set_around(json!({"set": ["x", "a", "y", "b", "z"]}), json!({"set": ["b", "a"]}), json!({"set": ["x", "y", "b", "z", "a"]}))]
#[case::item_merged(
    json!({"ports": [{"port": 1, "name": "a", "tags": ["x"]}]}),
    json!({"ports": [{"port": 2}, {"port": 1, "name": "b"}]}),
    json!({"ports": [{"port": 2}, {"port": 1, "name": "b", "tags": ["x"]}]})
)]
fn merged(#[case] live: Value, #[case] config: Value, #[case] expected: Value) {
    let (live, config) = (
        typed(&json!({"spec": live})),
        typed(&json!({"spec": config})),
    );
    let merged = live.merge(&config).unwrap().into_value();
    assert_eq!(merged, json!({"spec": expected}));
}

fn paths(list: &[&str]) -> FieldSet {
    let list = list.iter().map(|path| {
        let names: Vec<&str> = path.split('.').collect();
        crate::Path::of_fields(&names)
    });
    list.collect()
}

#[test]
fn items_are_removed_and_extracted() {
    let value = typed(&json!({"spec": {
        "text": "a",
        "map": {"a": "1", "b": "2"},
        "maps": {"x": {"y": "z"}},
        "atomicMap": {"a": "1"},
    }}));
    let set = paths(&[
        "spec.text",
        "spec.map.a",
        "spec.maps.x.y",
        "spec.atomicMap.a",
    ]);
    assert_eq!(
        value.remove_items(&set).into_value(),
        json!({"spec": {"map": {"b": "2"}, "maps": {"x": null}, "atomicMap": null}})
    );
    let extracted = value.extract_items(&paths(&["spec.map.a", "spec.atomicMap"]));
    assert_eq!(
        extracted.into_value(),
        json!({"spec": {"map": {"a": "1"}, "atomicMap": {"a": "1"}}})
    );
}

#[test]
fn keys_come_along_when_asked_for() {
    let value = typed(&json!({"spec": {"ports": [{"port": 1, "protocol": "TCP", "name": "a"}]}}));
    let set = value.to_field_set().unwrap();
    let names: FieldSet = set
        .paths()
        .into_iter()
        .filter(|path| path.0.last() == Some(&crate::PathElement::field("name")))
        .collect();
    let extracted = |typed: Typed<'_>| typed.into_value()["spec"]["ports"][0].clone();
    assert_eq!(extracted(value.extract_items(&names)), json!({"name": "a"}));
    assert_eq!(
        extracted(value.extract_items_with_keys(&names)),
        json!({"port": 1, "protocol": "TCP", "name": "a"})
    );
}

#[test]
fn what_became_atomic_is_owned_as_a_whole() {
    let value = typed(&json!({}));
    let before = paths(&["spec.atomicMap.a", "spec.atomicMap.b", "spec.map.a"]);
    let after = value.reconcile(&before).unwrap().unwrap();
    assert_eq!(after, paths(&["spec.atomicMap", "spec.map.a"]));
    assert_eq!(value.reconcile(&after).unwrap(), None);
}

proptest! {
    #[test]
    fn applied_fields_are_in_the_merged_object(live in spec(), config in spec()) {
        let (live, config) = (typed(&object(live)), typed(&object(config)));
        let merged = live.merge(&config).unwrap();
        let expected = config.to_field_set().unwrap();
        let found = merged.to_field_set().unwrap();
        prop_assert!(expected.difference(&found).is_empty());
        prop_assert!(merged.merge(&config).unwrap().compare(&merged).unwrap().is_same());
    }

    #[test]
    fn comparisons_are_symmetric(old in spec(), new in spec()) {
        let (old, new) = (typed(&object(old)), typed(&object(new)));
        let (there, back) = (old.compare(&new).unwrap(), new.compare(&old).unwrap());
        prop_assert_eq!(there.added, back.removed);
        prop_assert_eq!(there.removed, back.added);
        prop_assert_eq!(there.modified, back.modified);
        prop_assert!(old.compare(&old).unwrap().is_same());
    }

    #[test]
    fn extracting_all_fields_gives_the_object(mut value in spec()) {
        // Of maps in maps only the outer entries are extracted, as in Kubernetes.
        value.as_object_mut().unwrap().remove("maps");
        let value = typed(&object(value));
        let extracted = value.extract_items(&value.to_field_set().unwrap());
        prop_assert_eq!(extracted.value(), value.value());
    }

    #[test]
    fn removing_all_fields_leaves_none(value in spec()) {
        let value = typed(&object(value));
        let set = value.with_named_fields(&value.to_field_set().unwrap());
        let left = value.remove_items(&set);
        prop_assert!(left.value().is_null() || left.to_field_set().unwrap().is_empty());
    }
}
