//! Deletions, and paths that lead nowhere.

use serde_json::{Value, json};

use crate::{api_support::*, transcript::*};

pub async fn deletions(t: &mut Transcript<'_>) {
    for (step, options) in [
        ("array", json!([])),
        ("other kind", report("b")),
        ("bad dry run", json!({"dryRun": ["Some"]})),
        ("bad policy", json!({"propagationPolicy": "Sideways"})),
        (
            "two policies",
            json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
        ),
        ("other uid", json!({"preconditions": {"uid": "other"}})),
        (
            "other version",
            json!({"preconditions": {"resourceVersion": "1"}}),
        ),
        ("dry run", json!({"dryRun": ["All"]})),
        (
            "foreground dry run",
            json!({"dryRun": ["All"], "propagationPolicy": "Foreground"}),
        ),
    ] {
        t.delete(step, &item("b"), &options).await;
    }
    t.delete(
        "bad query",
        &format!("{}?propagationPolicy=x", item("b")),
        &Value::Null,
    )
    .await;
    t.delete(
        "bad grace period",
        &format!("{}?gracePeriodSeconds=x", item("b")),
        &Value::Null,
    )
    .await;
    t.delete("missing", &item("missing"), &Value::Null).await;
    t.delete(
        "delete",
        &item("b"),
        &json!({"propagationPolicy": "Background"}),
    )
    .await;
    t.delete("again", &item("b"), &Value::Null).await;
    let held = with(
        report("held"),
        "/metadata/finalizers",
        json!(["example.com/x", "example.com/y"]),
    );
    t.post("held", REPORTS, &held).await;
    t.delete("delete held", &item("held"), &Value::Null).await;
    t.delete("again", &item("held"), &Value::Null).await;
    t.delete(
        "orphanDependents",
        &item("held"),
        &json!({"orphanDependents": false}),
    )
    .await;
    t.post("name of a deleted", REPORTS, &report("held")).await;
    let more = json!({"metadata": {"finalizers": ["example.com/x", "example.com/z"]}});
    t.merge("new finalizer", &item("held"), &more).await;
    t.merge(
        "one finalizer",
        &item("held"),
        &json!({"metadata": {"finalizers": ["example.com/x"]}}),
    )
    .await;
    t.merge(
        "no finalizer",
        &item("held"),
        &json!({"metadata": {"finalizers": null}}),
    )
    .await;
    t.get("gone", &item("held")).await;
}

pub async fn collections(t: &mut Transcript<'_>) {
    t.delete(
        "selected",
        &format!("{REPORTS}?labelSelector=app%3Dc"),
        &Value::Null,
    )
    .await;
    t.delete("limited", &format!("{REPORTS}?limit=1"), &Value::Null)
        .await;
    t.delete(
        "bad field",
        &format!("{REPORTS}?fieldSelector=spec.x%3D1"),
        &Value::Null,
    )
    .await;
    t.delete("dry run", REPORTS, &json!({"dryRun": ["All"]}))
        .await;
    t.delete(
        "all",
        REPORTS,
        &json!({"kind": "DeleteOptions", "apiVersion": "v1"}),
    )
    .await;
    t.get("nothing left", REPORTS).await;
    t.delete("nothing", REPORTS, &Value::Null).await;
}

pub async fn paths(t: &mut Transcript<'_>) {
    let base = "/apis/wgpolicyk8s.io/v1alpha2";
    for path in [
        format!("{base}/nothing"),
        format!("{base}/policyreports/a"),
        format!("{base}/namespaces/default/clusterpolicyreports"),
        format!("{base}/namespaces/default/clusterpolicyreports/a"),
        format!("{}/status", item("a")),
        format!("{}/scale", item("a")),
        format!("{}/other", item("a")),
        format!("{}/a/b", item("a")),
    ] {
        t.get("path", &path).await;
    }
    t.post("bare create", ALL_REPORTS, &report("a")).await;
    t.delete("bare deletecollection", ALL_REPORTS, &Value::Null)
        .await;
    t.send("OPTIONS", "OPTIONS", REPORTS, &[], "").await;
    t.merge("PATCH on a collection", REPORTS, &json!({})).await;
}
