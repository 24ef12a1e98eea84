use crds::control::{GateState, MAX_IMPORT_ITEMS, checksum};
use serde_json::{Value, json};

use crate::harness::*;

const RESOURCE: &str = "policyreports.wgpolicyk8s.io";

fn uri(subresource: &str) -> String {
    format!("{CONTROL}/{RESOURCE}/{subresource}")
}

/// A report as etcd had it.
fn imported(name: &str, rv: u64) -> Value {
    let mut object = report(name);
    object["metadata"]["namespace"] = json!("default");
    object["metadata"]["uid"] = json!(format!("uid-{name}"));
    object["metadata"]["resourceVersion"] = json!(rv.to_string());
    object["metadata"]["creationTimestamp"] = json!("2026-11-21T08:00:00Z");
    object["metadata"]["generation"] = json!(1);
    // What is no business of ours is taken as it is.
    object["metadata"]["managedFields"] = json!([
        {"manager": "m", "operation": "Update", "apiVersion": "wgpolicyk8s.io/v1alpha2",
            "time": "2026-11-21T08:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:gone": {}},
            "subresource": "status"},
        {"manager": "n", "operation": "Apply", "apiVersion": "wgpolicyk8s.io/v0",
            "fieldsType": "FieldsV1", "fieldsV1": {}},
    ]);
    object
}

fn item(type_: &str, object: &Value) -> Value {
    json!({"type": type_, "object": object})
}

async fn gate(server: &Server, state: &str) -> Answer {
    server
        .put(
            &uri("gate"),
            &json!({"kind": "Gate", "spec": {"state": state}}),
        )
        .await
}

#[tokio::test]
async fn stored_resources_are_listed() {
    let server = Server::start().await;
    server.created("a").await;
    let list = server.get(CONTROL).await.expect(200).json();
    assert_eq!(list["kind"], "StoredResourceList");
    assert_eq!(
        names(&list),
        [
            "clusterpolicyreports.wgpolicyk8s.io",
            "gadgets.example.com",
            RESOURCE
        ]
    );
    let one = server
        .get(&format!("{CONTROL}/{RESOURCE}"))
        .await
        .expect(200)
        .json();
    assert_eq!(one, list["items"][2]);
    let status = &one["status"];
    assert_eq!(status["objects"], 1);
    assert!(status["bytes"].as_u64().unwrap() > 100);
    assert_eq!(status["gate"], "Open");
    assert_eq!(status["versions"], json!(["v1alpha2"]));
    assert_eq!(status["schemaSource"], "Catalog");
    assert_eq!(
        (&status["kind"], &status["namespaced"]),
        (&json!("PolicyReport"), &json!(true))
    );
    let table = server
        .request("GET", CONTROL)
        .header(
            "accept",
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        )
        .send()
        .await
        .expect(200)
        .json();
    let columns: Vec<(&str, i64)> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["name"].as_str().unwrap(), c["priority"].as_i64().unwrap()))
        .collect();
    assert_eq!(
        columns,
        [
            ("Name", 0),
            ("Objects", 0),
            ("Bytes", 0),
            ("ResourceVersion", 0),
            ("Gate", 0),
            ("Age", 0),
            ("Horizon", 1),
            ("Mirrored", 1),
            ("Imported", 1),
            ("Held", 1),
            ("LastHold", 1),
            ("Schema", 1),
        ]
    );
    let cells = table["rows"][2]["cells"].as_array().unwrap();
    assert_eq!(
        (&cells[0], &cells[1], &cells[4]),
        (&json!(RESOURCE), &json!(1), &json!("Open"))
    );
}

#[tokio::test]
async fn a_migration_by_the_control_api() {
    let server = Server::start_closed(|_| {}).await;
    let (a, b) = (imported("a", 100), imported("b", 120));
    let batch = json!({"mode": "Mirror", "horizon": "50", "progress": "130",
        "items": [item("Object", &a), item("Object", &b)]});
    let result = server.post(&uri("import"), &batch).await.expect(201).json();
    assert_eq!(
        (&result["imported"], &result["unchanged"]),
        (&json!(2), &json!(0))
    );
    assert_eq!(result["mirroredResourceVersion"], "130");
    let again = server.post(&uri("import"), &batch).await.expect(201).json();
    assert_eq!(
        (&again["imported"], &again["unchanged"]),
        (&json!(0), &json!(2))
    );
    let mut newer = a.clone();
    newer["metadata"]["resourceVersion"] = json!("140");
    newer["metadata"]["labels"] = json!({"app": "new"});
    let event = json!({"items": [item("Modified", &newer)], "progress": "140"});
    server.post(&uri("import"), &event).await.expect(201);

    let digest = server.get(&uri("digest")).await.expect(200).json();
    assert_eq!(digest["items"].as_array().unwrap().len(), 2);
    assert_eq!(
        digest["items"][0]["checksum"],
        json!(hex::encode(checksum(&newer)))
    );
    assert_eq!(digest["items"][0]["resourceVersion"], "140");
    let page = server
        .get(&format!("{}?limit=1&set=Imported", uri("digest")))
        .await
        .json();
    assert_eq!(page["items"][0]["name"], "a");
    let token = page["metadata"]["continue"].as_str().unwrap();
    let next = format!("{}?limit=1&set=Imported&continue={token}", uri("digest"));
    assert_eq!(
        server.get(&next).await.expect(200).json()["items"][0]["name"],
        "b"
    );

    server.get(REPORTS).await.expect(503);
    assert_eq!(
        gate(&server, "Held").await.expect(200).json()["spec"]["state"],
        "Held"
    );
    let floor = json!({"spec": {"resourceVersion": "5000"}});
    let floor = server.put(&uri("floor"), &floor).await.expect(200).json();
    assert_eq!(floor["spec"]["resourceVersion"], "5000");
    gate(&server, "Open").await.expect(200);

    assert_eq!(
        server.get(&format!("{REPORTS}/a")).await.expect(200).json(),
        newer
    );
    // A client that held a version of etcd goes on here without a relist.
    let mut watch = server
        .watch(&format!("{REPORTS}?watch=1&resourceVersion=135"))
        .await;
    assert_eq!(watch.brief().await, "MODIFIED a 140");
    let c = server.created("c").await;
    assert!(rv(&c) > 5000);
    assert_eq!(watch.brief().await, format!("ADDED c {}", rv(&c)));
    let late = server.post(&uri("import"), &batch).await.expect(409);
    assert_eq!(late.json()["reason"], "Conflict");
}

