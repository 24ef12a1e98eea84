//! Kinds with several versions.

use std::sync::Arc;

use serde_json::{Value, json};

use super::owners;
use crate::testing::{VERSION, at, object, openapi, schema, stored};
use crate::{FieldManager, FieldSet, Path, Schema, Version, Versions};

const OTHER: &str = "example.org/v2";

fn managers(other: Schema) -> (FieldManager, FieldManager) {
    let version = |schema| Version {
        schema,
        reset_fields: FieldSet::new(),
    };
    let versions = [
        (VERSION.to_owned(), version(schema())),
        (OTHER.to_owned(), version(other)),
    ];
    let versions = Arc::new(Versions::from_iter(versions));
    (
        FieldManager::new(versions.clone(), VERSION, "Thing", ""),
        FieldManager::new(versions, OTHER, "Thing", ""),
    )
}

fn in_other(mut object: Value) -> Value {
    object["apiVersion"] = json!(OTHER);
    object
}

#[test]
fn ownership_stays_in_the_version_of_its_write() {
    let (first, second) = managers(schema());
    let live = stored(first.update(None, object(json!({"text": "x", "number": 1})), "a", at(0)));
    let mut new = in_other(live.clone());
    new["spec"]["text"] = json!("y");
    let updated = second.update(Some(&live), new, "a", at(1));
    assert_eq!(
        owners(&updated),
        ["a Update 00:  .number", "a Update 01: .text"]
    );
    let versions: Vec<&Value> = updated["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["apiVersion"])
        .collect();
    assert_eq!(versions, [VERSION, OTHER]);
}

#[test]
fn an_applier_that_changes_versions_keeps_its_entry() {
    let (first, second) = managers(schema());
    let config = object(json!({"text": "x", "number": 1}));
    let live = stored(first.apply(None, &config, "a", false, at(0)).unwrap());
    let config = in_other(object(json!({"text": "x"})));
    let applied = second
        .apply(Some(&live), &config, "a", false, at(1))
        .unwrap();
    assert_eq!(applied["apiVersion"], OTHER);
    assert_eq!(applied["spec"], json!({"text": "x"}));
    assert_eq!(owners(&applied), ["a Apply 01: .text"]);
}

#[test]
fn a_version_that_is_gone_is_an_error_of_apply_and_takes_managers_from_an_update() {
    let (first, _) = managers(schema());
    let mut live = stored(first.update(None, object(json!({"text": "x"})), "a", at(0)));
    live["metadata"]["managedFields"][0]["apiVersion"] = json!("example.org/v0");
    let config = object(json!({"text": "x"}));
    let error = first
        .apply(Some(&live), &config, "b", true, at(1))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "request to convert CR to an invalid group/version: example.org/v0"
    );
    let updated = first.update(Some(&live), live.clone(), "b", at(1));
    assert_eq!(updated.pointer("/metadata/managedFields"), None);
}

#[test]
fn a_field_that_became_atomic_is_owned_as_a_whole() {
    let mut changed = openapi();
    changed["properties"]["spec"]["properties"]["map"]["x-kubernetes-map-type"] = json!("atomic");
    let (before, _) = managers(schema());
    let live = before.update(
        None,
        object(json!({"map": {"a": "1", "b": "2"}})),
        "a",
        at(0),
    );
    let live = stored(live);
    let versions = Versions::single(VERSION, Schema::from_openapi(&changed).unwrap());
    let after = FieldManager::new(Arc::new(versions), VERSION, "Thing", "");
    let mut new = live.clone();
    new["spec"]["text"] = json!("x");
    let updated = after.update(Some(&live), new, "b", at(1));
    assert_eq!(
        owners(&updated),
        ["a Update 00:  .map", "b Update 01: .text"]
    );
}

#[test]
fn fields_that_a_write_resets_are_not_owned() {
    let version = Version {
        schema: schema(),
        reset_fields: FieldSet::from_iter([Path::of_fields(&["spec", "map"])]),
    };
    let versions = Versions::from_iter([(VERSION.to_owned(), version)]);
    let manager = FieldManager::new(Arc::new(versions), VERSION, "Thing", "");
    let spec = json!({"text": "x", "map": {"a": "b"}});
    let updated = manager.update(None, object(spec.clone()), "a", at(0));
    assert_eq!(owners(&updated), ["a Update 00:  .text"]);
    let applied = manager
        .apply(None, &object(spec), "a", false, at(0))
        .unwrap();
    assert_eq!(owners(&applied), ["a Apply 00: .text"]);
}
