//! The examples, read back as the controllers get them.

use std::path::Path;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::gitops;
use crate::names::{OPERATOR, OPERATOR_NAMESPACE};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Returns the objects of all examples.
fn objects() -> Vec<Value> {
    let mut objects = Vec::new();
    for text in gitops().values() {
        for document in serde_yaml::Deserializer::from_str(text) {
            objects.push(Value::deserialize(document).unwrap());
        }
    }
    objects
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
}
