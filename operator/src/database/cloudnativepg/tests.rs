//! The ways from a specification to a `Cluster`, and from a `Cluster` to a connection.

use crds::v1alpha1::reasons;
use serde_json::{Value, json};

use super::*;
use crate::controller::{Validated, data_metadata, fixtures};
use crate::database::place::Source;

fn plan(spec: Value) -> Plan {
    let spec: CloudNativePgSpec = serde_json::from_value(spec).unwrap();
    Plan::of(&spec, "simple-postgres".to_owned())
}

fn metadata(validated: &Validated) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
    data_metadata(validated, "simple-postgres".to_owned())
}

fn made(create: Value, deletion: Value) -> Value {
    let mut spec =
        json!({"database": {"mode": "CloudNativePG", "cloudNativePG": {"create": create}}});
    if !deletion.is_null() {
        spec["deletionPolicy"] = deletion;
    }
    let validated = fixtures::validated(spec);
    let create = serde_json::from_value(create).unwrap();
    serde_json::to_value(build::cluster(metadata(&validated), &create)).unwrap()
}

fn cluster(spec: &Value, status: &Value) -> Observed {
    let object = serde_json::from_value(json!({
        "apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster",
        "metadata": {"name": "pg", "namespace": "target"}, "spec": spec, "status": status,
    }))
    .unwrap();
    Observed::of(&object)
}

fn healthy() -> Value {
    json!({"currentPrimary": "pg-1", "targetPrimary": "pg-1", "readyInstances": 3,
        "phase": "Cluster in healthy state",
        "certificates": {"serverCASecret": "pg-ca"}})
}

fn existing() -> Plan {
    plan(json!({"clusterRef": {"name": "pg"}}))
}

fn reason(observed: Option<&Observed>) -> Option<(&'static str, String)> {
    let problem = observe::reached("target", &existing(), observed).problem;
    problem.map(|problem| (problem.reason, problem.message))
}

#[test]
fn a_cluster_has_three_instances_and_our_database() {
    let made = made(json!({}), Value::Null);
    assert_eq!(
        made["spec"],
        json!({"instances": 3, "storage": {"size": "10Gi"},
            "postgresql": {"synchronous": {
                "method": "any", "number": 1, "dataDurability": "required"}},
            "bootstrap": {"initdb": {"database": "reports", "owner": "reports", "encoding": "UTF8"}}})
    );
    assert_eq!(made["metadata"]["name"], "simple-postgres");
    assert_eq!(made["metadata"]["namespace"], "target");
    // The reports are to outlive the ReportsServer.
    assert!(made["metadata"].get("ownerReferences").is_none());
}

#[test]
fn settings_are_handed_on() {
    let made = made(
        json!({"instances": 1, "storage": {"size": "3Gi", "storageClassName": "fast"},
            "imageCatalogRef": {"name": "official", "major": 17},
            "backup": {"barmanObjectStore": {"destinationPath": "s3://b"}}}),
        Value::Null,
    );
    assert_eq!(made["spec"]["instances"], 1);
    assert!(
        made["spec"].get("postgresql").is_none(),
        "there is no standby"
    );
    assert_eq!(
        made["spec"]["storage"],
        json!({"size": "3Gi", "storageClass": "fast"})
    );
    assert_eq!(
        made["spec"]["imageCatalogRef"],
        json!({"apiGroup": "postgresql.cnpg.io", "kind": "ImageCatalog", "name": "official",
            "major": 17})
    );
    assert_eq!(
        made["spec"]["backup"],
        json!({"barmanObjectStore": {"destinationPath": "s3://b"}})
    );
}

#[test]
fn an_only_standby_may_be_away() {
    let made = made(json!({"instances": 2}), Value::Null);
    assert_eq!(
        made["spec"]["postgresql"]["synchronous"]["dataDurability"],
        "preferred"
    );
}

#[test]
fn the_owner_of_data_that_may_go_is_the_reports_server() {
    let mut object = fixtures::object(json!({"deletionPolicy": {"data": "Delete"},
        "database": {"mode": "CloudNativePG", "cloudNativePG": {"create": {}}}}));
    let confirm = crds::names::ANNOTATION_CONFIRM_DATA_DELETION.to_owned();
    let annotations = object.metadata.annotations.get_or_insert_default();
    annotations.insert(confirm, "simple".to_owned());
    let validated = fixtures::validated_object(&object);
    let made = build::cluster(metadata(&validated), &CloudNativePgCreate::default());
    let made = serde_json::to_value(made).unwrap();
    let owners = &made["metadata"]["ownerReferences"];
    assert_eq!(owners[0]["uid"], "uid-1", "{owners}");
}

