//! Gets and lists, in every form.

use serde_json::json;

use crate::{api_support::*, transcript::*};

pub async fn reads(t: &mut Transcript<'_>) {
    t.get("empty list", REPORTS).await;
    for name in ["a", "b", "c"] {
        t.post("create", REPORTS, &report(name)).await;
    }
    t.get("get", &item("a")).await;
    t.get("get missing", &item("missing")).await;
    t.get("list", REPORTS).await;
    t.get("list all namespaces", ALL_REPORTS).await;
    t.get("list cluster kind", CLUSTER_REPORTS).await;
    let page = t.get("page", &format!("{REPORTS}?limit=2")).await;
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    t.post(
        "with version",
        REPORTS,
        &with(report("new"), "/metadata/resourceVersion", json!("7")),
    )
    .await;
    let rv = page["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    t.get("next page", &format!("{REPORTS}?limit=2&continue={token}"))
        .await;
    for (step, query) in [
        (
            "token and version",
            format!("continue={token}&resourceVersion={rv}"),
        ),
        ("bad token", "continue=nonsense".to_owned()),
        ("bad token as JSON", "continue=e30".to_owned()),
        ("bad limit", "limit=abc".to_owned()),
        ("negative limit", "limit=-1".to_owned()),
        ("limit ignored at 0", "resourceVersion=0&limit=1".to_owned()),
        (
            "exact",
            format!("resourceVersion={rv}&resourceVersionMatch=Exact"),
        ),
        (
            "not older",
            format!("resourceVersion={rv}&resourceVersionMatch=NotOlderThan"),
        ),
        (
            "match without version",
            "resourceVersionMatch=Exact".to_owned(),
        ),
        (
            "exact 0",
            "resourceVersion=0&resourceVersionMatch=Exact".to_owned(),
        ),
        (
            "bad match",
            "resourceVersion=1&resourceVersionMatch=Near".to_owned(),
        ),
        ("bad version", "resourceVersion=x".to_owned()),
        ("initial events", "sendInitialEvents=true".to_owned()),
        ("label", "labelSelector=app%3Da".to_owned()),
        (
            "label page",
            "labelSelector=app+in+(a,b)&limit=1".to_owned(),
        ),
        ("bad label", "labelSelector=a+in".to_owned()),
        ("bad label value", "labelSelector=a%3D-".to_owned()),
        ("field", "fieldSelector=metadata.name%3Db".to_owned()),
        (
            "namespace field",
            "fieldSelector=metadata.namespace%3Ddefault".to_owned(),
        ),
        ("other field", "fieldSelector=spec.x%3D1".to_owned()),
        ("bad field", "fieldSelector=nonsense".to_owned()),
        ("bad watch", "watch=1&sendInitialEvents=true".to_owned()),
        ("bad watch version", "watch=1&resourceVersion=x".to_owned()),
        ("bad watch timeout", "watch=1&timeoutSeconds=x".to_owned()),
    ] {
        t.get(step, &format!("{REPORTS}?{query}")).await;
    }
    t.get(
        "cluster kind by namespace",
        &format!("{CLUSTER_REPORTS}?fieldSelector=metadata.namespace%3Dx"),
    )
    .await;
    for (step, query) in [
        ("get at 0", "resourceVersion=0"),
        ("get at bad version", "resourceVersion=x"),
        ("get with watch", "watch=1"),
    ] {
        t.get(step, &format!("{}?{query}", item("a"))).await;
    }
    forms(t).await;
}

pub async fn forms(t: &mut Transcript<'_>) {
    for (step, accept) in [
        ("any", "*/*"),
        (
            "protobuf or JSON",
            "application/vnd.kubernetes.protobuf,application/json",
        ),
        ("protobuf only", "application/vnd.kubernetes.protobuf"),
        ("HTML", "text/html"),
        (
            "unknown form",
            "application/json;as=Picture;g=meta.k8s.io;v=v1,application/json",
        ),
        (
            "partial v1beta1",
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1",
        ),
        (
            "partial list of one",
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        ),
    ] {
        t.accept(step, &item("a"), accept).await;
    }
    let partial =
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    t.accept("metadata list", REPORTS, partial).await;
    t.accept("metadata page", &format!("{REPORTS}?limit=1"), partial)
        .await;
    let one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    t.accept("partial of a list", REPORTS, one).await;
    t.accept("metadata", &item("a"), one).await;
    let bad = format!("{REPORTS}?includeObject=Most");
    t.accept(
        "bad includeObject",
        &bad,
        "application/json;as=Table;g=meta.k8s.io;v=v1",
    )
    .await;
}
