use serde_json::{Value, json};

use super::{Error, apply, check, check_uninstall};
use crate::testing::pair;

const OBJECT: &str = r#"{"apiVersion": "reports-server.io/v1alpha1", "kind": "ReportsServer",
    "metadata": {"name": "a"}, "spec": {"targetNamespace": "b", "apis": []}}"#;

fn servers(items: &Value) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {},
        "items": items})
}

fn server(name: &str, finalizers: &Value) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": name, "finalizers": finalizers}})
}

async fn asked(crd_goes: bool, code: u16, answer: &Value) -> Result<String, Error> {
    let (client, mut api) = pair();
    let asked = tokio::spawn(async move { check_uninstall(&client, crd_goes).await });
    api.next().await.answer(code, answer);
    asked.await.unwrap()
}

#[tokio::test]
async fn an_uninstallation_is_refused_while_groups_are_served() {
    let items = json!([
        server("idle", &json!([])),
        server("busy", &json!(["reports-server.io/apiservices"])),
    ]);
    let refused = asked(false, 200, &servers(&items)).await.unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("kubectl delete reportsserver busy"), "{text}");
    assert!(!text.contains("idle"), "{text}");
}

#[tokio::test]
async fn the_crd_is_kept_while_there_are_objects() {
    let items = json!([server("idle", &json!([]))]);
    let allowed = asked(false, 200, &servers(&items)).await;
    assert!(allowed.is_ok(), "{allowed:?}");
    let refused = asked(true, 200, &servers(&items)).await;
    assert!(matches!(refused, Err(Error::WithCrd { names }) if names == "idle"));
}

#[tokio::test]
async fn without_the_crd_nothing_is_in_the_way() {
    let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "404 page not found", "reason": "NotFound", "code": 404});
    let allowed = asked(true, 404, &status).await;
    assert!(allowed.is_ok(), "{allowed:?}");
    let forbidden = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "no", "reason": "Forbidden", "code": 403});
    let unknown = asked(true, 403, &forbidden).await;
    assert!(matches!(unknown, Err(Error::List(_))), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn the_object_is_applied_once_the_kind_is_served() {
    let (client, mut api) = pair();
    let applied = tokio::spawn(async move { apply(&client, OBJECT).await });
    api.next().await.refuse(404, "NotFound");
    let again = api.next().await;
    assert_eq!(again.method, "PATCH");
    assert!(again.path.contains("/reportsservers/a?"), "{}", again.path);
    assert!(
        again.path.contains("fieldValidation=Strict"),
        "{}",
        again.path
    );
    assert_eq!(again.body["spec"]["targetNamespace"], "b");
    let body = again.body.clone();
    again.answer(200, &body);
    assert!(applied.await.unwrap().is_ok());
}

#[tokio::test]
async fn what_the_kube_apiserver_says_about_the_object_is_told() {
    let (client, mut api) = pair();
    let applied = tokio::spawn(async move { apply(&client, OBJECT).await });
    api.next().await.refuse(422, "spec.apis: too few");
    let text = applied.await.unwrap().unwrap_err().to_string();
    assert_eq!(text, "ReportsServer a is refused: spec.apis: too few");
    let (client, _api) = pair();
    assert!(matches!(apply(&client, "{}").await, Err(Error::Nameless)));
    assert!(matches!(apply(&client, "{").await, Err(Error::Syntax(_))));
}

#[tokio::test(start_paused = true)]
async fn a_leader_is_who_renews_the_lease() {
    let lease = |second: u8| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "reports-server-operator", "namespace": "own"},
            "spec": {"holderIdentity": "pod", "leaseDurationSeconds": 15,
                "renewTime": format!("2026-01-01T00:00:0{second}.000000Z")}})
    };
    let (client, mut api) = pair();
    let checked = tokio::spawn(async move { check(&client, "own").await });
    api.next().await.answer(200, &servers(&json!([])));
    for second in [1, 1, 3] {
        let read = api.next().await;
        assert!(
            read.path.contains("/namespaces/own/leases/"),
            "{}",
            read.path
        );
        read.answer(200, &lease(second));
    }
    assert!(checked.await.unwrap().unwrap().contains("pod leads"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_renews_has_no_leader() {
    let (client, mut api) = pair();
    let checked = tokio::spawn(async move { check(&client, "own").await });
    api.next().await.answer(200, &servers(&json!([])));
    while let Some(read) = api.next_if_any().await {
        read.refuse(404, "NotFound");
    }
    let said = checked.await.unwrap();
    assert!(
        matches!(said, Err(Error::Leaderless(ref at)) if at == "own"),
        "{said:?}"
    );
}
