//! Updates and patches.

use serde_json::json;

use crate::{api_support::*, transcript::*};

pub async fn updates(t: &mut Transcript<'_>) {
    let a = t.get("before updates", &item("a")).await;
    let same = t.put("no-op", &item("a"), &a).await;
    t.same("no-op", &a, &same);
    let relabelled = with(a.clone(), "/metadata/labels", json!({"x": "y"}));
    let a = t.put("metadata only", &item("a"), &relabelled).await;
    let changed = t
        .put(
            "content",
            &item("a"),
            &with(a.clone(), "/results", json!([])),
        )
        .await;
    t.put("stale", &item("a"), &a).await;
    let a = changed;
    for (step, object) in [
        (
            "no version",
            without(a.clone(), "/metadata/resourceVersion"),
        ),
        (
            "version 0",
            with(a.clone(), "/metadata/resourceVersion", json!("0")),
        ),
        (
            "version x",
            with(a.clone(), "/metadata/resourceVersion", json!("x")),
        ),
        (
            "other uid",
            with(a.clone(), "/metadata/uid", json!("other")),
        ),
        ("no uid", without(a.clone(), "/metadata/uid")),
        (
            "other name",
            with(a.clone(), "/metadata/name", json!("other")),
        ),
        ("no name", without(a.clone(), "/metadata/name")),
        (
            "other namespace",
            with(a.clone(), "/metadata/namespace", json!("other")),
        ),
        (
            "other creation",
            with(
                a.clone(),
                "/metadata/creationTimestamp",
                json!("2000-01-01T00:00:00Z"),
            ),
        ),
        (
            "deletion time",
            with(
                a.clone(),
                "/metadata/deletionTimestamp",
                json!("2000-01-01T00:00:00Z"),
            ),
        ),
        (
            "grace period",
            with(a.clone(), "/metadata/deletionGracePeriodSeconds", json!(5)),
        ),
        (
            "generation",
            with(a.clone(), "/metadata/generation", json!(50)),
        ),
        (
            "bad labels",
            with(a.clone(), "/metadata/labels", json!({"-": ""})),
        ),
        (
            "bad content",
            with(a.clone(), "/results", json!([{"result": "x"}])),
        ),
        ("other kind", with(a.clone(), "/kind", json!("Thing"))),
        (
            "other version",
            with(a.clone(), "/apiVersion", json!("wgpolicyk8s.io/v9")),
        ),
        (
            "generateName",
            with(a.clone(), "/metadata/generateName", json!("Odd_")),
        ),
    ] {
        t.put(step, &format!("{}?dryRun=All", item("a")), &object)
            .await;
    }
    t.put(
        "missing",
        &item("missing"),
        &with(a.clone(), "/metadata/name", json!("missing")),
    )
    .await;
    t.put("no name in the path", REPORTS, &a).await;
    t.put(
        "bad options",
        &format!("{}?fieldValidation=x&dryRun=y", item("a")),
        &a,
    )
    .await;
    t.get("after updates", &item("a")).await;
}

pub async fn patches(t: &mut Transcript<'_>) {
    t.merge(
        "merge",
        &item("b"),
        &json!({"metadata": {"labels": {"app": null, "x": "y"}}}),
    )
    .await;
    t.merge(
        "merge no-op",
        &item("b"),
        &json!({"metadata": {"labels": {"x": "y"}}}),
    )
    .await;
    t.merge(
        "merge content",
        &item("b"),
        &json!({"summary": {"pass": 9}}),
    )
    .await;
    for (step, patch) in [
        ("merge array", json!([])),
        ("merge name", json!({"metadata": {"name": "other"}})),
        ("merge no name", json!({"metadata": {"name": null}})),
        (
            "merge namespace",
            json!({"metadata": {"namespace": "other"}}),
        ),
        ("merge uid", json!({"metadata": {"uid": "other"}})),
        (
            "merge old version",
            json!({"metadata": {"resourceVersion": "1"}}),
        ),
        (
            "merge no version",
            json!({"metadata": {"resourceVersion": null}}),
        ),
        ("merge no kind", json!({"kind": null})),
        ("merge kind", json!({"kind": "Thing"})),
        ("merge version", json!({"apiVersion": "wgpolicyk8s.io/v9"})),
        ("merge no metadata", json!({"metadata": null})),
        ("merge bad labels", json!({"metadata": {"labels": 7}})),
        ("merge bad content", json!({"results": [{"result": "x"}]})),
        ("merge unknown field", json!({"foo": 1})),
    ] {
        t.merge(step, &format!("{}?dryRun=All", item("b")), &patch)
            .await;
    }
    t.merge(
        "merge strictly",
        &format!("{}?fieldValidation=Strict", item("b")),
        &json!({"foo": 1}),
    )
    .await;
    t.merge("merge missing", &item("missing"), &json!({})).await;
    t.merge(
        "merge forced",
        &format!("{}?force=true", item("b")),
        &json!({}),
    )
    .await;
    let good = json!([{"op": "test", "path": "/summary/pass", "value": 9},
        {"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}]);
    t.patch("JSON patch", &item("b"), &good).await;
    for (step, patch) in [
        (
            "failing test",
            json!([{"op": "test", "path": "/summary/pass", "value": 1}]),
        ),
        (
            "missing path",
            json!([{"op": "remove", "path": "/missing"}]),
        ),
        (
            "unknown operation",
            json!([{"op": "jump", "path": "/summary"}]),
        ),
        ("no list", json!({})),
        ("list of numbers", json!([1])),
    ] {
        t.patch(step, &format!("{}?dryRun=All", item("b")), &patch)
            .await;
    }
    let many = vec![json!({"op": "test", "path": "/kind", "value": "PolicyReport"}); 10_001];
    t.patch("too many operations", &item("b"), &json!(many))
        .await;
    t.send("truncated patch", "PATCH", &item("b"), &[MERGE], "{")
        .await;
    t.get("after patches", &item("b")).await;
}
