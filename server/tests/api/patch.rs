use serde_json::json;

use crate::harness::*;

fn uri(name: &str) -> String {
    format!("{REPORTS}/{name}")
}

#[tokio::test]
async fn merge_patch_sets_and_removes() {
    let server = Server::start().await;
    let created = server.created("a").await;
    let patch = json!({"metadata": {"labels": {"app": null, "x": "y"}}, "results": []});
    let patched = server
        .merge_patch(&uri("a"), &patch)
        .await
        .expect(200)
        .json();
    assert_eq!(patched["metadata"]["labels"], json!({"x": "y"}));
    assert_eq!(patched["results"], json!([]));
    assert_eq!(patched["metadata"]["generation"], 2);
    assert_eq!(patched["scope"], created["scope"]);
    let same = server
        .merge_patch(&uri("a"), &patch)
        .await
        .expect(200)
        .json();
    assert_eq!(same, patched);
}

#[tokio::test]
async fn json_patch_applies_or_not_at_all() {
    let server = Server::start().await;
    let created = server.created("a").await;
    let good = json!([
        {"op": "test", "path": "/summary/pass", "value": 1},
        {"op": "replace", "path": "/summary/pass", "value": 5},
        {"op": "add", "path": "/metadata/labels/x", "value": "y"},
    ]);
    let patched = server.json_patch(&uri("a"), &good).await.expect(200).json();
    assert_eq!(patched["summary"]["pass"], 5);
    let failing = json!([
        {"op": "replace", "path": "/summary/pass", "value": 9},
        {"op": "test", "path": "/summary/fail", "value": 1},
    ]);
    let answer = server
        .json_patch(&uri("a"), &failing)
        .await
        .expect(422)
        .json();
    assert_eq!(answer["reason"], "Invalid");
    assert_eq!(
        answer["message"],
        "the server rejected our request due to an error in our request"
    );
    assert_eq!(server.get(&uri("a")).await.json(), patched);
    assert_ne!(created, patched);
}

#[tokio::test]
async fn other_kinds_of_patches_are_refused_before_anything_else() {
    let server = Server::start().await;
    for type_ in [
        "application/strategic-merge-patch+json",
        "application/apply-patch+cbor",
        "application/json",
        "",
    ] {
        // Neither the object nor the body nor the options are looked at.
        let answer = server
            .request("PATCH", &format!("{}?dryRun=nonsense", uri("missing")))
            .body("{")
            .header("content-type", type_)
            .send()
            .await
            .expect(415);
        assert_eq!(
            answer.message(),
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, \
             application/apply-patch+yaml"
        );
    }
}

#[tokio::test]
async fn refused_patches() {
    let server = Server::start().await;
    let created = server.created("a").await;
    server
        .merge_patch(&uri("missing"), &json!({}))
        .await
        .expect(404);
    for (patch, code, words) in [
        (json!([]), 400, "error decoding patch"),
        (
            json!({"metadata": {"name": "b"}}),
            400,
            "does not match the name on the URL",
        ),
        (
            json!({"metadata": {"namespace": "b"}}),
            400,
            "does not match the namespace",
        ),
        (json!({"kind": null}), 422, "Object 'Kind' is missing"),
        (
            json!({"kind": "Pod"}),
            422,
            "kind: Invalid value: \"Pod\": must be PolicyReport",
        ),
        (
            json!({"metadata": {"uid": "b"}}),
            422,
            "metadata.uid: Invalid value",
        ),
        (
            json!({"metadata": {"resourceVersion": "1"}}),
            409,
            "has been modified",
        ),
        (
            json!({"metadata": {"resourceVersion": null}}),
            422,
            "must be specified for an update",
        ),
        (
            json!({"metadata": {"labels": 1}}),
            422,
            "cannot unmarshal number",
        ),
        (
            json!({"results": [{"result": "x"}]}),
            422,
            "results[0].policy: Required value",
        ),
        (
            json!({"results": "text"}),
            422,
            "results: Invalid value: \"string\"",
        ),
    ] {
        let answer = server.merge_patch(&uri("a"), &patch).await.expect(code);
        assert!(
            answer.message().contains(words),
            "{patch}: {}",
            answer.message()
        );
    }
    for patch in [json!({}), json!([1])] {
        server.json_patch(&uri("a"), &patch).await.expect(400);
    }
    let many = vec![json!({"op": "test", "path": "/kind", "value": "PolicyReport"}); 10_001];
    server.json_patch(&uri("a"), &json!(many)).await.expect(413);
    assert_eq!(server.get(&uri("a")).await.json(), created);
}

#[tokio::test]
async fn a_patch_with_a_version_is_conditional() {
    let server = Server::start().await;
    let created = server.created("a").await;
    let patch = json!({"metadata": {"resourceVersion": created["metadata"]["resourceVersion"],
        "uid": created["metadata"]["uid"], "ownerReferences": null, "labels": {"x": "1"}}});
    server.merge_patch(&uri("a"), &patch).await.expect(200);
    let patch = json!({"metadata": {"resourceVersion": created["metadata"]["resourceVersion"],
        "labels": {"x": "2"}}});
    server.merge_patch(&uri("a"), &patch).await.expect(409);
}

#[tokio::test]
async fn concurrent_patches_all_apply() {
    let server = Server::start().await;
    server.created("a").await;
    let patches: Vec<_> = (0..4)
        .map(|i| json!({"metadata": {"labels": {format!("l{i}"): "x"}}}))
        .collect();
    let target = uri("a");
    let answers =
        futures::future::join_all(patches.iter().map(|p| server.merge_patch(&target, p))).await;
    assert!(answers.iter().all(|a| a.code == 200));
    let labels = server.get(&uri("a")).await.json()["metadata"]["labels"].clone();
    assert_eq!(labels.as_object().unwrap().len(), 5);
}

#[tokio::test]
async fn unknown_fields_in_patches() {
    let server = Server::start().await;
    server.created("a").await;
    let patch = json!({"foo": 1, "metadata": {"labels": {"x": "y"}}});
    let strict = server
        .merge_patch(&format!("{}?fieldValidation=Strict", uri("a")), &patch)
        .await
        .expect(422);
    assert!(
        strict
            .message()
            .contains("strict decoding error: unknown field \\\"foo\\\"")
            || strict
                .message()
                .contains("strict decoding error: unknown field \"foo\"")
    );
    let warned = server.merge_patch(&uri("a"), &patch).await.expect(200);
    assert_eq!(warned.warnings(), ["299 - \"unknown field \\\"foo\\\"\""]);
    assert_eq!(warned.json().get("foo"), None);
    let dry = format!("{}?dryRun=All&force=true", uri("a"));
    server.merge_patch(&dry, &patch).await.expect(422);
}
