//! Updates that change nothing: the short way to find it and the long way agree.

use apimachinery::error::ApiError;
use apimachinery::schema::Encoding;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use reports_server::cluster::NamespacePhase;
use reports_server::registry::{
    Collection, FieldValidation, Form, Outcome, Warnings, WriteOptions,
};
use serde_json::{Value, json};
use storage::model::GroupResource;
use tokio::time::Instant;

use crate::harness::*;

const GROUP: &str = "wgpolicyk8s.io";
const VERSION: &str = "v1alpha2";
const PLURAL: &str = "policyreports";

fn item() -> String {
    format!("{REPORTS}/a")
}

/// Sends an update to the registry. A dry run goes the long way, whatever it finds.
async fn update(server: &Server, object: &Value, dry_run: bool) -> Result<Outcome, ApiError> {
    let serving = server.served.load();
    let (effective, version) = serving.version(GROUP, VERSION, PLURAL).unwrap();
    let definition = &effective.definition;
    let resource = GroupResource::new(GROUP, PLURAL);
    let resource = server.store.resource(&resource).unwrap();
    let warnings = Warnings::default();
    let objects = Collection {
        store: &server.store,
        namespaces: &*server.namespaces,
        resource: &resource,
        definition,
        version,
        field_manager: definition.field_manager(VERSION).unwrap(),
        namespace: "default",
        user_agent: "another/1",
        patience: Instant::now() + PATIENCE,
        warnings: &warnings,
    };
    let options = WriteOptions {
        dry_run,
        field_validation: FieldValidation::Warn,
        field_manager: String::new(),
        force: false,
    };
    let body = object.to_string();
    let object = objects.read(body.as_bytes(), Encoding::Json, FieldValidation::Warn)?;
    objects.update("a", object, &options).await
}

/// Returns an object after a write, in the version of a report that was read.
fn value(form: &Form) -> Value {
    let mut value = match form {
        Form::Stored(object) => object.value().unwrap(),
        Form::Unstored(object) => Value::Object(object.clone()),
    };
    value["apiVersion"] = json!(format!("{GROUP}/{VERSION}"));
    value
}

const EDITS: usize = 31;

/// Does something to an object that a client may do before it puts it back.
fn edit(object: &mut Value, number: usize) {
    let version = object["metadata"]["resourceVersion"].clone();
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    match number {
        1 => without(object, "managedFields"),
        2 => object["metadata"]["managedFields"] = json!([]),
        3 => object["metadata"]["managedFields"] = json!([{}]),
        4 => edit_entry(object, "time", json!("2000-01-01T00:00:00Z")),
        5 => edit_entry(object, "time", json!(null)),
        6 => edit_entry(object, "manager", json!("somebody")),
        7 => edit_entry(object, "apiVersion", json!("wgpolicyk8s.io/v0")),
        8 => edit_entry(object, "fieldsV1", json!({})),
        9 => edit_entry(object, "operation", json!("Neither")),
        10 => object["metadata"]["generation"] = json!(50),
        11 => without(object, "generation"),
        12 => object["metadata"]["creationTimestamp"] = json!("2000-01-01T00:00:00Z"),
        13 => without(object, "creationTimestamp"),
        14 => without(object, "uid"),
        15 => object["metadata"]["uid"] = json!("another"),
        16 => object["metadata"]["labels"] = json!({"x": "y"}),
        17 => object["metadata"]["annotations"] = json!({}),
        18 => object["metadata"]["finalizers"] = json!([]),
        19 => object["metadata"]["finalizers"] = json!(["example.com/hold"]),
        20 => object["metadata"]["deletionTimestamp"] = json!("2000-01-01T00:00:00Z"),
        21 => object["metadata"]["ownerReferences"] = json!([owner, owner]),
        22 => object["metadata"]["resourceVersion"] = json!("1"),
        23 => {
            let version = version.as_str().unwrap_or_default();
            object["metadata"]["resourceVersion"] = json!(format!("0{version}"));
        }
        24 => without(object, "namespace"),
        25 => object["metadata"]["unknown"] = json!(1),
        26 => object["summary"]["pass"] = json!(1.0),
        27 => object["summary"]["pass"] = json!(2),
        28 => object["summary"]["unknown"] = json!(null),
        29 => object["results"] = json!([{"policy": "p", "result": "maybe"}]),
        30 => object["results"] = json!([]),
        _ => {}
    }
}

fn without(object: &mut Value, field: &str) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove(field);
    }
}

fn edit_entry(object: &mut Value, field: &str, value: Value) {
    let entry = object.pointer_mut("/metadata/managedFields/0");
    if let Some(Value::Object(entry)) = entry {
        entry.insert(field.to_owned(), value);
    }
}

/// The numbers of updates that changed nothing, by the way on which this was found.
#[derive(Default)]
struct Found {
    short: usize,
    long: usize,
}

