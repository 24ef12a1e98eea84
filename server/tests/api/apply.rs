//! Server-side apply.

use insta::assert_snapshot;
use reports_server::cluster::NamespacePhase;
use serde_json::{Value, json};

use crate::harness::*;

fn uri(name: &str) -> String {
    format!("{REPORTS}/{name}")
}

fn config(name: &str, pass: i64) -> Value {
    json!({"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
        "metadata": {"name": name}, "summary": {"pass": pass}})
}

fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned();
    entries
        .unwrap_or_default()
        .iter()
        .map(|entry| {
            let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
            let fields = &entry["fieldsV1"];
            format!("{} {} {fields}", text("manager"), text("operation"))
        })
        .collect()
}

#[tokio::test]
async fn creates_then_changes_then_does_nothing() {
    let server = Server::start().await;
    let start = rv(&server.get(REPORTS).await.json());
    let mut watch = server
        .watch(&format!("{REPORTS}?watch=1&resourceVersion={start}"))
        .await;
    let apply = async |pass| {
        server
            .apply(&uri("a"), "fieldManager=one", &config("a", pass))
            .await
    };
    let created = apply(1).await.expect(201).json();
    assert_eq!(
        managers(&created),
        [r#"one Apply {"f:summary":{"f:pass":{}}}"#]
    );
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["metadata"]["namespace"], "default");
    let again = apply(1).await.expect(200).json();
    assert_eq!(again, created);
    let changed = apply(2).await.expect(200).json();
    assert_eq!(changed["metadata"]["generation"], 2);
    let mut bare = config("a", 0);
    bare.as_object_mut().unwrap().remove("summary");
    let left = server
        .apply(&uri("a"), "fieldManager=one", &bare)
        .await
        .expect(200)
        .json();
    assert_eq!(left.get("summary"), None, "nobody wants it any more");
    let seen = [
        watch.brief().await,
        watch.brief().await,
        watch.brief().await,
    ];
    let versions = [&created, &changed, &left].map(rv);
    assert_eq!(
        seen,
        [
            format!("ADDED a {}", versions[0]),
            format!("MODIFIED a {}", versions[1]),
            format!("MODIFIED a {}", versions[2]),
        ]
    );
}

#[tokio::test]
async fn conflicts_name_each_field_and_force_takes_them() {
    let server = Server::start().await;
    let mut wanted = config("a", 1);
    wanted["metadata"]["labels"] = json!({"l": "one"});
    server
        .apply(&uri("a"), "fieldManager=one", &wanted)
        .await
        .expect(201);
    wanted["metadata"]["labels"] = json!({"l": "two"});
    wanted["summary"]["pass"] = json!(2);
    let refused = server.apply(&uri("a"), "fieldManager=two", &wanted).await;
    let refused = refused.expect(409);
    assert_snapshot!(refused.text(), @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Apply failed with 2 conflicts: conflicts with \"one\":\n- .metadata.labels.l\n- .summary.pass","reason":"Conflict","details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"one\"","field":".metadata.labels.l"},{"reason":"FieldManagerConflict","message":"conflict with \"one\"","field":".summary.pass"}]},"code":409}"#);
    let forced = server
        .apply(&uri("a"), "fieldManager=two&force=true", &wanted)
        .await
        .expect(200)
        .json();
    assert_eq!(
        managers(&forced),
        [r#"two Apply {"f:metadata":{"f:labels":{"f:l":{}}},"f:summary":{"f:pass":{}}}"#]
    );
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let server = Server::start().await;
    let dry = "fieldManager=one&dryRun=All";
    let answer = server.apply(&uri("a"), dry, &config("a", 1)).await;
    let answer = answer.expect(201).json();
    assert_eq!(answer["metadata"].get("resourceVersion"), None);
    server.get(&uri("a")).await.expect(404);
    let created = server.created("a").await;
    let answer = server
        .apply(&uri("a"), &format!("{dry}&force=true"), &config("a", 7))
        .await
        .expect(200)
        .json();
    assert_eq!(answer["summary"]["pass"], 7);
    assert_eq!(server.get(&uri("a")).await.json(), created);
}

#[tokio::test]
async fn what_is_applied_to_nothing_must_fit_there() {
    let server = Server::start().await;
    let mut wanted = config("a", 1);
    wanted["metadata"]["uid"] = json!("u");
    let refused = server.apply(&uri("a"), "fieldManager=one", &wanted).await;
    assert!(refused.expect(409).message().ends_with(
        "uid mismatch: the provided object specified uid u, and no existing object was found"
    ));
    server.namespaces.set("going", NamespacePhase::Terminating);
    server.namespaces.set("gone", NamespacePhase::Missing);
    for (namespace, code) in [("going", 403), ("gone", 404)] {
        let there = uri("a").replace("/default/", &format!("/{namespace}/"));
        server
            .apply(&there, "fieldManager=one", &config("a", 1))
            .await
            .expect(code);
    }
}

