//! Creations, and bodies that are not what they should be.

use serde_json::{Value, json};

use crate::{api_support::*, transcript::*};

pub async fn creates(t: &mut Transcript<'_>) {
    let new = || report("new");
    t.post("taken", REPORTS, &report("a")).await;
    for (step, object) in [
        ("no name", without(new(), "/metadata/name")),
        (
            "upper case name",
            with(new(), "/metadata/name", json!("New")),
        ),
        (
            "long name",
            with(new(), "/metadata/name", json!("n".repeat(254))),
        ),
        ("dots", with(new(), "/metadata/name", json!(".."))),
        ("slash", with(new(), "/metadata/name", json!("a/b"))),
        (
            "bad generateName",
            without(
                with(new(), "/metadata/generateName", json!("Abc-")),
                "/metadata/name",
            ),
        ),
        (
            "other namespace",
            with(new(), "/metadata/namespace", json!("other")),
        ),
        (
            "with version",
            with(new(), "/metadata/resourceVersion", json!("7")),
        ),
        (
            "bad labels",
            with(new(), "/metadata/labels", json!({"-": "b c"})),
        ),
        (
            "bad annotations",
            with(new(), "/metadata/annotations", json!({"a/b/c": "x"})),
        ),
        (
            "large annotations",
            with(
                new(),
                "/metadata/annotations",
                json!({"a": "x".repeat(270_000)}),
            ),
        ),
        (
            "bad owner",
            with(new(), "/metadata/ownerReferences", json!([{"kind": "Pod"}])),
        ),
        (
            "two controllers",
            with(
                new(),
                "/metadata/ownerReferences",
                json!([
                    {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "a", "controller": true},
                    {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "b", "controller": true},
                ]),
            ),
        ),
        (
            "bad finalizer",
            with(new(), "/metadata/finalizers", json!(["a b"])),
        ),
        (
            "both finalizers",
            with(
                new(),
                "/metadata/finalizers",
                json!(["orphan", "foregroundDeletion"]),
            ),
        ),
        (
            "bad enumeration",
            with(new(), "/results/0/result", json!("maybe")),
        ),
        (
            "missing policy",
            with(new(), "/results", json!([{"result": "pass"}])),
        ),
        ("wrong type", with(new(), "/results", json!("text"))),
        ("wrong item type", with(new(), "/results", json!(["text"]))),
        (
            "fraction in an integer",
            with(new(), "/summary/pass", json!(1.5)),
        ),
        (
            "text in an integer",
            with(new(), "/summary/pass", json!("1")),
        ),
        (
            "null in an integer",
            with(new(), "/summary/extra", Value::Null),
        ),
        (
            "several errors",
            with(
                with(new(), "/summary/pass", json!("1")),
                "/results/0/result",
                json!("x"),
            ),
        ),
        ("unknown kind", with(new(), "/kind", json!("Thing"))),
        (
            "unknown version",
            with(new(), "/apiVersion", json!("wgpolicyk8s.io/v9")),
        ),
        ("other group", with(new(), "/apiVersion", json!("v1"))),
        ("no kind", without(new(), "/kind")),
        ("no version", without(new(), "/apiVersion")),
        ("number as kind", with(new(), "/kind", json!(7))),
        (
            "labels of wrong type",
            with(new(), "/metadata/labels", json!(7)),
        ),
        (
            "label value of wrong type",
            with(new(), "/metadata/labels", json!({"a": 7})),
        ),
        (
            "metadata of wrong type",
            with(new(), "/metadata", json!("text")),
        ),
    ] {
        t.post(step, &format!("{REPORTS}?dryRun=All"), &object)
            .await;
    }
    t.post(
        "whole float",
        REPORTS,
        &with(report("float"), "/summary/pass", json!(2.0)),
    )
    .await;
    t.post(
        "empty values",
        REPORTS,
        &with(report("empty"), "/metadata/labels", json!({})),
    )
    .await;
    let nulls = with(report("nulls"), "/metadata/annotations", json!({"a": null}));
    t.post("nulls", REPORTS, &nulls).await;
    let overwritten = with(report("over"), "/metadata/uid", json!("mine"));
    t.post(
        "own uid",
        REPORTS,
        &with(overwritten, "/metadata/generation", json!(9)),
    )
    .await;
    let owner = an_owner();
    let twice = with(
        report("twice"),
        "/metadata/ownerReferences",
        json!([owner, owner]),
    );
    t.post("same owner twice", REPORTS, &twice).await;
    let loose = with(
        report("loose"),
        "/metadata/finalizers",
        json!(["hold", "hold.it"]),
    );
    t.post(
        "unqualified finalizers",
        &format!("{REPORTS}?dryRun=All"),
        &loose,
    )
    .await;
    let unknown = with(
        with(report("unknown"), "/foo", json!(1)),
        "/results/0/bar",
        json!(2),
    );
    let unknown = with(unknown, "/metadata/baz", json!(3));
    t.post("unknown fields", REPORTS, &unknown).await;
    let uri = |query: &str| format!("{REPORTS}?{query}");
    for (step, query) in [
        ("strict", "fieldValidation=Strict&dryRun=All"),
        ("ignored", "fieldValidation=Ignore&dryRun=All"),
        ("bad validation", "fieldValidation=strict"),
        ("bad dry run", "dryRun=Some"),
        ("long manager", &format!("fieldManager={}", "x".repeat(129))),
        ("unprintable manager", "fieldManager=a%0Ab"),
    ] {
        t.post(
            step,
            &uri(query),
            &with(unknown.clone(), "/metadata/name", json!("strict")),
        )
        .await;
    }
    let elsewhere = REPORTS.replace("/default/", "/nowhere/");
    t.post("missing namespace", &elsewhere, &report("a")).await;
    t.post("post to a name", &item("posted"), &report("posted"))
        .await;
    let mut cluster = with(report("c"), "/kind", json!("ClusterPolicyReport"));
    cluster["metadata"]["namespace"] = json!("ignored");
    t.post("cluster kind", CLUSTER_REPORTS, &cluster).await;
    t.delete(
        "cluster kind",
        &format!("{CLUSTER_REPORTS}/c"),
        &Value::Null,
    )
    .await;
}

