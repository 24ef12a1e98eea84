//! From client-side to server-side apply.

use serde_json::{Value, json};

use super::owners;
use crate::ApplyError;
use crate::testing::{at, field_manager, object, stored};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns an object that client-side apply made of `spec`.
fn client_side(spec: &Value) -> Value {
    let mut object = object(spec.clone());
    let last = format!("{object}\n");
    object["metadata"]["annotations"] = json!({ANNOTATION: last});
    let manager = "kubectl-client-side-apply";
    stored(field_manager().update(None, object, manager, at(0)))
}

fn apply(live: &Value, spec: Value, name: &str) -> Result<Value, ApplyError> {
    field_manager().apply(Some(live), &object(spec), name, false, at(1))
}

#[test]
fn kubectl_does_not_conflict_with_what_it_applied_itself() {
    let live = client_side(&json!({"text": "x", "number": 1}));
    let applied = apply(&live, json!({"text": "y", "number": 1}), "kubectl").unwrap();
    assert_eq!(applied["spec"], json!({"text": "y", "number": 1}));
    assert!(owners(&applied)[0].starts_with("kubectl Apply 01:"));
    let conflicts = apply(&live, json!({"text": "y"}), "other").unwrap_err();
    assert!(matches!(conflicts, ApplyError::Conflicts(_)));
}

#[test]
fn kubectl_conflicts_with_what_others_changed_since() {
    let live = client_side(&json!({"text": "x", "number": 1}));
    let mut edited = live.clone();
    edited["spec"]["text"] = json!("z");
    let live = field_manager().update(Some(&live), edited, "editor", at(1));
    let error = apply(&live, json!({"text": "y", "number": 2}), "kubectl").unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"editor\" using example.org/v1: .spec.text"
    );
}

#[test]
fn the_annotation_follows_what_kubectl_applies() {
    let live = client_side(&json!({"text": "x"}));
    let applied = apply(&live, json!({"text": "<y>", "number": 2.0}), "kubectl").unwrap();
    let annotation = &applied["metadata"]["annotations"][ANNOTATION];
    assert_eq!(
        annotation.as_str().unwrap(),
        "{\"apiVersion\":\"example.org/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"a\",\
         \"namespace\":\"ns\"},\"spec\":{\"number\":2,\"text\":\"\\u003cy\\u003e\"}}\n"
    );
    let other = apply(&live, json!({"text": "x"}), "other").unwrap();
    assert_eq!(
        other["metadata"]["annotations"],
        live["metadata"]["annotations"]
    );
}

#[test]
fn an_object_without_the_annotation_gets_none() {
    let live = stored(field_manager().update(None, object(json!({"text": "x"})), "a", at(0)));
    let applied = apply(&live, json!({"text": "x"}), "kubectl").unwrap();
    assert_eq!(applied["metadata"].get("annotations"), None);
}

#[test]
fn an_annotation_that_grows_too_large_goes() {
    let live = client_side(&json!({"text": "x"}));
    let applied = apply(&live, json!({"text": "y".repeat(256 * 1024)}), "kubectl").unwrap();
    assert_eq!(applied["metadata"]["annotations"], json!({}));
}