impl Found {
    /// Puts an object back with these edits, on a dry run and then in earnest.
    async fn put_back(&mut self, server: &Server, edits: &[usize]) {
        let before = server.created("a").await;
        let mut sent = before.clone();
        for number in edits {
            edit(&mut sent, *number);
        }
        let tried = update(server, &sent, true).await;
        let done = update(server, &sent, false).await;
        let after = server.get(&item()).await.expect(200).json();
        match (tried, done) {
            (Ok(tried), Ok(done)) => {
                let changes_nothing = value(&tried.object) == before;
                assert_eq!(after == before, changes_nothing, "{edits:?}");
                assert_eq!(value(&done.object), after, "{edits:?}");
                match done.object {
                    Form::Stored(_) if changes_nothing => self.short += 1,
                    Form::Unstored(_) if changes_nothing => self.long += 1,
                    _ => {}
                }
            }
            (Err(tried), Err(done)) => {
                assert_eq!(tried.code(), done.code(), "{edits:?}");
                assert_eq!(after, before, "{edits:?}");
            }
            (tried, done) => panic!("{edits:?}: {tried:?}, then {done:?}"),
        }
        let item = item();
        // One whose deletion is held goes when nothing holds it any more.
        server.delete(&item).await.expect(200);
        let release = json!({"metadata": {"finalizers": null}});
        server.merge_patch(&item, &release).await;
        server.get(&item).await.expect(404);
    }
}

#[tokio::test]
async fn an_object_that_is_put_back_as_it_was_read_is_found_on_the_short_way() {
    let server = Server::start().await;
    let mut found = Found::default();
    found.put_back(&server, &[]).await;
    assert_eq!((found.short, found.long), (1, 0));
}

#[tokio::test]
async fn both_ways_agree() {
    let server = Server::start().await;
    let mut found = Found::default();
    for number in 0..EDITS {
        found.put_back(&server, &[number]).await;
    }
    let mut runner = TestRunner::deterministic();
    let some = prop::collection::vec(0..EDITS, 2..4);
    for _ in 0..150 {
        let edits = some.new_tree(&mut runner).unwrap().current();
        found.put_back(&server, &edits).await;
    }
    assert!(found.short > 0 && found.long > 0);
}

#[tokio::test]
async fn the_answer_is_that_of_a_get() {
    let server = Server::start().await;
    let mut object = report("a");
    object["results"][0]["message"] = json!("<a> & \u{2028}");
    server.post(REPORTS, &object).await.expect(201);
    let object = server.get(&item()).await.expect(200).json();
    for accept in [
        "application/json",
        "application/yaml",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ] {
        let get = server.request("GET", &item()).header("accept", accept);
        let put = server.request("PUT", &item()).header("accept", accept);
        let got = get.send().await.expect(200);
        let put = put.json(&object).send().await.expect(200);
        assert_eq!(put.text(), got.text());
        let type_of = |answer: &Answer| answer.headers.get("content-type").cloned();
        assert_eq!(type_of(&put), type_of(&got));
    }
}

#[tokio::test]
async fn a_namespace_that_is_gone_takes_no_update_that_changes_nothing() {
    let server = Server::start().await;
    let object = server.created("a").await;
    server.namespaces.set("default", NamespacePhase::Missing);
    let answer = server.put(&item(), &object).await.expect(404);
    assert_eq!(answer.message(), "namespaces \"default\" not found");
    server
        .namespaces
        .set("default", NamespacePhase::Terminating);
    let same = server.put(&item(), &object).await.expect(200).json();
    assert_eq!(same, object);
}

#[tokio::test]
async fn what_another_version_fills_in_is_stored() {
    let server = Server::start().await;
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": {"name": "g"}});
    let created = server.post(GADGETS_V1, &gadget).await.expect(201).json();
    let older = format!("{GADGETS_V1BETA1}/g");
    let shown = server.get(&older).await.expect(200).json();
    assert_eq!(shown["size"], 7);
    let filled = server.put(&older, &shown).await.expect(200).json();
    assert!(rv(&filled) > rv(&created));
    let same = server.put(&older, &filled).await.expect(200).json();
    assert_eq!(same, filled);
    // What that version does not know is stored, but not shown.
    let newer = format!("{GADGETS_V1}/g");
    let mut painted = server.get(&newer).await.expect(200).json();
    painted["color"] = json!("red");
    let painted = server.put(&newer, &painted).await.expect(200).json();
    let shown = server.get(&older).await.expect(200).json();
    assert_eq!(shown.get("color"), None);
    server.put(&older, &shown).await.expect(200);
    let after = server.get(&newer).await.expect(200).json();
    assert_eq!(after.get("color"), None);
    assert!(rv(&after) > rv(&painted));
}
