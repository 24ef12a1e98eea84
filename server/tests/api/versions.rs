//! One object in several served versions.

use serde_json::{Value, json};

use crate::harness::*;

fn gadget(version: &str, size: &Value) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Gadget",
        "metadata": {"name": "g"}, "size": size})
}

#[tokio::test]
async fn an_object_reads_in_each_version() {
    let server = Server::start().await;
    let mut object = gadget("v1", &json!(3));
    object["color"] = json!("red");
    object["anything"] = json!({"deep": {"unknown": [1, 2.5]}});
    let created = server.post(GADGETS_V1, &object).await.expect(201).json();
    assert_eq!(created["anything"], object["anything"]);
    let older = server
        .get(&format!("{GADGETS_V1BETA1}/g"))
        .await
        .expect(200);
    assert_eq!(older.warnings().len(), 1, "the version is deprecated");
    let older = older.json();
    assert_eq!(older["apiVersion"], "example.com/v1beta1");
    assert_eq!(older["size"], 3);
    assert_eq!(older.get("color"), None, "unknown to this version");
    assert_eq!(older["metadata"], created["metadata"]);
    let list = server.get(GADGETS_V1BETA1).await.expect(200).json();
    assert_eq!(list["apiVersion"], "example.com/v1beta1");
    assert_eq!(list["items"][0], older);
    let list = server.get(GADGETS_V1).await.expect(200).json();
    assert_eq!(list["items"][0], created);
}

#[tokio::test]
async fn writes_in_another_version_are_stored_in_the_storage_version() {
    let server = Server::start().await;
    let mut object = gadget("v1beta1", &Value::Null);
    object.as_object_mut().unwrap().remove("size");
    let created = server
        .post(GADGETS_V1BETA1, &object)
        .await
        .expect(201)
        .json();
    assert_eq!(created["size"], 7, "the default of this version");
    let stored = server
        .get(&format!("{GADGETS_V1}/g"))
        .await
        .expect(200)
        .json();
    assert_eq!(stored["apiVersion"], "example.com/v1");
    assert_eq!(stored["size"], 7);
    let same = server
        .put(&format!("{GADGETS_V1BETA1}/g"), &created)
        .await
        .expect(200)
        .json();
    assert_eq!(rv(&same), rv(&created), "a no-op in any version");
    let wrong = server
        .put(&format!("{GADGETS_V1}/g"), &created)
        .await
        .expect(400);
    assert!(
        wrong
            .message()
            .contains("does not match the expected API version (example.com/v1)")
    );
}

#[tokio::test]
async fn a_watch_sees_its_own_version() {
    let server = Server::start().await;
    let start = rv(&server.get(GADGETS_V1).await.json());
    let uri = |base: &str| format!("{base}?watch=1&resourceVersion={start}");
    let mut newer = server.watch(&uri(GADGETS_V1)).await;
    let mut older = server.watch(&uri(GADGETS_V1BETA1)).await;
    let mut object = gadget("v1", &json!(3));
    object["color"] = json!("red");
    let created = server.post(GADGETS_V1, &object).await.expect(201).json();
    assert_eq!(newer.next().await.unwrap()["object"], created);
    let seen = older.next().await.unwrap();
    assert_eq!(seen["object"]["apiVersion"], "example.com/v1beta1");
    assert_eq!(seen["object"].get("color"), None);
}
