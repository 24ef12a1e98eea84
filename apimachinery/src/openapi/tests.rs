use std::collections::BTreeSet;

use crds::catalog;
use rstest::rstest;
use serde_json::{Value, json};

use super::OpenApi;
use crate::definition::ResourceDefinition;
use crate::meta_v1::object_meta_description;

fn definitions(groups: &[&str]) -> Vec<ResourceDefinition> {
    groups
        .iter()
        .flat_map(|group| catalog::group(group))
        .map(|resource| ResourceDefinition::from_crd(&catalog::to_crd(resource).unwrap()).unwrap())
        .collect()
}

fn document(group: &str, version: &str) -> Value {
    let open_api = OpenApi::new(&definitions(&[group])).unwrap();
    let document = &open_api.documents[&format!("apis/{group}/{version}")];
    serde_json::from_slice(&document.body).unwrap()
}

#[test]
fn the_index_points_to_each_document_by_its_hash() {
    let open_api = OpenApi::new(&definitions(&["wgpolicyk8s.io", "openreports.io"])).unwrap();
    let index: Value = serde_json::from_slice(&open_api.index.body).unwrap();
    let paths: Vec<&String> = index["paths"].as_object().unwrap().keys().collect();
    assert_eq!(
        paths,
        [
            "apis/openreports.io/v1alpha1",
            "apis/wgpolicyk8s.io/v1alpha2"
        ]
    );
    for (path, document) in &open_api.documents {
        let url = format!("/openapi/v3/{path}?hash={}", document.hash);
        assert_eq!(index["paths"][path]["serverRelativeURL"], url.as_str());
        assert_eq!(OpenApi::url(path, document), url);
    }
}

/// A path more or less than the CRD has could break `/openapi/v2` of the whole cluster, were these
/// documents converted to it.
#[test]
fn the_paths_are_those_of_the_crds() {
    let document = document("wgpolicyk8s.io", "v1alpha2");
    let paths: Vec<(&str, Vec<&str>)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(path, item)| {
            let methods = item.as_object().unwrap().keys().map(String::as_str);
            (
                path.as_str(),
                methods.filter(|method| *method != "parameters").collect(),
            )
        })
        .collect();
    assert_eq!(
        paths,
        [
            (
                "/apis/wgpolicyk8s.io/v1alpha2/clusterpolicyreports",
                vec!["delete", "get", "post"]
            ),
            (
                "/apis/wgpolicyk8s.io/v1alpha2/clusterpolicyreports/{name}",
                vec!["delete", "get", "patch", "put"]
            ),
            (
                "/apis/wgpolicyk8s.io/v1alpha2/namespaces/{namespace}/policyreports",
                vec!["delete", "get", "post"]
            ),
            (
                "/apis/wgpolicyk8s.io/v1alpha2/namespaces/{namespace}/policyreports/{name}",
                vec!["delete", "get", "patch", "put"]
            ),
            ("/apis/wgpolicyk8s.io/v1alpha2/policyreports", vec!["get"]),
        ]
    );
}

#[rstest]
#[case("", "get", "listWgpolicyk8sIoV1alpha2NamespacedPolicyReport", "list")]
#[case(
    "",
    "post",
    "createWgpolicyk8sIoV1alpha2NamespacedPolicyReport",
    "post"
)]
#[case(
    "",
    "delete",
    "deleteWgpolicyk8sIoV1alpha2CollectionNamespacedPolicyReport",
    "deletecollection"
)]
#[case(
    "/{name}",
    "get",
    "readWgpolicyk8sIoV1alpha2NamespacedPolicyReport",
    "get"
)]
#[case(
    "/{name}",
    "put",
    "replaceWgpolicyk8sIoV1alpha2NamespacedPolicyReport",
    "put"
)]
#[case(
    "/{name}",
    "delete",
    "deleteWgpolicyk8sIoV1alpha2NamespacedPolicyReport",
    "delete"
)]
#[case(
    "/{name}",
    "patch",
    "patchWgpolicyk8sIoV1alpha2NamespacedPolicyReport",
    "patch"
)]
fn operations_are_named_as_the_kube_apiserver_names_them(
    #[case] suffix: &str,
    #[case] method: &str,
    #[case] id: &str,
    #[case] action: &str,
) {
    let document = document("wgpolicyk8s.io", "v1alpha2");
    let path =
        format!("/apis/wgpolicyk8s.io/v1alpha2/namespaces/{{namespace}}/policyreports{suffix}");
    let operation = &document["paths"][&path][method];
    assert_eq!(operation["operationId"], id);
    assert_eq!(operation["x-kubernetes-action"], action);
    assert_eq!(operation["tags"], json!(["wgpolicyk8sIo_v1alpha2"]));
    let gvk = json!({ "group": "wgpolicyk8s.io", "version": "v1alpha2", "kind": "PolicyReport" });
    assert_eq!(operation["x-kubernetes-group-version-kind"], gvk);
}

