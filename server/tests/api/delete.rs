use insta::assert_snapshot;
use serde_json::json;

use crate::harness::*;

fn uri(name: &str) -> String {
    format!("{REPORTS}/{name}")
}

async fn delete_with(server: &Server, name: &str, options: serde_json::Value) -> Answer {
    server
        .request("DELETE", &uri(name))
        .json(&options)
        .send()
        .await
}

#[tokio::test]
async fn a_deletion_answers_with_a_status() {
    let server = Server::start().await;
    server.created("a").await;
    let answer = server.delete(&uri("a")).await.expect(200);
    assert_snapshot!(serde_json::to_string(&steady(answer.json())).unwrap(), @r#"{"apiVersion":"v1","details":{"group":"wgpolicyk8s.io","kind":"policyreports","name":"a","uid":"<uid>"},"kind":"Status","metadata":{},"status":"Success"}"#);
    server.get(&uri("a")).await.expect(404);
    server.delete(&uri("a")).await.expect(404);
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    server.created("b").await;
    let answer = server
        .request("DELETE", &uri("b"))
        .header("accept", table)
        .send()
        .await;
    assert_eq!(answer.expect(200).json()["kind"], "Status");
}

#[tokio::test]
async fn preconditions() {
    let server = Server::start().await;
    let created = server.created("a").await;
    let uid = created["metadata"]["uid"].as_str().unwrap();
    let wrong = delete_with(&server, "a", json!({"preconditions": {"uid": "w"}}))
        .await
        .expect(409);
    assert_eq!(
        wrong.message(),
        format!(
            "Operation cannot be fulfilled on PolicyReport.wgpolicyk8s.io \"a\": the UID in the \
             precondition (w) does not match the UID in record ({uid}). The object might have \
             been deleted and then recreated"
        )
    );
    let stale = json!({"preconditions": {"uid": uid, "resourceVersion": "1"}});
    delete_with(&server, "a", stale).await.expect(409);
    let right = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background",
        "preconditions": {"uid": uid, "resourceVersion": created["metadata"]["resourceVersion"]}});
    delete_with(&server, "a", right).await.expect(200);
}

#[tokio::test]
async fn finalizers_hold_an_object() {
    let server = Server::start().await;
    let mut object = report("a");
    object["metadata"]["finalizers"] = json!(["example.com/x", "example.com/y"]);
    let created = server.post(REPORTS, &object).await.expect(201).json();
    let mut watch = server
        .watch(&format!(
            "{REPORTS}?watch=1&resourceVersion={}",
            rv(&created)
        ))
        .await;
    let deleting = server.delete(&uri("a")).await.expect(200).json();
    assert!(deleting["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(deleting["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(deleting["metadata"]["generation"], 2);
    let again = server.delete(&uri("a")).await.expect(200).json();
    assert_eq!(again, deleting);
    let more = json!({"metadata": {"finalizers": ["example.com/x", "example.com/z"]}});
    let refused = server.merge_patch(&uri("a"), &more).await.expect(422);
    assert!(refused.message().contains("no new finalizers can be added"));
    let one = json!({"metadata": {"finalizers": ["example.com/y"]}});
    let kept = server.merge_patch(&uri("a"), &one).await.expect(200).json();
    let none = json!({"metadata": {"finalizers": null}});
    server.merge_patch(&uri("a"), &none).await.expect(200);
    server.get(&uri("a")).await.expect(404);
    assert_eq!(watch.brief().await, format!("MODIFIED a {}", rv(&deleting)));
    assert_eq!(watch.brief().await, format!("MODIFIED a {}", rv(&kept)));
    let gone = watch.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    assert!(rv(&gone["object"]) > rv(&kept));
    assert_eq!(
        gone["object"]["metadata"]["finalizers"],
        json!(["example.com/y"])
    );
}

#[tokio::test]
async fn propagation_policies() {
    let server = Server::start().await;
    for (options, finalizer) in [
        (
            json!({"propagationPolicy": "Foreground"}),
            "foregroundDeletion",
        ),
        (json!({"propagationPolicy": "Orphan"}), "orphan"),
        (json!({"orphanDependents": true}), "orphan"),
    ] {
        server.created("a").await;
        let object = delete_with(&server, "a", options).await.expect(200).json();
        assert_eq!(object["metadata"]["finalizers"], json!([finalizer]));
        delete_with(&server, "a", json!({"propagationPolicy": "Background"}))
            .await
            .expect(200);
        server.get(&uri("a")).await.expect(404);
    }
    let mut held = report("b");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    server.post(REPORTS, &held).await.expect(201);
    delete_with(&server, "b", json!({"orphanDependents": false}))
        .await
        .expect(202);
    server.created("c").await;
    server
        .delete(&format!("{}?propagationPolicy=Foreground", uri("c")))
        .await
        .expect(200);
    server.get(&uri("c")).await.expect(200);
}

#[tokio::test]
async fn refused_options() {
    let server = Server::start().await;
    server.created("a").await;
    for (options, code) in [
        (json!([]), 400),
        (
            json!({"kind": "PolicyReport", "apiVersion": "wgpolicyk8s.io/v1alpha2"}),
            400,
        ),
        (json!({"dryRun": ["Some"]}), 422),
        (json!({"propagationPolicy": "Sideways"}), 422),
    ] {
        delete_with(&server, "a", options).await.expect(code);
    }
    for query in ["dryRun=x", "propagationPolicy=x"] {
        server
            .delete(&format!("{}?{query}", uri("a")))
            .await
            .expect(422);
    }
    server
        .delete(&format!("{}?gracePeriodSeconds=x", uri("a")))
        .await
        .expect(400);
    server
        .request("DELETE", &uri("a"))
        .body("{")
        .send()
        .await
        .expect(400);
    server.get(&uri("a")).await.expect(200);
}

#[tokio::test]
async fn a_dry_run_deletes_nothing() {
    let server = Server::start().await;
    let created = server.created("a").await;
    server
        .delete(&format!("{}?dryRun=All", uri("a")))
        .await
        .expect(200);
    let foreground = json!({"dryRun": ["All"], "propagationPolicy": "Foreground"});
    let marked = delete_with(&server, "a", foreground)
        .await
        .expect(200)
        .json();
    assert_eq!(
        marked["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    assert_eq!(server.get(&uri("a")).await.json(), created);
}

#[tokio::test]
async fn one_of_many_deletes() {
    let server = Server::start().await;
    server.created("a").await;
    let target = uri("a");
    let answers = futures::future::join_all((0..8).map(|_| server.delete(&target))).await;
    let codes: Vec<u16> = answers.iter().map(|a| a.code).collect();
    assert_eq!(codes.iter().filter(|c| **c == 200).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|c| **c == 404).count(), 7, "{codes:?}");
}
