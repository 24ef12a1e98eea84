use crds::catalog;
use serde_json::{Value, json};

use super::Discovery;
use crate::definition::ResourceDefinition;

/// Returns the definitions of some groups of the catalog.
fn definitions(groups: &[&str]) -> Vec<ResourceDefinition> {
    groups
        .iter()
        .flat_map(|group| catalog::group(group))
        .map(|resource| ResourceDefinition::from_crd(&catalog::to_crd(resource).unwrap()).unwrap())
        .collect()
}

fn discovery(groups: &[&str]) -> Discovery {
    Discovery::new(&definitions(groups)).unwrap()
}

fn read(document: &crate::document::Document) -> Value {
    serde_json::from_slice(&document.body).unwrap()
}

#[test]
fn the_aggregated_list() {
    let discovery = discovery(&["wgpolicyk8s.io", "reports.kyverno.io"]);
    let v2 = read(&discovery.aggregated_v2);
    insta::assert_json_snapshot!(v2);
    let mut v2beta1 = read(&discovery.aggregated_v2beta1);
    assert_eq!(v2beta1["apiVersion"], "apidiscovery.k8s.io/v2beta1");
    v2beta1["apiVersion"] = v2["apiVersion"].clone();
    assert_eq!(v2beta1, v2);
}

#[test]
fn the_unaggregated_lists() {
    let discovery = discovery(&["openreports.io"]);
    insta::assert_json_snapshot!(json!({
        "/apis": read(&discovery.groups),
        "/apis/openreports.io": read(&discovery.group["openreports.io"]),
        "/apis/openreports.io/v1alpha1":
            read(&discovery.resources[&("openreports.io".to_owned(), "v1alpha1".to_owned())]),
        "/apis/control.reports-server.io/v1alpha1":
            read(&discovery.resources[&("control.reports-server.io".to_owned(), "v1alpha1".to_owned())]),
    }));
}

#[test]
fn the_control_api_is_always_there() {
    let discovery = discovery(&[]);
    let groups = read(&discovery.groups);
    assert_eq!(groups["groups"].as_array().map(Vec::len), Some(1));
    assert_eq!(groups["groups"][0]["name"], "control.reports-server.io");
    assert_eq!(
        read(&discovery.aggregated_v2)["items"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn bytes_do_not_depend_on_the_order_of_definitions() {
    let groups = [
        "wgpolicyk8s.io",
        "openreports.io",
        "reports.kyverno.io",
        "kyverno.io",
    ];
    let forwards = definitions(&groups);
    let backwards: Vec<_> = forwards.iter().rev().cloned().collect();
    let (forwards, backwards) = (
        Discovery::new(&forwards).unwrap(),
        Discovery::new(&backwards).unwrap(),
    );
    assert_eq!(forwards.aggregated_v2, backwards.aggregated_v2);
    assert_eq!(forwards.groups, backwards.groups);
    assert_eq!(forwards.group, backwards.group);
    assert_eq!(forwards.resources, backwards.resources);
}

#[test]
fn each_served_version_lists_the_resource() {
    let mut definition = definitions(&["openreports.io"]).remove(0);
    let mut beta = definition.versions[0].clone();
    beta.name = "v1beta1".to_owned();
    beta.storage = false;
    let mut hidden = beta.clone();
    hidden.name = "v2".to_owned();
    hidden.served = false;
    definition.versions = vec![hidden, beta, definition.versions[0].clone()];
    let discovery = Discovery::new([&definition]).unwrap();
    let group = read(&discovery.group["openreports.io"]);
    let versions: Vec<_> = group["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| &v["version"])
        .collect();
    assert_eq!(versions, ["v1beta1", "v1alpha1"]);
    assert_eq!(group["preferredVersion"]["version"], "v1beta1");
    for version in ["v1beta1", "v1alpha1"] {
        let key = ("openreports.io".to_owned(), version.to_owned());
        let resources = read(&discovery.resources[&key]);
        assert_eq!(resources["resources"][0]["name"], definition.plural);
        let hash = &resources["resources"][0]["storageVersionHash"];
        assert_eq!(hash, &Value::from(definition.storage_version_hash()));
    }
}
