use insta::assert_snapshot;
use reports_server::cluster::NamespacePhase;
use serde_json::{Value, json};

use crate::harness::*;

#[tokio::test]
async fn system_metadata_is_the_servers() {
    let server = Server::start().await;
    let mut object = report("a");
    object["metadata"]["uid"] = json!("mine");
    object["metadata"]["generation"] = json!(9);
    object["metadata"]["creationTimestamp"] = json!("2000-01-01T00:00:00Z");
    object["metadata"]["deletionTimestamp"] = json!("2000-01-01T00:00:00Z");
    let created = server.post(REPORTS, &object).await.expect(201).json();
    let metadata = &created["metadata"];
    assert_ne!(metadata["uid"], "mine");
    assert_ne!(metadata["creationTimestamp"], "2000-01-01T00:00:00Z");
    assert_eq!(metadata["generation"], 1);
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata.get("deletionTimestamp"), None);
}

#[tokio::test]
async fn names_are_generated() {
    let server = Server::start().await;
    let mut object = report("");
    object["metadata"] = json!({"generateName": "abc-"});
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let created = server.post(REPORTS, &object).await.expect(201).json();
        let name = created["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("abc-") && name.len() == 9, "{name}");
        assert_eq!(created["metadata"]["generateName"], "abc-");
        seen.insert(name);
    }
    assert_eq!(seen.len(), 20);
    object["metadata"] = json!({});
    let nameless = server.post(REPORTS, &object).await.expect(422);
    assert!(
        nameless
            .message()
            .ends_with("metadata.name: Required value: name or generateName is required")
    );
}

#[tokio::test]
async fn a_taken_name() {
    let server = Server::start().await;
    server.created("a").await;
    let taken = server.post(REPORTS, &report("a")).await.expect(409);
    assert_snapshot!(taken.text(), @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"policyreports.wgpolicyk8s.io \"a\" already exists","reason":"AlreadyExists","details":{"name":"a","group":"wgpolicyk8s.io","kind":"policyreports"},"code":409}"#);
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    server
        .merge_patch(&format!("{REPORTS}/a"), &hold)
        .await
        .expect(200);
    server.delete(&format!("{REPORTS}/a")).await.expect(200);
    let deleting = server.post(REPORTS, &report("a")).await.expect(409);
    assert!(deleting.message().starts_with("object is being deleted: "));
}

#[tokio::test]
async fn one_of_many_wins_a_name() {
    let server = Server::start().await;
    let object = report("a");
    let attempts = (0..16).map(|_| server.post(REPORTS, &object));
    let answers = futures::future::join_all(attempts).await;
    let won = answers.iter().filter(|a| a.code == 201).count();
    let lost = answers.iter().filter(|a| a.code == 409).count();
    assert_eq!((won, lost), (1, 15));
}

#[tokio::test]
async fn namespaces_decide() {
    let server = Server::start().await;
    let uri = |namespace: &str| {
        format!("/apis/wgpolicyk8s.io/v1alpha2/namespaces/{namespace}/policyreports")
    };
    server.namespaces.set("gone", NamespacePhase::Missing);
    server.namespaces.set("going", NamespacePhase::Terminating);
    let gone = server.post(&uri("gone"), &report("a")).await.expect(404);
    assert_eq!(gone.message(), "namespaces \"gone\" not found");
    let mut generated = report("");
    generated["metadata"] = json!({"generateName": "abc-"});
    let going = server.post(&uri("going"), &generated).await.expect(403);
    assert_snapshot!(going.text(), @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"policyreports.wgpolicyk8s.io \"abc-\" is forbidden: unable to create new content in namespace going because it is being terminated","reason":"Forbidden","details":{"name":"abc-","group":"wgpolicyk8s.io","kind":"policyreports","causes":[{"reason":"NamespaceTerminating","message":"namespace going is being terminated","field":"metadata.namespace"}]},"code":403}"#);
    let unknown = server.post(&uri("unknown"), &report("a")).await.expect(503);
    assert_eq!(unknown.headers["retry-after"], "1");
}

#[tokio::test]
async fn updates_and_deletions_go_on_in_a_terminating_namespace() {
    let server = Server::start().await;
    let mut object = server.created("a").await;
    server
        .namespaces
        .set("default", NamespacePhase::Terminating);
    object["results"] = json!([]);
    server
        .put(&format!("{REPORTS}/a"), &object)
        .await
        .expect(200);
    server.delete(&format!("{REPORTS}/a")).await.expect(200);
}

#[tokio::test]
async fn body_and_path_must_agree() {
    let server = Server::start().await;
    let mut object = report("a");
    object["metadata"]["namespace"] = json!("other");
    let answer = server.post(REPORTS, &object).await.expect(400);
    assert_eq!(
        answer.message(),
        "the namespace of the provided object does not match the namespace sent on the request"
    );
    let mut cluster = report("a");
    cluster["kind"] = json!("ClusterPolicyReport");
    cluster["metadata"]["namespace"] = json!("ignored");
    let created = server
        .post(CLUSTER_REPORTS, &cluster)
        .await
        .expect(201)
        .json();
    assert_eq!(created["metadata"].get("namespace"), None);
}

