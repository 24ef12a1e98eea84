use rstest::rstest;
use serde_json::{Value, json};

use super::{ApplyError, Story, owners};
use crate::testing::{VERSION, at, field_manager, object, stored};

#[test]
fn creating_by_apply() {
    let story = Story::new().apply("a", json!({"text": "x", "set": ["y"], "map": {"k": "v"}}));
    assert_eq!(
        story.spec(),
        json!({"text": "x", "set": ["y"], "map": {"k": "v"}})
    );
    assert_eq!(story.owners(), [r#"a Apply 00: .text .map.k .set[="y"]"#]);
}

#[test]
fn the_entry_in_full() {
    let applied = field_manager()
        .apply(
            None,
            &object(json!({"ports": [{"port": 80, "name": "x"}]})),
            "a",
            false,
            at(0),
        )
        .unwrap();
    insta::assert_json_snapshot!(applied, @r#"
    {
      "apiVersion": "example.org/v1",
      "kind": "Thing",
      "metadata": {
        "managedFields": [
          {
            "apiVersion": "example.org/v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
              "f:spec": {
                "f:ports": {
                  "k:{\"port\":80,\"protocol\":\"TCP\"}": {
                    ".": {},
                    "f:name": {},
                    "f:port": {}
                  }
                }
              }
            },
            "manager": "a",
            "operation": "Apply",
            "time": "2026-01-01T12:00:00Z"
          }
        ],
        "name": "a",
        "namespace": "ns"
      },
      "spec": {
        "ports": [
          {
            "name": "x",
            "port": 80
          }
        ]
      }
    }
    "#);
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let config = json!({"text": "x", "number": 1, "ports": [{"port": 1}], "any": {"a": [1.5]}});
    let once = Story::new().apply("a", config.clone());
    let before = once.live.clone();
    let twice = once.apply("a", config);
    assert_eq!(twice.live, before);
}

#[test]
fn equal_values_are_shared() {
    let story = Story::new()
        .apply("a", json!({"text": "x"}))
        .apply("b", json!({"text": "x"}));
    // The object did not change, so the second entry has no time.
    assert_eq!(
        story.owners(),
        ["b Apply never: .text", "a Apply 00: .text"]
    );
}

#[test]
fn a_shared_field_stays_until_its_last_owner_leaves_it() {
    let story = Story::new()
        .apply("a", json!({"text": "x", "number": 1}))
        .apply("b", json!({"text": "x"}))
        .apply("a", json!({"number": 1}));
    assert_eq!(story.spec(), json!({"text": "x", "number": 1}));
    let story = story.apply("b", json!({"flag": true}));
    assert_eq!(story.spec(), json!({"number": 1, "flag": true}));
}

#[test]
fn one_conflict() {
    let conflicts = Story::new()
        .update("kubectl-edit", json!({"text": "x"}))
        .conflicts("a", json!({"text": "y"}));
    assert_eq!(
        conflicts.to_string(),
        "Apply failed with 1 conflict: conflict with \"kubectl-edit\" using example.org/v1: \
         .spec.text"
    );
    let causes = conflicts.causes();
    assert_eq!(causes.len(), 1);
    assert_eq!(
        causes[0].message,
        "conflict with \"kubectl-edit\" using example.org/v1"
    );
    assert_eq!(causes[0].field, ".spec.text");
}

#[test]
fn conflicts_with_several() {
    let conflicts = Story::new()
        .apply(
            "b",
            json!({"set": ["x"], "ports": [{"port": 80, "name": "a"}]}),
        )
        .update(
            "a",
            json!({
                "text": "x",
                "number": 1,
                "set": ["x"],
                "ports": [{"port": 80, "name": "a"}],
            }),
        )
        .conflicts(
            "c",
            json!({
                "text": "y",
                "number": 2,
                "ports": [{"port": 80, "name": "b"}],
            }),
        );
    insta::assert_snapshot!(conflicts.to_string(), @r#"
    Apply failed with 3 conflicts: conflicts with "a" using example.org/v1:
    - .spec.number
    - .spec.text
    conflicts with "b":
    - .spec.ports[port=80,protocol="TCP"].name
    "#);
}

#[test]
fn force_takes_fields_over() {
    let story = Story::new()
        .update("a", json!({"text": "x", "number": 1}))
        .force("b", json!({"text": "y"}));
    assert_eq!(story.spec(), json!({"text": "y", "number": 1}));
    assert_eq!(
        story.owners(),
        ["b Apply 01: .text", "a Update 00:  .number"]
    );
}

#[test]
fn what_is_not_applied_any_more_is_removed() {
    let story = Story::new()
        .apply(
            "a",
            json!({
                "text": "x",
                "map": {"k": "v", "l": "w"},
                "set": ["p", "q"],
                "ports": [{"port": 1}, {"port": 2}],
                "atomicMap": {"m": "n"},
            }),
        )
        .apply(
            "a",
            json!({"map": {"k": "v"}, "set": ["q"], "ports": [{"port": 2}]}),
        );
    assert_eq!(
        story.spec(),
        json!({"map": {"k": "v"}, "set": ["q"], "ports": [{"port": 2}]})
    );
}

#[test]
fn an_item_stays_for_what_others_own_in_it() {
    let story = Story::new()
        .apply("a", json!({"ports": [{"port": 1, "name": "x"}]}))
        .apply("b", json!({"ports": [{"port": 1, "tags": ["t"]}]}))
        .apply("a", json!({"text": "only"}));
    assert_eq!(
        story.spec(),
        json!({"text": "only", "ports": [{"port": 1, "tags": ["t"]}]})
    );
}

#[test]
fn an_item_goes_with_what_updaters_changed_in_it() {
    let item = |name: &str| json!({"text": "x", "ports": [{"port": 1, "name": name}]});
    let story = Story::new()
        .apply("a", item("mine"))
        .update("b", item("theirs"))
        .apply("a", json!({"text": "x"}));
    // The null is for the pruning of nulls that follows.
    assert_eq!(story.spec(), json!({"text": "x", "ports": null}));
}

#[test]
fn fields_of_updaters_are_not_removed() {
    let story = Story::new()
        .apply("a", json!({"text": "x", "number": 1}))
        .update("b", json!({"text": "z", "number": 1}))
        .apply("a", json!({"number": 1}));
    assert_eq!(story.spec(), json!({"text": "z", "number": 1}));
}

#[test]
fn what_was_there_before_the_first_apply_belongs_to_nobody_in_person() {
    let live = stored(object(json!({"text": "x", "number": 1})));
    let manager = field_manager();
    let config = object(json!({"text": "x"}));
    let applied = manager
        .apply(Some(&live), &config, "a", false, at(5))
        .unwrap();
    assert_eq!(
        owners(&applied),
        [
            "a Apply never: .text",
            "before-first-apply Update 05:  .number .text"
        ]
    );
    let config = object(json!({"text": "y"}));
    let refused = manager
        .apply(Some(&live), &config, "a", false, at(5))
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using \
         example.org/v1: .spec.text"
    );
}

#[test]
fn metadata_is_owned_but_for_what_identifies_the_object() {
    let mut config = object(json!(null));
    config["metadata"]["labels"] = json!({"l": "1"});
    config["metadata"]["finalizers"] = json!(["example.org/f"]);
    config["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]);
    let applied = field_manager()
        .apply(None, &config, "a", false, at(0))
        .unwrap();
    assert_eq!(
        owners(&applied),
        [
            r#"a Apply 00: .metadata.finalizers[="example.org/f"] .metadata.labels.l .metadata.ownerReferences[uid="u"]"#
        ]
    );
}

#[rstest]
#[case(
    "example.org/v2",
    "Thing",
    "invalid object type: example.org/v2, Kind=Thing"
)]
#[case(VERSION, "Other", "invalid object type: example.org/v1, Kind=Other")]
#[case("v1", "Thing", "invalid object type: /v1, Kind=Thing")]
#[case("a/b/c", "Thing", "invalid object type: /, Kind=")]
#[case("", "", "invalid object type: /, Kind=")]
fn other_types(#[case] version: &str, #[case] kind: &str, #[case] message: &str) {
    let mut config = object(json!({}));
    config["apiVersion"] = json!(version);
    config["kind"] = json!(kind);
    let error = field_manager().apply(None, &config, "a", false, at(0));
    assert_eq!(error, Err(ApplyError::BadRequest(message.to_owned())));
}

#[rstest]
#[case(json!([]))]
#[case(json!([{}]))]
fn managed_fields_cannot_be_applied(#[case] entries: Value) {
    let mut config = object(json!({}));
    config["metadata"]["managedFields"] = entries;
    let error = field_manager().apply(None, &config, "a", false, at(0));
    let message = "metadata.managedFields must be nil".to_owned();
    assert_eq!(error, Err(ApplyError::BadRequest(message)));
}

#[test]
fn what_does_not_conform_is_refused() {
    let config = object(json!({"text": 1, "set": ["a", "a"]}));
    let error = field_manager()
        .apply(None, &config, "a", false, at(0))
        .unwrap_err();
    assert_eq!(
        error,
        ApplyError::Internal(
            "failed to create typed patch object (ns/a; example.org/v1, Kind=Thing): errors:\n  \
             .spec.set: duplicate entries for key [=\"a\"]\n  .spec.text: expected string, got \
             &value.valueUnstructured{Value:1}"
                .to_owned()
        )
    );
}

#[test]
fn invalid_managed_fields_of_the_live_object_are_an_error() {
    let mut live = stored(object(json!({})));
    live["metadata"]["managedFields"] = json!([{"operation": "Apply"}]);
    let error = field_manager().apply(Some(&live), &object(json!({})), "a", false, at(0));
    assert_eq!(
        error.unwrap_err().to_string(),
        "failed to decode managed fields: apiVersion must not be empty"
    );
}

#[test]
fn numbers_come_out_as_go_writes_them() {
    let story = Story::new().apply(
        "a",
        json!({"number": 5.0, "any": {"big": 1e3, "half": 0.5}}),
    );
    assert_eq!(
        story.spec().to_string(),
        r#"{"any":{"big":1000,"half":0.5},"number":5}"#
    );
}