#[tokio::test]
async fn whoever_applies_to_nothing_must_be_allowed_to_create() {
    let server = Server::start().await;
    server.rights.deny("create");
    for query in ["fieldManager=one", "fieldManager=one&dryRun=All"] {
        let refused = server.apply(&uri("a"), query, &config("a", 1)).await;
        let refused = refused.expect(403);
        let message = refused.message();
        assert!(message.contains("cannot create resource"), "{message}");
    }
    server.get(&uri("a")).await.expect(404);
    // What is wrong with the object is told first, and an object that is there may be changed.
    let mut wanted = config("a", 1);
    wanted["results"] = json!([{"policy": "p", "result": "x"}]);
    server
        .apply(&uri("a"), "fieldManager=one", &wanted)
        .await
        .expect(422);
    server.created("b").await;
    server
        .apply(&uri("b"), "fieldManager=one&force=true", &config("b", 5))
        .await
        .expect(200);
}

#[tokio::test]
async fn repeated_keys() {
    let server = Server::start().await;
    let yaml = "apiVersion: wgpolicyk8s.io/v1alpha2\nkind: PolicyReport\nmetadata:\n  name: a\n\
                summary:\n  pass: 1\n  pass: 2\n";
    let send = async |query: &str| {
        server
            .request("PATCH", &format!("{}?fieldManager=one{query}", uri("a")))
            .body(yaml)
            .header("content-type", "application/apply-patch+yaml")
            .send()
            .await
    };
    let strict = send("&fieldValidation=Strict").await.expect(400);
    assert_eq!(
        strict.message(),
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  \
         line 7: key \"pass\" already set in map"
    );
    let ignored = send("&fieldValidation=Ignore").await.expect(201);
    assert_eq!(ignored.warnings(), [""; 0]);
    assert_eq!(ignored.json()["summary"]["pass"], 2);
    let warned = send("").await.expect(200);
    assert_eq!(
        warned.warnings(),
        ["299 - \"line 7: key \\\"pass\\\" already set in map\""]
    );
}

#[tokio::test]
async fn concurrent_applies_all_arrive() {
    let server = Server::start().await;
    let names: Vec<String> = (0..12).map(|i| format!("m{i}")).collect();
    let (target, server) = (uri("a"), &server);
    let applies = names.iter().map(|name| {
        let target = target.clone();
        async move {
            let wanted = json!({"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
                "metadata": {"name": "a", "labels": {name: "x"}}});
            let query = format!("fieldManager={name}");
            let answer = server.apply(&target, &query, &wanted).await;
            assert!(matches!(answer.code, 200 | 201), "{}", answer.text());
        }
    });
    futures::future::join_all(applies).await;
    let object = server.get(&target).await.expect(200).json();
    assert_eq!(object["metadata"]["labels"].as_object().unwrap().len(), 12);
    assert_eq!(managers(&object).len(), 12);
}

#[tokio::test]
async fn versions_share_their_owners() {
    let server = Server::start().await;
    let gadget = |version: &str, size: i64| {
        json!({"apiVersion": format!("example.com/{version}"), "kind": "Gadget",
            "metadata": {"name": "g"}, "size": size, "color": "red"})
    };
    let created = server
        .apply(
            &format!("{GADGETS_V1}/g"),
            "fieldManager=one",
            &gadget("v1", 3),
        )
        .await
        .expect(201)
        .json();
    let mut older = gadget("v1beta1", 4);
    older.as_object_mut().unwrap().remove("color");
    let target = format!("{GADGETS_V1BETA1}/g");
    let refused = server.apply(&target, "fieldManager=two", &older).await;
    assert_eq!(
        refused.expect(409).message(),
        "Apply failed with 1 conflict: conflict with \"one\": .size"
    );
    let taken = server
        .apply(&target, "fieldManager=two&force=true", &older)
        .await
        .expect(200)
        .json();
    assert_eq!(taken["size"], 4);
    assert_eq!(taken.get("color"), None, "unknown to this version");
    let stored = server.get(&format!("{GADGETS_V1}/g")).await.json();
    assert_eq!(rv(&stored), rv(&taken));
    assert_ne!(rv(&stored), rv(&created));
    // The default of the older version does not take the place of what is there.
    assert_eq!(stored["size"], 4);
}

#[tokio::test]
async fn entries_of_the_side_door_are_known() {
    let server = Server::start().await;
    let mut object = server.created("a").await;
    object["metadata"]["managedFields"] = json!([{"manager": "operator", "operation": "Update",
        "apiVersion": "wgpolicyk8s.io/legacy", "time": "2026-11-21T08:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:scope": {"f:kind": {}, "f:name": {}}}}]);
    let object = server.put(&uri("a"), &object).await.expect(200).json();
    let of_operator = r#"operator Update {"f:scope":{"f:kind":{},"f:name":{}}}"#;
    assert_eq!(managers(&object), [of_operator]);
    let apply = async |config: &Value| server.apply(&uri("a"), "fieldManager=two", config).await;
    let applied = apply(&config("a", 1)).await.expect(200).json();
    let of_two = r#"two Apply {"f:summary":{"f:pass":{}}}"#;
    assert_eq!(managers(&applied), [of_two, of_operator]);
    let mut wanted = config("a", 1);
    wanted["scope"] = json!({"apiVersion": "v1", "kind": "Node", "name": "a"});
    assert_eq!(
        apply(&wanted).await.expect(409).message(),
        "Apply failed with 1 conflict: conflict with \"operator\" using wgpolicyk8s.io/legacy: \
         .scope.kind"
    );
}