#[tokio::test]
async fn refused_bodies_name_the_field() {
    let server = Server::start_closed(|_| {}).await;
    let mut no_uid = imported("a", 1);
    no_uid["metadata"].as_object_mut().unwrap().remove("uid");
    let many = vec![item("Object", &imported("a", 1)); MAX_IMPORT_ITEMS + 1];
    for (path, method, body, code, words) in [
        ("import", "POST", json!([]), 400, "it is no object"),
        (
            "import",
            "POST",
            json!({"kind": "Gate"}),
            400,
            "its kind is \"Gate\"",
        ),
        (
            "import",
            "POST",
            json!({"apiVersion": "v1"}),
            400,
            "its apiVersion is \"v1\"",
        ),
        (
            "import",
            "POST",
            json!({"mode": "Steal"}),
            400,
            "unknown variant `Steal`",
        ),
        (
            "import",
            "POST",
            json!({"items": [item("Object", &no_uid)]}),
            422,
            "items[0].object",
        ),
        (
            "import",
            "POST",
            json!({"items": many}),
            413,
            "a batch holds at most 1000 items",
        ),
        (
            "gate",
            "PUT",
            json!({"spec": {"state": "Ajar"}}),
            400,
            "unknown variant `Ajar`",
        ),
        (
            "gate",
            "PUT",
            json!({"metadata": {"name": "other"}, "spec": {"state": "Open"}}),
            400,
            "does not match the name on the URL",
        ),
        (
            "floor",
            "PUT",
            json!({"spec": {"resourceVersion": "x"}}),
            422,
            "spec.resourceVersion",
        ),
        (
            "floor",
            "PUT",
            json!({"spec": {"resourceVersion": u64::MAX.to_string()}}),
            422,
            "the highest possible floor",
        ),
    ] {
        let answer = server
            .request(method, &uri(path))
            .json(&body)
            .send()
            .await
            .expect(code);
        assert!(
            answer.message().contains(words),
            "{path} {words}: {}",
            answer.message()
        );
    }
    server
        .get(&format!("{}?set=All", uri("digest")))
        .await
        .expect(400);
    server
        .get(&format!("{}?limit=x", uri("digest")))
        .await
        .expect(400);
    server
        .get(&format!("{}?continue=x", uri("digest")))
        .await
        .expect(400);
}

#[tokio::test]
async fn what_is_not_there() {
    let server = Server::start_closed(|_| {}).await;
    server
        .get(&format!("{CONTROL}/nothing.example.com"))
        .await
        .expect(404);
    server.get(&format!("{CONTROL}/nodots")).await.expect(404);
    server
        .get(&format!("{CONTROL}/{RESOURCE}/status"))
        .await
        .expect(404);
    server
        .get("/apis/control.reports-server.io/v1/storedresources")
        .await
        .expect(404);
    server
        .get("/apis/control.reports-server.io/v1alpha1/others")
        .await
        .expect(404);
    for (method, path) in [
        ("DELETE", format!("{CONTROL}/{RESOURCE}")),
        ("PUT", uri("import")),
        ("POST", uri("gate")),
        ("DELETE", uri("floor")),
        ("GET", format!("{CONTROL}?watch=1")),
        ("POST", CONTROL.to_owned()),
    ] {
        server
            .request(method, &path)
            .json(&json!({}))
            .send()
            .await
            .expect(405);
    }
}

#[tokio::test]
async fn the_gate_and_the_floor_read_as_they_are() {
    let server = Server::start_closed(|_| {}).await;
    assert_eq!(
        server.get(&uri("gate")).await.expect(200).json()["spec"]["state"],
        "Closed"
    );
    let body = json!({"spec": {"state": "Open", "settled": true}});
    server.put(&uri("gate"), &body).await.expect(200);
    let gate = server.get(&uri("gate")).await.expect(200).json();
    assert_eq!(gate["spec"], json!({"state": "Open", "settled": true}));
    assert_eq!(gate["metadata"]["name"], RESOURCE);
    let floor = |rv: u64| json!({"spec": {"resourceVersion": rv.to_string()}});
    server.put(&uri("floor"), &floor(900)).await.expect(200);
    let lower = server
        .put(&uri("floor"), &floor(5))
        .await
        .expect(200)
        .json();
    assert_eq!(lower["spec"]["resourceVersion"], "900");
    assert_eq!(server.get(&uri("floor")).await.expect(200).json(), lower);
    assert!(rv(&server.created("a").await) > 900);
    assert_eq!(server.store.resources().len(), 3);
    assert_eq!(GateState::default(), GateState::Closed);
}