#[test]
fn a_cluster_with_more_than_is_asked_for_is_as_wanted() {
    let validated = fixtures::validated(json!({"database": {"mode": "CloudNativePG",
        "cloudNativePG": {"create": {}}}}));
    let wanted = build::cluster(metadata(&validated), &CloudNativePgCreate::default());
    let mut found = wanted.clone();
    found.data["spec"]["postgresql"]["parameters"] = json!({"archive_mode": "on"});
    found.data["status"] = healthy();
    assert!(is_as_wanted(&found, &wanted));

    let mut other = found.clone();
    other.data["spec"]["instances"] = json!(2);
    assert!(!is_as_wanted(&other, &wanted));
    let mut lacking = found.clone();
    lacking.data["spec"]
        .as_object_mut()
        .unwrap()
        .remove("storage");
    assert!(!is_as_wanted(&lacking, &wanted));
    let mut unlabelled = found;
    unlabelled.metadata.labels = None;
    assert!(!is_as_wanted(&unlabelled, &wanted));
}

#[test]
fn a_healthy_cluster_is_reached_by_its_service_and_secrets() {
    let observed = cluster(&json!({}), &healthy());
    let reached = observe::reached("target", &existing(), Some(&observed));
    assert_eq!(reached.problem, None);
    assert_eq!(reached.primary.as_deref(), Some("pg-1"));
    let parameters = &reached.connection.parameters;
    assert_eq!(parameters["host"], "pg-rw.target.svc");
    assert_eq!(parameters["sslmode"], "verify-full");
    assert!(!parameters.contains_key("dbname"));
    let sources: Vec<_> = reached
        .connection
        .sources
        .iter()
        .map(|source| (source.name().to_owned(), source.items().len()))
        .collect();
    assert_eq!(sources, [("pg-app".to_owned(), 3), ("pg-ca".to_owned(), 1)]);
    let required = |source: &Source| {
        matches!(
            source,
            Source::Secret {
                optional: false,
                ..
            }
        )
    };
    assert!(reached.connection.sources.iter().all(required));
}

#[test]
fn secrets_that_the_owner_gave_are_used() {
    let spec = json!({"bootstrap": {"initdb": {"database": "d", "secret": {"name": "mine"}}}});
    let mut status = healthy();
    status["certificates"]["serverCASecret"] = json!("my-ca");
    let reached = observe::reached("target", &existing(), Some(&cluster(&spec, &status)));
    assert_eq!(reached.connection.parameters["dbname"], "d");
    let names: Vec<_> = reached
        .connection
        .sources
        .iter()
        .map(Source::name)
        .collect();
    assert_eq!(names, ["mine", "my-ca"]);
}

#[test]
fn what_keeps_a_cluster_from_being_used_is_told() {
    assert_eq!(reason(None).unwrap().0, reasons::CLUSTER_MISSING);

    let starting = cluster(
        &json!({}),
        &json!({"phase": "Setting up primary",
        "phaseReason": "Creating primary instance pg-1"}),
    );
    let (starting, message) = reason(Some(&starting)).unwrap();
    assert_eq!(starting, reasons::CLUSTER_NOT_READY);
    assert_eq!(
        message,
        "Cluster target/pg has no primary yet (Setting up primary: Creating primary instance pg-1)"
    );

    let mut failing = healthy();
    failing["targetPrimary"] = json!("pg-2");
    failing["phase"] = json!("Failing over");
    let (failing, message) = reason(Some(&cluster(&json!({}), &failing))).unwrap();
    assert_eq!(failing, reasons::FAILING_OVER);
    assert!(
        message.contains("from pg-1 to pg-2 (Failing over)"),
        "{message}"
    );

    let mut undecided = healthy();
    undecided["targetPrimary"] = json!("pending");
    undecided["phase"] = json!("Failing over");
    let (undecided, message) = reason(Some(&cluster(&json!({}), &undecided))).unwrap();
    assert_eq!(undecided, reasons::FAILING_OVER);
    assert_eq!(
        message,
        "Cluster target/pg is failing over from pg-1 (Failing over)"
    );

    let mut down = healthy();
    down["readyInstances"] = json!(0);
    let (down, _) = reason(Some(&cluster(&json!({}), &down))).unwrap();
    assert_eq!(down, reasons::CLUSTER_NOT_READY);

    let without = observe::without_crd("target", &existing());
    assert_eq!(
        without.problem.unwrap().reason,
        reasons::CLOUD_NATIVE_PG_MISSING
    );
}
