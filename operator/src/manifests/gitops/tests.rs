//! The examples, read back as the controllers get them.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::gitops;
use crate::names::{OPERATOR, OPERATOR_NAMESPACE};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Returns the objects of a text.
fn read(text: &str) -> Vec<Value> {
    let documents = serde_yaml::Deserializer::from_str(text);
    let objects = documents.map(|document| Value::deserialize(document).unwrap());
    objects.collect()
}

/// Returns the objects of all examples.
fn objects() -> Vec<Value> {
    gitops().values().flat_map(|text| read(text)).collect()
}

/// Returns a text of an object, such as a name.
fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Returns the object of a kind and name.
fn named(kind: &str, name: &str) -> Value {
    let mut found = objects()
        .into_iter()
        .filter(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    let object = found.next().unwrap();
    assert!(found.next().is_none(), "{kind} {name} is there once");
    object
}

#[test]
fn every_path_is_a_folder_for_kustomize() {
    let mut paths = Vec::new();
    for object in objects() {
        let path = object
            .pointer("/spec/source/path")
            .or_else(|| object.pointer("/spec/path"));
        if let Some(path) = path {
            let path = path.as_str().unwrap().trim_start_matches("./");
            let file = Path::new(ROOT).join(path).join("kustomization.yaml");
            assert!(file.is_file(), "{path}");
            paths.push(path.to_owned());
        }
    }
    paths.sort();
    let server = "manifests/gitops/reports-server";
    let operator = "manifests/kustomize/base";
    assert_eq!(paths, [server, server, operator, operator]);
}

#[test]
fn each_release_is_named_by_its_tag() {
    let tag = concat!("v", env!("CARGO_PKG_VERSION"));
    for name in [OPERATOR, "policy-reports"] {
        let application = named("Application", name);
        assert_eq!(application["spec"]["source"]["targetRevision"], tag);
    }
    let repository = named("GitRepository", "reports-server");
    assert_eq!(repository["spec"]["ref"]["tag"], tag);
}

#[test]
fn the_operator_comes_first_and_is_never_pruned_with_a_server() {
    let application = named("Application", OPERATOR);
    let namespace = &application["spec"]["destination"]["namespace"];
    assert_eq!(*namespace, OPERATOR_NAMESPACE);
    let server = named("Kustomization", "policy-reports");
    assert_eq!(server["spec"]["dependsOn"][0]["name"], OPERATOR);
    assert_eq!(server["spec"]["prune"], false);
    assert_eq!(server["spec"]["wait"], true);
    let operator = named("Kustomization", OPERATOR);
    assert_eq!(operator["spec"]["sourceRef"], server["spec"]["sourceRef"]);
    let server = named("Application", "policy-reports");
    assert_eq!(server["spec"]["syncPolicy"]["automated"]["prune"], false);
}

/// An operator that goes first leaves the CRD, and with it each `ReportsServer`.
#[test]
fn the_crd_is_not_pruned() {
    let base = crate::manifests::kustomize().unwrap();
    let crd: Value = serde_yaml::from_str(&base["base/crd.yaml"]).unwrap();
    let annotations = json!({
        "argocd.argoproj.io/sync-options": "Prune=false",
        "kustomize.toolkit.fluxcd.io/prune": "disabled",
    });
    assert_eq!(crd["metadata"]["annotations"], annotations);
}

/// `hack/gitops` runs the check.
#[test]
fn the_health_check_is_for_the_api() {
    let crd = crds::v1alpha1::reports_server_crd().unwrap();
    let crd = serde_json::to_value(crd).unwrap();
    let key = format!(
        "resource.customizations.health.{}_{}",
        crd["spec"]["group"].as_str().unwrap(),
        crd["spec"]["names"]["kind"].as_str().unwrap()
    );
    let config = named("ConfigMap", "argocd-cm");
    assert_eq!(config["data"][&key].as_str(), Some(super::HEALTH));
    let server = named("ReportsServer", "policy-reports");
    let flux = named("Kustomization", "policy-reports");
    let check = &flux["spec"]["healthCheckExprs"][0];
    for member in ["apiVersion", "kind"] {
        assert_eq!(check[member], server[member]);
    }
}

/// Whoever owns the CRDs leaves the versions of those alone that the examples move.
#[test]
fn the_lines_for_the_crds_are_for_the_groups_of_the_example() {
    let mut moved = BTreeSet::new();
    let server = named("ReportsServer", "policy-reports");
    for api in server["spec"]["apis"].as_array().unwrap() {
        let group = text(&api["group"]);
        let path = format!("{ROOT}/manifests/crd/report-apis/{group}.yaml");
        let crds = read(&std::fs::read_to_string(path).unwrap());
        moved.extend(crds.iter().map(|crd| text(&crd["metadata"]["name"])));
    }
    let files = gitops();
    let versions = json!(["/spec/versions"]);
    let argocd = read(&files["argocd/report-crds.yaml"]).remove(0);
    let rules = argocd["spec"]["ignoreDifferences"].as_array().unwrap();
    let named = rules.iter().map(|rule| text(&rule["name"]));
    assert_eq!(named.collect::<BTreeSet<_>>(), moved);
    assert!(rules.iter().all(|rule| rule["jsonPointers"] == versions));
    let flux = read(&files["flux/report-crds.yaml"]).remove(0);
    let rules = flux["spec"]["ignore"].as_array().unwrap();
    let named = rules.iter().map(|rule| text(&rule["target"]["name"]));
    assert_eq!(named.collect::<BTreeSet<_>>(), moved);
    assert!(rules.iter().all(|rule| rule["paths"] == versions));
}
