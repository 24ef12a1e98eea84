use serde_json::json;

use super::*;

fn object(metadata: Value) -> Object {
    Map::from_iter([("metadata".to_owned(), metadata)])
}

fn errors(metadata: Value) -> Vec<String> {
    object_meta(&object(metadata), true, NameRule::Subdomain)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn good_metadata_passes() {
    let metadata = json!({
        "name": "9d3bd7b3-0f3b-4a4b-8a3f-1d7b0b7a5a11", "namespace": "default",
        "generateName": "abc-", "labels": {"app.kubernetes.io/managed-by": "kyverno", "x": ""},
        "annotations": {"UPPER/Case": "any text"}, "finalizers": ["example.com/x"],
        "ownerReferences":
            [{"apiVersion": "apps/v1", "kind": "D", "name": "n", "uid": "u", "controller": true}],
        "managedFields": [{"manager": "m x", "operation": "Update", "fieldsType": "FieldsV1"}],
    });
    assert_eq!(errors(metadata), [""; 0]);
}

#[test]
fn names_and_namespaces() {
    assert_eq!(
        errors(json!({"namespace": "d"})),
        ["metadata.name: Required value: name or generateName is required"]
    );
    assert!(
        errors(json!({"name": "A", "namespace": "d"}))[0]
            .starts_with("metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain")
    );
    assert_eq!(
        errors(json!({"name": "a"})),
        ["metadata.namespace: Required value"]
    );
    let cluster = object_meta(
        &object(json!({"name": "a", "namespace": "d"})),
        false,
        NameRule::PathSegment,
    );
    assert_eq!(
        cluster[0].to_string(),
        "metadata.namespace: Forbidden: not allowed on this type"
    );
    assert_eq!(
        errors(json!({"name": "a", "namespace": "d", "generateName": "Ab-"})).len(),
        1
    );
    assert_eq!(
        errors(json!({"name": "a", "namespace": "d", "generateName": "a-"})).len(),
        0
    );
    let stored = object(json!({"name": "A", "namespace": "d", "generateName": "B"}));
    assert!(object_meta(&stored, true, NameRule::PathSegment).is_empty());
}

#[test]
fn labels_and_annotations() {
    let bad = errors(json!({"name": "a", "namespace": "d", "labels": {"-": "b c"}}));
    assert_eq!(bad.len(), 2);
    assert!(bad[0].starts_with("metadata.labels: Invalid value: \"-\": name part must consist"));
    assert!(bad[1].starts_with("metadata.labels: Invalid value: \"b c\": a valid label must"));
    let large = "x".repeat(256 * 1024);
    assert_eq!(
        errors(json!({"name": "a", "namespace": "d", "annotations": {"k": large}})),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
}

#[test]
fn owners() {
    let owner = json!({"apiVersion": "apps/", "kind": "", "name": "", "uid": ""});
    assert_eq!(
        errors(json!({"name": "a", "namespace": "d", "ownerReferences": [owner]})),
        [
            "metadata.ownerReferences.apiVersion: Invalid value: \"apps/\": version must not be empty",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ]
    );
    let one = |n: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": true});
    let two = errors(json!({"name": "a", "namespace": "d",
        "ownerReferences": [one("x"), one("y")]}));
    assert!(
        two[0].ends_with("references for Pod/x and Pod/y"),
        "{two:?}"
    );
}

#[test]
fn finalizers_and_managed_fields() {
    assert_eq!(
        errors(json!({"name": "a", "namespace": "d",
        "finalizers": [FOREGROUND, ORPHAN]}))
        .len(),
        1
    );
    let bad = errors(json!({"name": "a", "namespace": "d", "managedFields":
        [{"manager": "a\nb", "operation": "Patch", "fieldsType": "V2"}]}));
    assert_eq!(bad.len(), 3);
    assert_eq!(
        bad[2],
        "metadata.managedFields[0].manager: Invalid value: \"a\\nb\": \
         invalid character U+000A (at position 1)"
    );
    assert_eq!(
        manager_name(&"x".repeat(129), "fieldManager", false)[0].to_string(),
        "fieldManager: Too long: may not be more than 128 bytes"
    );
    assert_eq!(
        manager_name("", "fieldManager", true)[0].to_string(),
        "fieldManager: Required value: is required for apply patch"
    );
    assert!(manager_name("", "fieldManager", false).is_empty());
}

#[test]
fn update_keeps_identity_and_adds_no_finalizer_to_a_deleted_object() {
    let old = object(json!({"name": "a", "uid": "1", "deletionTimestamp": "t",
        "finalizers": ["a.b/c"]}));
    assert!(object_meta_update(&old, &old).is_empty());
    let new = object(
        json!({"name": "b", "uid": "2", "finalizers": ["a.b/c", "a.b/d"],
        "labels": {"-": ""}}),
    );
    let texts: Vec<_> = object_meta_update(&new, &old)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(texts.len(), 5);
    assert!(texts[0].starts_with("metadata.finalizers: Forbidden: no new finalizers"));
    assert!(texts[0].ends_with("[]string{\"a.b/d\"}"));
    assert_eq!(
        texts[1],
        "metadata.name: Invalid value: \"b\": field is immutable"
    );
}

#[test]
fn warnings_for_new_unqualified_finalizers() {
    let new = object(json!({"finalizers": ["orphan", "x", "x.y", "x.y/z", "old"]}));
    let old = object(json!({"finalizers": ["old"]}));
    let warnings = finalizer_warnings(&new, Some(&old));
    assert_eq!(warnings.len(), 2);
    assert!(
        warnings[0]
            .starts_with("metadata.finalizers: \"x\": prefer a domain-qualified finalizer name to")
    );
    assert!(warnings[1].contains("including a path (/)"));
}