#[tokio::test]
async fn a_version_in_a_new_object_is_an_error() {
    let server = Server::start().await;
    let mut object = report("a");
    object["metadata"]["resourceVersion"] = json!("7");
    let answer = server.post(REPORTS, &object).await.expect(500);
    assert_snapshot!(answer.text(), @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"resourceVersion should not be set on objects to be created","code":500}"#);
    object["metadata"]["resourceVersion"] = json!("0");
    server.post(REPORTS, &object).await.expect(201);
}

#[tokio::test]
async fn unknown_fields() {
    let server = Server::start().await;
    let mut object = report("a");
    object["foo"] = json!(1);
    object["results"][0]["bar"] = json!(2);
    object["metadata"]["baz"] = json!(3);
    let strict = server
        .post(&format!("{REPORTS}?fieldValidation=Strict"), &object)
        .await
        .expect(400);
    assert_eq!(
        strict.message(),
        "PolicyReport in version \"v1alpha2\" cannot be handled as a PolicyReport: strict decoding \
         error: unknown field \"metadata.baz\", unknown field \"foo\", unknown field \
         \"results[0].bar\""
    );
    let warned = server.post(REPORTS, &object).await.expect(201);
    assert_eq!(
        warned.warnings(),
        [
            "299 - \"unknown field \\\"metadata.baz\\\"\"",
            "299 - \"unknown field \\\"foo\\\"\"",
            "299 - \"unknown field \\\"results[0].bar\\\"\"",
        ]
    );
    let stored = warned.json();
    assert_eq!(stored.get("foo"), None);
    assert_eq!(
        stored["results"][0],
        json!({"policy": "p", "rule": "r", "result": "pass"})
    );
    object["metadata"]["name"] = json!("b");
    let ignored = server
        .post(&format!("{REPORTS}?fieldValidation=Ignore"), &object)
        .await
        .expect(201);
    assert_eq!(ignored.warnings(), [""; 0]);
}

#[tokio::test]
async fn broken_schemas_name_the_field() {
    let server = Server::start().await;
    let mut object = report("a");
    object["results"] = json!([{"result": "maybe", "severity": "high"}]);
    let answer = server.post(REPORTS, &object).await.expect(422);
    let status = answer.json();
    assert_eq!(status["reason"], "Invalid");
    assert_eq!(status["details"]["kind"], "PolicyReport");
    let causes: Vec<(&str, &str)> = status["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["field"].as_str().unwrap(), c["reason"].as_str().unwrap()))
        .collect();
    assert!(
        causes.contains(&("results[0].policy", "FieldValueRequired")),
        "{causes:?}"
    );
    assert!(
        causes.contains(&("results[0].result", "FieldValueNotSupported")),
        "{causes:?}"
    );
    let mut named = report("Wrong_Name");
    named["metadata"]["labels"] = json!({"-": "x"});
    let answer = server.post(REPORTS, &named).await.expect(422).json();
    let fields: Vec<&str> = answer["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["field"].as_str().unwrap())
        .collect();
    assert_eq!(fields, ["metadata.name", "metadata.labels"]);
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let server = Server::start().await;
    let before = rv(&server.get(REPORTS).await.json());
    let answer = server
        .post(&format!("{REPORTS}?dryRun=All"), &report("a"))
        .await
        .expect(201)
        .json();
    assert!(answer["metadata"]["uid"].is_string());
    assert_eq!(answer["metadata"].get("resourceVersion"), None);
    server.get(&format!("{REPORTS}/a")).await.expect(404);
    assert_eq!(rv(&server.get(REPORTS).await.json()), before);
    server.created("a").await;
    server
        .post(&format!("{REPORTS}?dryRun=All"), &report("a"))
        .await
        .expect(409);
    server
        .post(&format!("{REPORTS}?dryRun=Some"), &report("b"))
        .await
        .expect(422);
}

#[tokio::test]
async fn warnings_about_metadata() {
    let server = Server::start().await;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    let mut object = report("a");
    object["metadata"]["ownerReferences"] = json!([owner, owner]);
    object["metadata"]["finalizers"] = json!(["hold"]);
    let answer = server.post(REPORTS, &object).await.expect(201);
    let warnings = answer.warnings();
    assert!(warnings[0].contains(".metadata.ownerReferences contains duplicate entries"));
    assert!(warnings[1].contains("prefer a domain-qualified finalizer name"));
    assert_eq!(
        answer.json()["metadata"]["ownerReferences"],
        Value::Array(vec![owner])
    );
}

#[tokio::test]
async fn yaml_bodies() {
    let server = Server::start().await;
    let yaml = "apiVersion: wgpolicyk8s.io/v1alpha2\nkind: PolicyReport\nmetadata:\n  name: a\n";
    let create = |type_: &str| {
        server
            .request("POST", REPORTS)
            .body(yaml)
            .header("content-type", type_)
            .send()
    };
    create("application/yaml; charset=utf-8").await.expect(201);
    // Accepted in name: there is no custom resource in it.
    create("application/vnd.kubernetes.protobuf")
        .await
        .expect(400);
    for type_ in ["text/plain", "application/cbor"] {
        let answer = create(type_).await.expect(415);
        assert!(answer.message().starts_with(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf"
        ));
    }
}
