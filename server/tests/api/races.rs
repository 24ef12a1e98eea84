//! Writes whose object is deleted between their read of it and their write of it.

use serde_json::{Value, json};

use crate::harness::*;

fn item() -> String {
    format!("{REPORTS}/a")
}

/// Sends a write, and once it has read the object has `other` happen before it writes; returns the
/// answer to the write.
async fn overtaken(
    server: &Server,
    write: impl Future<Output = Answer>,
    other: impl Future<Output = ()>,
) -> Answer {
    let (reached, go_on) = server.namespaces.stop_next();
    let between = async {
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        reached.expect("the write has to get that far").unwrap();
        other.await;
        go_on.send(()).unwrap();
    };
    let (answer, ()) = tokio::join!(write, between);
    answer
}

async fn delete(server: &Server) {
    server.delete(&item()).await.expect(200);
}

async fn delete_and_create(server: &Server) {
    delete(server).await;
    server.created("a").await;
}

/// The answer has to be that of a write to an object that is not there, and there has to be none.
async fn expect_gone(server: &Server, answer: Answer) {
    let answer = answer.expect(404);
    assert_eq!(answer.json()["reason"], "NotFound");
    assert_eq!(
        answer.message(),
        "policyreports.wgpolicyk8s.io \"a\" not found"
    );
    server.get(&item()).await.expect(404);
}

/// A report that exists, with a change that is not stored yet.
async fn changed(server: &Server) -> Value {
    let mut object = server.created("a").await;
    object["results"] = json!([]);
    object
}

#[tokio::test]
async fn an_update_of_an_object_that_was_deleted_meanwhile_finds_none() {
    let server = Server::start().await;
    let object = changed(&server).await;
    let item = item();
    let answer = overtaken(&server, server.put(&item, &object), delete(&server)).await;
    expect_gone(&server, answer).await;
}

#[tokio::test]
async fn an_update_does_not_replace_an_object_that_was_created_anew_meanwhile() {
    let server = Server::start().await;
    let object = changed(&server).await;
    let item = item();
    let write = server.put(&item, &object);
    let answer = overtaken(&server, write, delete_and_create(&server)).await;
    assert_eq!(answer.expect(409).json()["reason"], "Conflict");
    let anew = server.get(&item).await.expect(200).json();
    assert_ne!(anew["metadata"]["uid"], object["metadata"]["uid"]);
    assert_ne!(anew["results"], object["results"]);
}

#[tokio::test]
async fn a_patch_of_an_object_that_was_deleted_meanwhile_finds_none() {
    let server = Server::start().await;
    let item = item();
    let merge = json!({"results": []});
    server.created("a").await;
    let write = server.merge_patch(&item, &merge);
    let answer = overtaken(&server, write, delete(&server)).await;
    expect_gone(&server, answer).await;
    let operations = json!([{"op": "replace", "path": "/results", "value": []}]);
    server.created("a").await;
    let write = server.json_patch(&item, &operations);
    let answer = overtaken(&server, write, delete(&server)).await;
    expect_gone(&server, answer).await;
}

/// A patch names no version, so it is made to what there is by then.
#[tokio::test]
async fn a_patch_changes_an_object_that_was_created_anew_meanwhile() {
    let server = Server::start().await;
    let before = server.created("a").await;
    let item = item();
    let merge = json!({"results": []});
    let write = server.merge_patch(&item, &merge);
    let answer = overtaken(&server, write, delete_and_create(&server)).await;
    let patched = answer.expect(200).json();
    assert_ne!(patched["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(patched["results"], json!([]));
    assert_eq!(server.get(&item).await.json(), patched);
}

/// An apply creates what is not there, whenever it went.
#[tokio::test]
async fn an_apply_to_an_object_that_was_deleted_meanwhile_creates_it() {
    let server = Server::start().await;
    let before = server.created("a").await;
    let item = item();
    let config = json!({"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
        "metadata": {"name": "a"}, "summary": {"pass": 7}});
    let write = server.apply(&item, "fieldManager=m&force=true", &config);
    let answer = overtaken(&server, write, delete(&server)).await;
    let anew = answer.expect(201).json();
    assert_ne!(anew["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(anew["summary"], json!({"pass": 7}));
    assert_eq!(server.get(&item).await.json(), anew);
}
