use crds::catalog;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rstest::rstest;
use serde_json::{Value, json};

use super::ResourceDefinition;

/// Returns a CRD as its owner would ship it.
fn crd() -> Value {
    let version = |name: &str, storage: bool| {
        json!({
            "name": name,
            "served": true,
            "storage": storage,
            "schema": { "openAPIV3Schema": {
                "type": "object",
                "properties": { "x": { "type": "string", "maxLength": 3 } },
            } },
            "subresources": {},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "reports.example.io" },
        "spec": {
            "group": "example.io",
            "names": { "kind": "Report", "plural": "reports", "shortNames": ["rep"], "categories": ["all"] },
            "scope": "Namespaced",
            "versions": [version("v1alpha1", false), version("v1", true), version("v1beta1", false)],
        },
    })
}

fn define(crd: &Value) -> Result<ResourceDefinition, String> {
    let crd: CustomResourceDefinition = serde_json::from_value(crd.clone()).unwrap();
    ResourceDefinition::from_crd(&crd).map_err(|error| error.to_string())
}

fn changed(pointer: &str, value: Value) -> Value {
    let mut crd = crd();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    crd.pointer_mut(parent).unwrap()[key] = value;
    crd
}

#[test]
fn names_are_taken_and_completed() {
    let definition = define(&crd()).unwrap();
    assert_eq!(definition.name(), "reports.example.io");
    assert_eq!(
        (definition.singular.as_str(), definition.list_kind.as_str()),
        ("report", "ReportList")
    );
    assert_eq!(definition.short_names, ["rep"]);
    assert_eq!(definition.categories, ["all"]);
    assert!(definition.namespaced);
    assert_eq!(definition.api_version("v1"), "example.io/v1");

    let names = json!({
        "kind": "Report", "plural": "reports", "singular": "one", "listKind": "Reports",
    });
    let definition = define(&changed("/spec/names", names)).unwrap();
    assert_eq!(
        (definition.singular.as_str(), definition.list_kind.as_str()),
        ("one", "Reports")
    );
}

#[test]
fn versions_are_ordered_by_priority() {
    let definition = define(&changed("/spec/versions/2/served", json!(false))).unwrap();
    let names = |versions: Vec<&super::VersionDefinition>| -> Vec<String> {
        versions
            .iter()
            .map(|version| version.name.clone())
            .collect()
    };
    assert_eq!(
        names(definition.versions.iter().collect()),
        ["v1", "v1beta1", "v1alpha1"]
    );
    assert_eq!(
        names(definition.served_versions().collect()),
        ["v1", "v1alpha1"]
    );
    assert_eq!(definition.storage_version().unwrap().name, "v1");
    assert!(definition.served("v1alpha1").is_some());
    assert!(definition.served("v1beta1").is_none());
    assert!(definition.served("v9").is_none());
}

/// The first 8 bytes of the SHA-256 of wgpolicyk8s.io/v1alpha2/PolicyReport in base64.
#[test]
fn the_hash_of_the_storage_version_is_that_of_the_kube_apiserver() {
    let policy_reports = catalog::resources()
        .iter()
        .find(|r| r.plural == "policyreports")
        .unwrap();
    let definition =
        ResourceDefinition::from_crd(&catalog::to_crd(policy_reports).unwrap()).unwrap();
    assert_eq!(definition.storage_version().unwrap().name, "v1alpha2");
    assert_eq!(definition.storage_version_hash(), "oABByl1YGQo=");
}

