use serde_json::json;

use super::{Story, owners};
use crate::managed::Manager;
use crate::testing::{at, field_manager, object, stored};

#[test]
fn a_create_owns_what_it_writes() {
    let story = Story::new().update("a", json!({"text": "x", "ports": [{"port": 1}]}));
    assert_eq!(
        story.owners(),
        [
            r#"a Update 00:  .ports .text .ports[port=1,protocol="TCP"] .ports[port=1,protocol="TCP"].port"#
        ]
    );
}

#[test]
fn a_change_moves_to_who_makes_it() {
    let story = Story::new()
        .update("a", json!({"text": "x", "number": 1}))
        .update("b", json!({"text": "y", "number": 1, "flag": true}));
    assert_eq!(
        story.owners(),
        ["a Update 00:  .number", "b Update 01: .flag .text"]
    );
}

#[test]
fn a_write_without_a_change_keeps_owners_and_times() {
    let story = Story::new()
        .update("a", json!({"text": "x"}))
        .update("b", json!({"text": "x"}));
    assert_eq!(story.owners(), ["a Update 00:  .text"]);
}

#[test]
fn what_is_removed_has_no_owner() {
    let story = Story::new()
        .apply("a", json!({"text": "x", "number": 1}))
        .update("b", json!({"number": 1}));
    assert_eq!(story.owners(), ["a Apply 00: .number"]);
}

#[test]
fn a_later_change_of_the_same_manager_joins_its_entry() {
    let story = Story::new()
        .update("a", json!({"text": "x"}))
        .update("a", json!({"text": "x", "flag": true}));
    assert_eq!(story.owners(), ["a Update 01:  .flag .text"]);
}

#[test]
fn a_manager_without_a_name_is_unknown() {
    let story = Story::new().update("", json!({"text": "x"}));
    assert_eq!(story.owners(), ["unknown Update 00:  .text"]);
}

#[test]
fn updates_of_an_object_without_managers_are_not_tracked() {
    let live = stored(object(json!({"text": "x"})));
    let new = stored(object(json!({"text": "y"})));
    let updated = field_manager().update(Some(&live), new.clone(), "a", at(0));
    assert_eq!(updated, new);
}

#[test]
fn a_reset_takes_all_managers_away() {
    let story = Story::new().update("a", json!({"text": "x"}));
    let live = story.live.unwrap();
    for reset in [json!([]), json!([{}])] {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = reset;
        let updated = field_manager().update(Some(&live), new, "b", at(1));
        assert_eq!(updated.pointer("/metadata/managedFields"), None);
    }
}

#[test]
fn repeated_items_are_owned_as_one() {
    let story = Story::new()
        .update("a", json!({"set": ["x", "x"], "text": "t"}))
        .update("b", json!({"set": ["x"], "text": "t"}));
    assert_eq!(
        story.owners(),
        ["a Update 00:  .set .text", r#"b Update 01: .set[="x"]"#]
    );
}

#[test]
fn an_object_that_does_not_conform_is_stored_without_managers() {
    let mut new = object(json!({"unknown": 1}));
    let updated = field_manager().update(None, new.clone(), "a", at(0));
    assert_eq!(updated, new);
    new["spec"] = json!({"text": "x"});
    let updated = field_manager().update(None, new, "a", at(0));
    assert_eq!(owners(&updated), ["a Update 00:  .text"]);
}

#[test]
fn subresources_have_entries_of_their_own() {
    let mut manager = field_manager();
    let created = manager.update(None, object(json!({"text": "x"})), "a", at(0));
    manager.subresource = "status".to_owned();
    let live = stored(created);
    let mut new = live.clone();
    new["spec"]["flag"] = json!(true);
    // What the client says of managers is not looked at.
    new["metadata"]["managedFields"] = json!([]);
    let updated = manager.update(Some(&live), new, "a", at(1));
    let owners = crate::Managed::decode(&updated).unwrap().managers;
    let managers: Vec<&Manager> = owners.keys().collect();
    assert_eq!(
        managers,
        [
            &Manager::update("a", "example.org/v1", "status"),
            &Manager::update("a", "example.org/v1", ""),
        ]
    );
}

#[test]
fn the_eleventh_updater_makes_two_ancient() {
    let mut story = Story::new();
    let mut map = serde_json::Map::new();
    for number in 0..11 {
        map.insert(format!("k{number:02}"), json!("v"));
        story = story.update(&format!("m{number:02}"), json!({"map": map}));
    }
    let owners = story.owners();
    assert_eq!(owners.len(), 10);
    assert_eq!(
        owners[0],
        "ancient-changes Update 01:  .map .map.k00 .map.k01"
    );
}
