//! The patches of an APIService, applied to it, and the holder that it names afterwards.

use super::*;

fn service() -> ServiceRef {
    ServiceRef {
        namespace: "reports-server".into(),
        name: "simple-server".into(),
        port: 443,
    }
}

fn local(annotations: Option<Value>) -> APIService {
    let mut value = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1alpha2.wgpolicyk8s.io", "resourceVersion": "7",
            "labels": {LABEL_AUTOMANAGED: "true", "keep": "me"}},
        "spec": {"group": "wgpolicyk8s.io", "version": "v1alpha2",
            "groupPriorityMinimum": 1000, "versionPriority": 100}});
    if let Some(annotations) = annotations {
        value["metadata"]["annotations"] = annotations;
    }
    serde_json::from_value(value).unwrap()
}

fn apply(current: &APIService, patch: &Patch) -> APIService {
    let mut value = serde_json::to_value(current).unwrap();
    json_patch::patch(&mut value, patch).unwrap();
    serde_json::from_value(value).unwrap()
}

#[test]
fn takeover_keeps_priorities_and_foreign_metadata() {
    for annotations in [None, Some(json!({"a": "b"}))] {
        let before = local(annotations);
        assert_eq!(holder(Some(&before), &service()), Holder::Crd);
        let notes = BTreeMap::from([(SWITCHED_AT.to_owned(), "now".to_owned())]);
        let after = apply(
            &before,
            &takeover_patch(&before, &service(), b"PEM", &notes),
        );
        assert_eq!(holder(Some(&after), &service()), Holder::Ours);
        assert!(!is_outdated(&after, &service(), b"PEM"));
        assert!(is_outdated(&after, &service(), b"other"));
        assert!(!is_outdated(&after, &service(), b""));
        let labels = after.metadata.labels.unwrap();
        assert_eq!(labels.keys().collect::<Vec<_>>(), ["keep"]);
        let kept = after.metadata.annotations.unwrap();
        assert_eq!(kept.get(SWITCHED_AT).map(String::as_str), Some("now"));
        let old = before.metadata.annotations.unwrap_or_default();
        assert!(old.iter().all(|(k, v)| kept.get(k) == Some(v)));
        let spec = after.spec.unwrap();
        assert_eq!(
            (spec.group_priority_minimum, spec.version_priority),
            (1000, 100)
        );
    }
}

#[test]
fn what_was_taken_over_from_another_server_can_be_led_back() {
    let before: APIService = serde_json::from_value(json!({
        "metadata": {"name": "v1alpha2.wgpolicyk8s.io", "resourceVersion": "7",
            "labels": {"app.kubernetes.io/managed-by": "reports-server"},
            "ownerReferences": [{"apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole", "name": "reports-server", "uid": "u"}]},
        "spec": {"group": "wgpolicyk8s.io", "version": "v1alpha2",
            "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true,
            "service": {"namespace": "other", "name": "reports-server"}}}))
    .unwrap();
    let notes = BTreeMap::from([
        (SWITCHED_AT.to_owned(), "now".to_owned()),
        (ANNOTATION_CLAIMED_BY.to_owned(), "simple".to_owned()),
    ]);
    let taken = apply(
        &before,
        &takeover_patch(&before, &service(), b"PEM", &notes),
    );
    assert_eq!(holder(Some(&taken), &service()), Holder::Ours);
    let spec = taken.spec.as_ref().unwrap();
    // The kube-apiserver takes a CA bundle only without it.
    assert_eq!(spec.insecure_skip_tls_verify, None);
    assert_eq!(taken.metadata.owner_references, None);
    let annotations = taken.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations[TAKEN_FROM], "other/reports-server");
    let back = apply(&taken, &return_patch(&taken).unwrap());
    assert_eq!(back.spec, before.spec);
    assert_eq!(
        back.metadata.owner_references,
        before.metadata.owner_references
    );
    assert!(back.metadata.annotations.unwrap_or_default().is_empty());
    let settled = apply(&taken, &forget_patch(&taken, TAKEN_SPEC).unwrap());
    assert_eq!(return_patch(&settled), None);
    assert_eq!(forget_patch(&settled, TAKEN_SPEC), None);
    assert_eq!(return_patch(&before), None);
}

/// Returns an APIService that leads to another server, with these owners.
fn foreign(owners: &Value) -> APIService {
    let mut value = json!({
        "metadata": {"name": "v1alpha2.wgpolicyk8s.io", "resourceVersion": "7"},
        "spec": {"group": "wgpolicyk8s.io", "version": "v1alpha2",
            "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"namespace": "other", "name": "reports-server"}}});
    if !owners.is_null() {
        value["metadata"]["ownerReferences"] = owners.clone();
    }
    serde_json::from_value(value).unwrap()
}

/// The garbage collector would delete ours with the owner of theirs.
#[test]
fn no_owner_is_left_of_what_was_taken_over_and_each_is_given_back() {
    let owner = |kind: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "name": "a",
            "uid": kind})
    };
    let (role, other) = (owner("ClusterRole"), owner("ClusterRoleBinding"));
    for owners in [Value::Null, json!([role]), json!([role, other])] {
        let before = foreign(&owners);
        let patch = takeover_patch(&before, &service(), b"PEM", &BTreeMap::new());
        let taken = apply(&before, &patch);
        assert_eq!(taken.metadata.owner_references, None, "{owners}");
        let back = apply(&taken, &return_patch(&taken).unwrap());
        assert_eq!(
            back.metadata.owner_references,
            before.metadata.owner_references
        );
    }
}

#[test]
fn the_owners_of_what_leads_to_a_crd_stay() {
    let mut value = serde_json::to_value(local(None)).unwrap();
    value["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}]);
    let before: APIService = serde_json::from_value(value).unwrap();
    let patch = takeover_patch(&before, &service(), b"PEM", &BTreeMap::new());
    let taken = apply(&before, &patch);
    let owners = taken.metadata.owner_references;
    assert!(owners.is_some());
    assert_eq!(owners, before.metadata.owner_references);
}

#[test]
fn takeover_is_refused_when_the_object_has_changed() {
    let before = local(None);
    let patch = takeover_patch(&before, &service(), b"PEM", &BTreeMap::new());
    let mut changed = serde_json::to_value(&before).unwrap();
    changed["metadata"]["resourceVersion"] = json!("8");
    assert!(json_patch::patch(&mut changed, &patch).is_err());
}

#[test]
fn a_registration_is_ours_and_not_outdated() {
    let notes = BTreeMap::from([(ANNOTATION_CLAIMED_BY.to_owned(), "simple".to_owned())]);
    let made = registration("openreports.io", "v1alpha1", &service(), b"PEM", &notes);
    assert_eq!(
        made.metadata.name.as_deref(),
        Some("v1alpha1.openreports.io")
    );
    assert_eq!(holder(Some(&made), &service()), Holder::Ours);
    assert!(!is_outdated(&made, &service(), b"PEM"));
    assert!(!is_available(&made));
}

#[test]
fn a_service_of_somebody_else_is_foreign_and_a_missing_label_is_noticed() {
    let mut other = service();
    other.name = "kyverno-reports-server".into();
    let theirs = registration("g", "v1", &other, b"", &BTreeMap::new());
    assert_eq!(
        holder(Some(&theirs), &service()),
        Holder::Foreign("reports-server/kyverno-reports-server".into())
    );
    let mut unmanaged = local(None);
    unmanaged.metadata.labels = None;
    assert_eq!(holder(Some(&unmanaged), &service()), Holder::Unmanaged);
    assert_eq!(holder(None, &service()), Holder::Absent);
}