#[test]
fn a_side_door_is_passed_over() {
    let mut with_door = crd();
    let mut door = with_door["spec"]["versions"][0].clone();
    door["name"] = "legacy".into();
    with_door["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .push(door);
    let definition = define(&with_door).unwrap();
    assert!(
        definition
            .versions
            .iter()
            .all(|version| version.name != "legacy")
    );
    assert_eq!(
        serde_json::to_value(&definition).unwrap(),
        serde_json::to_value(define(&crd()).unwrap()).unwrap(),
    );
}

#[test]
fn without_columns_the_age_is_shown() {
    let definition = define(&crd()).unwrap();
    let columns = &definition.served("v1").unwrap().columns;
    assert_eq!(columns.len(), 1);
    assert_eq!(
        (columns[0].name.as_str(), columns[0].type_.as_str()),
        ("Age", "date")
    );
    assert!(
        columns[0]
            .description
            .starts_with("CreationTimestamp is a timestamp")
    );
}

#[rstest]
#[case(json!({ "deprecated": true }), Some("example.io/v1alpha1 Report is deprecated; use example.io/v1 Report"))]
#[case(json!({ "deprecated": true, "deprecationWarning": "Gone soon." }), Some("Gone soon."))]
#[case(json!({}), None)]
fn deprecated_versions_warn(#[case] fields: Value, #[case] warning: Option<&str>) {
    let mut crd = crd();
    let version = crd["spec"]["versions"][0].as_object_mut().unwrap();
    version.extend(fields.as_object().unwrap().clone());
    let definition = define(&crd).unwrap();
    assert_eq!(
        definition
            .served("v1alpha1")
            .unwrap()
            .deprecation_warning
            .as_deref(),
        warning
    );
}

#[test]
fn nothing_is_recommended_where_nothing_is_better() {
    let mut crd = changed("/spec/versions/1/deprecated", json!(true));
    crd["spec"]["versions"][2]["deprecated"] = true.into();
    let definition = define(&crd).unwrap();
    let warning = |version| {
        definition
            .served(version)
            .unwrap()
            .deprecation_warning
            .clone()
    };
    assert_eq!(warning("v1").unwrap(), "example.io/v1 Report is deprecated");
    assert_eq!(
        warning("v1beta1").unwrap(),
        "example.io/v1beta1 Report is deprecated"
    );
}

#[rstest]
#[case("/spec/conversion", json!({ "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1"] } }), "spec.conversion.strategy: conversion by \"Webhook\" is not supported: only the strategy None is")]
#[case("/spec/preserveUnknownFields", json!(true), "spec.preserveUnknownFields: must be false: objects are pruned by their schema")]
#[case("/spec/scope", json!("Galaxy"), "spec.scope: unknown scope \"Galaxy\"")]
#[case("/spec/versions", json!([]), "spec.versions: must serve at least one version")]
#[case("/spec/versions/1/subresources", json!({ "status": {} }), "spec.versions[1].subresources: the subresources status and scale are not supported")]
#[case("/spec/versions/0/selectableFields", json!([{ "jsonPath": ".x" }]), "spec.versions[0].selectableFields: selectable fields are not supported")]
#[case("/spec/versions/2/schema", json!(null), "spec.versions[2].schema.openAPIV3Schema: Required value: schemas are required")]
#[case("/spec/versions/0/schema/openAPIV3Schema/properties/x/x-kubernetes-validations", json!([{ "rule": "true" }]), "spec.versions[0].schema.openAPIV3Schema.properties[x].x-kubernetes-validations: validation rules in CEL are not supported by this server")]
#[case("/spec/versions/0/schema/openAPIV3Schema/type", json!("array"), "spec.versions[0].schema.openAPIV3Schema.items: must be specified")]
#[case("/spec/versions/0/additionalPrinterColumns", json!([{ "name": "X", "type": "string", "jsonPath": "..x" }]), "spec.versions[0].additionalPrinterColumns: \"..x\" is not a JSONPath that printer columns support: recursive descent (..) is not supported")]
fn what_cannot_be_served_is_refused_by_name(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] message: &str,
) {
    assert_eq!(define(&changed(pointer, value)).unwrap_err(), message);
}

#[test]
fn conversion_none_is_taken() {
    define(&changed("/spec/conversion", json!({ "strategy": "None" }))).unwrap();
}

#[test]
fn what_is_stored_comes_back_equal_in_all_that_counts() {
    for resource in catalog::resources() {
        let definition = ResourceDefinition::from_crd(&catalog::to_crd(resource).unwrap()).unwrap();
        let text = serde_json::to_string(&definition).unwrap();
        let back: ResourceDefinition = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
        let broken = json!({ "results": "none", "summary": { "pass": "many" }, "spec": 1 });
        for (before, after) in definition.versions.iter().zip(&back.versions) {
            assert_eq!(
                after.schema.validate(&broken),
                before.schema.validate(&broken)
            );
            assert!(!after.schema.validate(&broken).is_empty());
        }
    }
}

#[test]
fn a_stored_schema_that_cannot_be_used_is_refused() {
    let mut stored = serde_json::to_value(define(&crd()).unwrap()).unwrap();
    stored["versions"][0]["openApi"]["properties"]["x"]["format"] = "email".into();
    let error = serde_json::from_value::<ResourceDefinition>(stored)
        .unwrap_err()
        .to_string();
    let expected = "versions[v1].openApi: properties[x].format: the format \"email\" is not supported by this server";
    assert_eq!(error, expected);
}
