use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::Story;
use crate::keep_timestamps;
use crate::testing::{VERSION, at, field_manager, object, spec, stored};

/// Returns the object after an update to its equal.
fn put_back(object: &Value, name: &str) -> Value {
    let mut updated = field_manager().update(Some(object), object.clone(), name, at(60));
    keep_timestamps(object, &mut updated);
    updated
}

fn entry(name: &str, fields: &Value) -> Value {
    json!({
        "apiVersion": VERSION,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "manager": name,
        "operation": "Update",
        "time": "2026-01-01T12:00:00Z",
    })
}

/// Returns an object with these entries.
fn with(entries: Value) -> Value {
    let mut object = stored(object(json!({"text": "x", "atomicList": ["a"]})));
    object["metadata"]["managedFields"] = entries;
    object
}

fn text() -> Value {
    json!({"f:spec": {"f:text": {}}})
}

#[test]
fn what_was_written_is_settled() {
    let created = Story::new().update("a", json!({"text": "x", "set": ["a", "b"]}));
    let applied = created.apply("b", json!({"number": 1, "map": {"a": "b"}}));
    let object = applied.live.unwrap();
    assert!(field_manager().is_settled(&object));
    assert_eq!(put_back(&object, "c"), object);
    let object = with(json!([entry("a", &text())]));
    assert!(field_manager().is_settled(&object));
    assert_eq!(put_back(&object, "c"), object);
}

#[test]
fn an_object_that_nobody_keeps_account_of_is_settled() {
    let object = stored(object(json!({"text": "x"})));
    assert!(field_manager().is_settled(&object));
    assert_eq!(put_back(&object, "c"), object);
}

#[rstest]
#[case::reset(json!([{}]))]
#[case::none(json!([]))]
#[case::of_another_type(json!({}))]
#[case::unreadable(json!([{"manager": "a"}]))]
#[case::twice(json!([entry("a", &text()), entry("a", &text())]))]
#[case::in_another_order(json!([entry("b", &text()), entry("a", &text())]))]
#[case::of_nothing(json!([entry("a", &json!({}))]))]
#[case::of_entries(json!([entry("a", &json!({"f:metadata": {"f:managedFields": {}}}))]))]
#[case::below_what_is_atomic(json!([entry("a", &json!({"f:spec": {"f:atomicList": {"v:\"a\"": {}}}}))]))]
fn what_an_update_tidies_is_not_settled(#[case] entries: Value) {
    let object = with(entries);
    assert!(!field_manager().is_settled(&object));
    assert_ne!(put_back(&object, "c"), object);
}

#[test]
fn an_entry_of_a_version_that_is_gone_is_not_settled() {
    let mut old = entry("a", &text());
    old["apiVersion"] = json!("example.org/v0");
    assert!(!field_manager().is_settled(&with(json!([old]))));
}

#[test]
fn too_many_entries_are_not_settled() {
    let entries: Vec<Value> = (0..11)
        .map(|n| entry(&format!("m{n:02}"), &text()))
        .collect();
    assert!(field_manager().is_settled(&with(json!(entries[..10]))));
    assert!(!field_manager().is_settled(&with(json!(entries))));
}

#[test]
fn an_object_against_its_schema_is_not_settled() {
    let mut object = with(json!([entry("a", &text())]));
    object["spec"]["text"] = json!({});
    assert!(!field_manager().is_settled(&object));
}

/// Does something to the entries of an object that a client may do.
fn edit(object: &mut Value, number: usize) {
    let Some(entries) = object["metadata"]["managedFields"].as_array_mut() else {
        return;
    };
    match number {
        1 => entries.reverse(),
        2 => entries[0]["time"] = json!("2026-01-01T12:00:00.5Z"),
        3 => entries[0]["time"] = json!(null),
        4 => entries[0]["fieldsV1"] = json!({}),
        5 => entries[0]["apiVersion"] = json!("example.org/v0"),
        6 => entries.clear(),
        7 => *entries = vec![json!({})],
        8 => entries[0]["fieldsV1"] = json!({"f:metadata": {"f:managedFields": {"f:x": {}}}}),
        9 => entries.extend((0..11).map(|n| entry(&format!("m{n:02}"), &text()))),
        10 => entries.push(entry("z", &json!({"f:spec": {"f:atomicMap": {"f:a": {}}}}))),
        11 => entries.push(json!({"manager": 1})),
        _ => {}
    }
}

proptest! {
    #[test]
    fn the_settled_stays(
        writes in prop::collection::vec((any::<bool>(), "[a-c]", spec()), 1..5),
        number in 0..12_usize,
        name in "[a-c]",
    ) {
        let story = writes.into_iter().fold(Story::new(), |story, (is_apply, name, spec)| {
            if is_apply { story.force(&name, spec) } else { story.update(&name, spec) }
        });
        let mut object = story.live.unwrap();
        edit(&mut object, number);
        let stays = put_back(&object, &name) == object;
        let is_settled = field_manager().is_settled(&object);
        prop_assert!(stays || !is_settled, "{object}");
        if number == 0 {
            prop_assert_eq!(is_settled, stays, "{}", object);
        }
    }
}
