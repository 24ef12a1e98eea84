use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::harness::*;

fn uri(name: &str) -> String {
    format!("{REPORTS}/{name}")
}

#[tokio::test]
async fn generation_counts_what_is_not_metadata() {
    let server = Server::start().await;
    let mut object = server.created("a").await;
    object["metadata"]["labels"] = json!({"x": "y"});
    object["metadata"]["generation"] = json!(50);
    let relabelled = server.put(&uri("a"), &object).await.expect(200).json();
    assert_eq!(relabelled["metadata"]["generation"], 1);
    assert!(rv(&relabelled) > rv(&object));
    let mut object = relabelled;
    object["results"] = json!([]);
    let changed = server.put(&uri("a"), &object).await.expect(200).json();
    assert_eq!(changed["metadata"]["generation"], 2);
    assert_eq!(server.get(&uri("a")).await.json(), changed);
}

#[tokio::test]
async fn a_no_op_keeps_its_version_and_makes_no_event() {
    let server = Server::start().await;
    let object = server.created("a").await;
    let mut watch = server
        .watch(&format!(
            "{REPORTS}?watch=1&resourceVersion={}",
            rv(&object)
        ))
        .await;
    let same = server.put(&uri("a"), &object).await.expect(200).json();
    assert_eq!(same, object);
    let mut shuffled = object.clone();
    // As a client sends it that does not know of managed fields, and writes whole floats.
    shuffled["summary"]["pass"] = json!(1.0);
    let same = server.put(&uri("a"), &shuffled).await.expect(200).json();
    assert_eq!(rv(&same), rv(&object));
    let next = rv(&server.created("b").await);
    assert_eq!(watch.brief().await, format!("ADDED b {next}"));
}

#[tokio::test]
async fn stale_and_missing_versions() {
    let server = Server::start().await;
    let old = server.created("a").await;
    let mut new = old.clone();
    new["results"] = json!([]);
    server.put(&uri("a"), &new).await.expect(200);
    let stale = server.put(&uri("a"), &old).await.expect(409);
    assert_snapshot!(stale.text(), @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled on policyreports.wgpolicyk8s.io \"a\": the object has been modified; please apply your changes to the latest version and try again","reason":"Conflict","details":{"name":"a","group":"wgpolicyk8s.io","kind":"policyreports"},"code":409}"#);
    let unversioned = server.put(&uri("a"), &report("a")).await.expect(422);
    assert_snapshot!(unversioned.text(), @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"policyreports.wgpolicyk8s.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update","reason":"Invalid","details":{"name":"a","group":"wgpolicyk8s.io","kind":"policyreports","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: 0: must be specified for an update","field":"metadata.resourceVersion"}]},"code":422}"#);
    server
        .put(&uri("missing"), &report("missing"))
        .await
        .expect(404);
}

#[tokio::test]
async fn another_object_under_the_name() {
    let server = Server::start().await;
    let mut object = server.created("a").await;
    object["metadata"]["uid"] = json!("another");
    let answer = server.put(&uri("a"), &object).await.expect(409);
    assert!(
        answer
            .message()
            .contains("Precondition failed: UID in precondition: another, UID in object meta: ")
    );
}

#[tokio::test]
async fn the_name_must_be_that_of_the_path() {
    let server = Server::start().await;
    let mut object = server.created("a").await;
    let answer = server.put(&uri("b"), &object).await.expect(400);
    assert_eq!(
        answer.message(),
        "the name of the object (a) does not match the name on the URL (b)"
    );
    object["metadata"].as_object_mut().unwrap().remove("name");
    let answer = server.put(&uri("a"), &object).await.expect(400);
    assert!(
        answer
            .message()
            .contains("was undeterminable: name must be provided")
    );
}

#[tokio::test]
async fn what_an_update_cannot_change() {
    let server = Server::start().await;
    let created = server.created("a").await;
    let mut object = created.clone();
    object["metadata"]["creationTimestamp"] = json!("2000-01-01T00:00:00Z");
    object["metadata"]["labels"] = json!({});
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("uid");
    let updated = server.put(&uri("a"), &object).await.expect(200).json();
    for field in ["uid", "creationTimestamp", "name", "namespace"] {
        assert_eq!(
            updated["metadata"][field], created["metadata"][field],
            "{field}"
        );
    }
    let mut object = updated;
    object["metadata"]["deletionTimestamp"] = json!("2000-01-01T00:00:00Z");
    let answer = server.put(&uri("a"), &object).await.expect(422);
    assert!(
        answer
            .message()
            .contains("metadata.deletionTimestamp: Invalid value")
    );
}

#[tokio::test]
async fn an_invalid_update_changes_nothing() {
    let server = Server::start().await;
    let created = server.created("a").await;
    let mut object = created.clone();
    object["results"][0]["result"] = json!("maybe");
    let answer = server.put(&uri("a"), &object).await.expect(422);
    assert!(
        answer
            .message()
            .contains("results[0].result: Unsupported value: \"maybe\"")
    );
    assert_eq!(server.get(&uri("a")).await.json(), created);
}