#[test]
fn lists_over_all_namespaces_have_their_parameters_at_the_path() {
    let document = document("wgpolicyk8s.io", "v1alpha2");
    let item = &document["paths"]["/apis/wgpolicyk8s.io/v1alpha2/policyreports"];
    assert_eq!(
        item["get"]["operationId"],
        "listWgpolicyk8sIoV1alpha2PolicyReportForAllNamespaces"
    );
    assert_eq!(item["get"]["parameters"], Value::Null);
    let names: Vec<&str> = item["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"watch") && names.contains(&"pretty") && names.is_sorted());
}

/// kubectl looks for dryRun here to know whether the server can do it, and would send strategic
/// merge patches if they were declared.
#[test]
fn patches_declare_what_kubectl_looks_for() {
    let document = document("reports.kyverno.io", "v1");
    let item = "/apis/reports.kyverno.io/v1/clusterephemeralreports/{name}";
    let patch = &document["paths"][item]["patch"];
    let names: BTreeSet<&str> = patch["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        BTreeSet::from(["dryRun", "fieldManager", "fieldValidation", "force"])
    );
    let types: Vec<&String> = patch["requestBody"]["content"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(
        types,
        [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json"
        ]
    );
}

#[test]
fn all_references_lead_somewhere() {
    for group in [
        "wgpolicyk8s.io",
        "reports.kyverno.io",
        "openreports.io",
        "kyverno.io",
    ] {
        let open_api = OpenApi::new(&definitions(&[group])).unwrap();
        assert!(!open_api.documents.is_empty());
        for document in open_api.documents.values() {
            let document: Value = serde_json::from_slice(&document.body).unwrap();
            let mut references = BTreeSet::new();
            collect_references(&document, &mut references);
            assert!(references.len() > 5);
            for reference in references {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(
                    document.pointer(pointer).is_some(),
                    "{reference} leads nowhere"
                );
            }
        }
    }
}

fn collect_references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(
                fields
                    .get("$ref")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
            fields
                .values()
                .for_each(|value| collect_references(value, found));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|value| collect_references(value, found)),
        _ => {}
    }
}

#[test]
fn objects_and_lists_are_described() {
    let document = document("wgpolicyk8s.io", "v1alpha2");
    let schemas = &document["components"]["schemas"];
    let report = &schemas["io.wgpolicyk8s.v1alpha2.PolicyReport"];
    let gvk = json!([{ "group": "wgpolicyk8s.io", "version": "v1alpha2", "kind": "PolicyReport" }]);
    assert_eq!(report["x-kubernetes-group-version-kind"], gvk);
    assert_eq!(
        report["properties"]["results"]["items"]["properties"]["result"]["type"],
        "string"
    );
    assert_eq!(
        report["properties"]["metadata"]["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    assert!(report["properties"]["kind"]["description"].is_string());
    let list = &schemas["io.wgpolicyk8s.v1alpha2.PolicyReportList"];
    assert_eq!(list["required"], json!(["items"]));
    assert_eq!(
        list["properties"]["items"]["items"]["$ref"],
        "#/components/schemas/io.wgpolicyk8s.v1alpha2.PolicyReport"
    );
    let meta = &schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"];
    assert_eq!(
        meta["properties"]["ownerReferences"]["x-kubernetes-list-map-keys"],
        json!(["uid"])
    );
    assert_eq!(
        meta["properties"]["finalizers"]["x-kubernetes-list-type"],
        "set"
    );
    assert_eq!(
        meta["properties"]["name"]["description"],
        object_meta_description("name")
    );
    assert!(object_meta_description("name").starts_with("Name must be unique"));
    assert_eq!(object_meta_description("no such field"), "");
}

#[test]
fn int_or_string_and_embedded_objects_are_told_in_plain_openapi() {
    let mut definition = definitions(&["wgpolicyk8s.io"]).remove(0);
    let schema = json!({ "type": "object", "properties": {
        "plain": { "x-kubernetes-int-or-string": true },
        "patterned": { "x-kubernetes-int-or-string": true, "anyOf": [{ "pattern": "a" }], "allOf": [{ "pattern": "b" }] },
        "said": { "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] },
        "list": { "type": "array", "items": {
            "type": "object", "x-kubernetes-embedded-resource": true, "required": ["kind"],
            "x-kubernetes-preserve-unknown-fields": true,
        } },
    } });
    definition.versions[0].open_api = schema.into();
    let open_api = OpenApi::new([&definition]).unwrap();
    let document = open_api.documents.values().next().unwrap();
    let document: Value = serde_json::from_slice(&document.body).unwrap();
    let kind = definition.kind;
    let properties =
        &document["components"]["schemas"][format!("io.wgpolicyk8s.v1alpha2.{kind}")]["properties"];
    let both = json!([{ "type": "integer" }, { "type": "string" }]);
    assert_eq!(properties["plain"]["anyOf"], both);
    assert_eq!(properties["said"]["anyOf"], both);
    assert_eq!(properties["said"]["allOf"], Value::Null);
    assert_eq!(
        properties["patterned"]["allOf"],
        json!([{ "anyOf": both }, { "pattern": "b" }])
    );
    let embedded = &properties["list"]["items"];
    assert_eq!(embedded["required"], json!(["kind", "apiVersion"]));
    assert!(embedded["properties"]["metadata"]["allOf"].is_array());
    assert_eq!(embedded["properties"]["apiVersion"]["type"], "string");
}
