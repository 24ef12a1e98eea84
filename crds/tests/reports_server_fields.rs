//! Objects that use every field: types and published schema agree on each of them.
#![expect(
    clippy::unwrap_used,
    reason = "clippy takes helpers outside #[test] functions for production code"
)]

use std::collections::BTreeSet;

use crds::v1alpha1::{ReportsServer, reports_server_crd};
use kube::core::cel::Validator;
use serde::Deserialize as _;
use serde_json::Value;

/// Fields that have the shape of a Pod's; that Kubernetes' schema has all of them is its affair.
const OPAQUE: &[&str] = &[
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "resources",
];

fn fixtures() -> Vec<Value> {
    serde_yaml::Deserializer::from_str(include_str!("fixtures/reports-servers.yaml"))
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

fn schema() -> Value {
    let crd = serde_json::to_value(reports_server_crd().unwrap()).unwrap();
    crd.pointer("/spec/versions/0/schema/openAPIV3Schema")
        .unwrap()
        .clone()
}

fn is_opaque(path: &str, name: &str) -> bool {
    path.starts_with(".spec") && OPAQUE.contains(&name)
}

/// Paths of all fields of a schema.
fn of_schema(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        found.insert(path.clone());
        if !is_opaque(&path, name) {
            of_schema(field, &path, found);
            of_schema(&field["items"], &path, found);
        }
    }
}

/// Paths of all fields that an object sets, as far as the schema describes them.
fn of_object(object: &Value, schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for item in object.as_array().into_iter().flatten() {
        of_object(item, &schema["items"], path, found);
    }
    let Some(fields) = schema["properties"].as_object() else {
        return;
    };
    for (name, value) in object.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        found.insert(path.clone());
        if let Some(field) = fields.get(name).filter(|_| !is_opaque(&path, name)) {
            of_object(value, field, &path, found);
        }
    }
}

#[test]
fn the_fixtures_set_every_field_and_no_other() {
    let schema = schema();
    let mut wanted = BTreeSet::new();
    of_schema(&schema, "", &mut wanted);
    let mut set = BTreeSet::new();
    for fixture in fixtures() {
        of_object(&fixture, &schema, "", &mut set);
    }
    // What every object has is not in the schema: the kube-apiserver adds it.
    set.retain(|path| path.starts_with(".spec") || path.starts_with(".status"));
    let missing: Vec<_> = wanted.difference(&set).collect();
    let unknown: Vec<_> = set.difference(&wanted).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "missing {missing:#?}, unknown {unknown:#?}"
    );
}

#[test]
fn the_types_lose_nothing() {
    for fixture in fixtures() {
        let typed: ReportsServer = serde_json::from_value(fixture.clone()).unwrap();
        assert_eq!(serde_json::to_value(&typed).unwrap(), fixture);
    }
}

#[test]
fn the_rules_accept_them() {
    for fixture in fixtures() {
        let verdict = Validator::new().validate(&schema(), &fixture, None);
        assert!(
            verdict.is_ok(),
            "{}: {verdict:?}",
            fixture["metadata"]["name"]
        );
    }
}