/// Managers and what they own.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned();
    let entries = entries.unwrap_or_default();
    entries
        .iter()
        .map(|entry| format!("{} {}", entry["manager"], entry["fieldsV1"]))
        .collect()
}

#[tokio::test]
async fn whoever_changes_a_field_owns_it() {
    let server = Server::start().await;
    let by = |name: &str| format!("{}?fieldManager={name}", uri("a"));
    let mut new = json!({"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
        "metadata": {"name": "a"}, "summary": {"pass": 1}});
    let created = server
        .request("POST", REPORTS)
        .json(&new)
        .header("user-agent", "agent/1.0 (linux)")
        .send()
        .await
        .expect(201)
        .json();
    let of_agent = r#""agent" {"f:summary":{".":{},"f:pass":{}}}"#;
    assert_eq!(owners(&created), [of_agent]);
    new["metadata"] = created["metadata"].clone();
    let same = server.put(&by("put"), &new).await.expect(200).json();
    assert_eq!(same, created, "nothing changes hands with nothing changed");
    new["summary"]["fail"] = json!(2);
    let put = server.put(&by("put"), &new).await.expect(200).json();
    let of_put = r#""put" {"f:summary":{"f:fail":{}}}"#;
    assert_eq!(owners(&put), [of_agent, of_put]);
    let patch = json!({"summary": {"pass": 3}});
    let merged = server.merge_patch(&by("s"), &patch).await.expect(200);
    let merged = merged.json();
    let of_merge = r#""s" {"f:summary":{"f:pass":{}}}"#;
    let rest = r#""agent" {"f:summary":{}}"#;
    assert_eq!(owners(&merged), [rest, of_put, of_merge]);
    let patch = json!([{"op": "remove", "path": "/summary/fail"}]);
    let patched = server.json_patch(&by("t"), &patch).await.expect(200).json();
    assert_eq!(owners(&patched), [rest, of_merge]);
}

#[tokio::test]
async fn entries_are_edited_and_forgotten() {
    let server = Server::start().await;
    let entry = json!({"manager": "m", "operation": "Update", "apiVersion": "wgpolicyk8s.io/v1alpha2",
        "time": "2026-11-21T08:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:scope": {}}});
    let mut object = server.created("a").await;
    object["metadata"]["managedFields"] = json!([entry]);
    let mut object = server.put(&uri("a"), &object).await.expect(200).json();
    assert_eq!(object["metadata"]["managedFields"], json!([entry]));
    object["metadata"]["managedFields"] = json!([{}]);
    let mut object = server.put(&uri("a"), &object).await.expect(200).json();
    assert_eq!(object["metadata"].get("managedFields"), None);
    object["results"] = json!([]);
    let object = server.put(&uri("a"), &object).await.expect(200).json();
    assert_eq!(
        object["metadata"].get("managedFields"),
        None,
        "who is forgotten is not kept account of until somebody applies"
    );
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let server = Server::start().await;
    let created = server.created("a").await;
    let mut object = created.clone();
    object["results"] = json!([]);
    let answer = server
        .put(&format!("{}?dryRun=All", uri("a")), &object)
        .await
        .expect(200)
        .json();
    assert_eq!(answer["metadata"]["generation"], 2);
    assert_eq!(rv(&answer), rv(&created));
    assert_eq!(server.get(&uri("a")).await.json(), created);
}

#[tokio::test]
async fn no_update_is_lost_among_many() {
    let server = Server::start().await;
    server.created("a").await;
    let increment = || async {
        loop {
            let mut object = server.get(&uri("a")).await.expect(200).json();
            let pass = object["summary"]["pass"].as_i64().unwrap();
            object["summary"]["pass"] = json!(pass + 1);
            match server.put(&uri("a"), &object).await.code {
                200 => return,
                409 => {}
                code => panic!("{code}"),
            }
        }
    };
    futures::future::join_all((0..20).map(|_| increment())).await;
    let object = server.get(&uri("a")).await.json();
    assert_eq!(object["summary"]["pass"], 21);
    assert_eq!(object["metadata"]["generation"], 21);
}

#[tokio::test]
async fn other_versions_and_kinds() {
    let server = Server::start().await;
    let created = server.created("a").await;
    let with = |field: &str, value: &str| {
        let mut object = created.clone();
        object[field] = Value::from(value);
        object
    };
    let version = server
        .put(&uri("a"), &with("apiVersion", "wgpolicyk8s.io/v9"))
        .await
        .expect(400);
    assert_eq!(
        version.message(),
        "the API version in the data (wgpolicyk8s.io/v9) does not match the expected API version \
         (wgpolicyk8s.io/v1alpha2)"
    );
    let kind = server
        .put(&uri("a"), &with("kind", "Pod"))
        .await
        .expect(422);
    assert!(
        kind.message()
            .contains("kind: Invalid value: \"Pod\": must be PolicyReport")
    );
}