pub async fn bodies(t: &mut Transcript<'_>) {
    let large = with(
        report("large"),
        "/results/0/message",
        json!("x".repeat(3 << 20)),
    );
    t.post("too large", REPORTS, &large).await;
    let whole = report("new").to_string();
    for (step, body) in [
        ("empty", ""),
        ("null", "null"),
        ("array", "[]"),
        ("text", "\"text\""),
        ("truncated", &whole[..40]),
        ("trailing", &format!("{whole} x")),
        ("empty object", "{}"),
        (
            "list",
            r#"{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReportList","items":[]}"#,
        ),
    ] {
        t.send(
            step,
            "POST",
            &format!("{REPORTS}?dryRun=All"),
            &[JSON],
            body,
        )
        .await;
    }
    let duplicate = r#"{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport",
        "metadata":{"name":"dup"},"summary":{"pass":1,"pass":2}}"#;
    for query in ["dryRun=All", "dryRun=All&fieldValidation=Strict"] {
        t.send(
            "duplicate key",
            "POST",
            &format!("{REPORTS}?{query}"),
            &[JSON],
            duplicate,
        )
        .await;
    }
    let yaml = "apiVersion: wgpolicyk8s.io/v1alpha2\nkind: PolicyReport\nmetadata:\n  name: yaml\n";
    t.send(
        "YAML",
        "POST",
        &format!("{REPORTS}?dryRun=All"),
        &[YAML],
        yaml,
    )
    .await;
    for type_ in [
        // Not protobuf: the kube-apiserver (1.36) breaks the connection off with a nil pointer.
        "text/plain",
        "application/json; charset=utf-8",
    ] {
        let headers = [("content-type", type_)];
        t.send(
            type_,
            "POST",
            &format!("{REPORTS}?dryRun=All"),
            &headers,
            whole.clone(),
        )
        .await;
    }
}
