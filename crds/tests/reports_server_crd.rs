//! The published CRD as a user sees it, and as the kube-apiserver and the clients need it.
#![expect(
    clippy::unwrap_used,
    reason = "clippy takes helpers outside #[test] functions for production code"
)]

use crds::names;
use crds::v1alpha1::{ReportsServer, reports_server_crd};
use kube::Resource as _;
use serde_json::{Value, json};

fn crd() -> Value {
    serde_json::to_value(reports_server_crd().unwrap()).unwrap()
}

fn schema() -> Value {
    crd()
        .pointer("/spec/versions/0/schema/openAPIV3Schema")
        .unwrap()
        .clone()
}

/// Calls `visit` with the path and the schema of every field.
fn walk(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        walk(child, &format!("{path}.{name}"), visit);
    }
    for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            walk(&schema[key], &format!("{path}{suffix}"), visit);
        }
    }
}

/// Fields that have the shape of a Pod's; their schema is that of Kubernetes.
fn is_kubernetes_own(path: &str) -> bool {
    [
        "affinity",
        "tolerations",
        "topologySpreadConstraints",
        "resources",
    ]
    .iter()
    .any(|name| path.split(['.', '[', '{']).any(|part| part == *name))
        && path.starts_with(".spec")
}

#[test]
fn group_and_names_are_those_of_the_constants() {
    assert_eq!(ReportsServer::group(&()), names::API_GROUP);
    assert_eq!(ReportsServer::plural(&()), "reportsservers");
    assert_eq!(
        crd()["metadata"]["name"],
        "reportsservers.reports-server.io"
    );
}

#[test]
fn names_columns_and_subresources() {
    let crd = crd();
    let version = &crd["spec"]["versions"][0];
    insta::assert_yaml_snapshot!(json!({
        "names": crd["spec"]["names"],
        "scope": crd["spec"]["scope"],
        "version": version["name"],
        "subresources": version["subresources"],
        "columns": version["additionalPrinterColumns"],
    }));
}

#[test]
fn fields() {
    let mut lines = Vec::new();
    walk(&schema(), "", &mut |path, field| {
        if !is_kubernetes_own(path) {
            let values = field["enum"]
                .as_array()
                .map(|values| json!(values).to_string());
            let type_ = field["type"].as_str().unwrap_or("?");
            lines.push(
                format!("{path} {type_} {}", values.unwrap_or_default())
                    .trim()
                    .to_owned(),
            );
        }
    });
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn every_text_list_and_map_of_ours_is_bounded() {
    let mut unbounded = Vec::new();
    walk(&schema(), "", &mut |path, field| {
        let missing = match field["type"].as_str() {
            Some("string") => {
                field["maxLength"].is_null() && field["enum"].is_null() && field["format"].is_null()
            }
            Some("array") => field["maxItems"].is_null(),
            Some("object") => {
                field["additionalProperties"].is_object() && field["maxProperties"].is_null()
            }
            _ => false,
        };
        let top_level = [".apiVersion", ".kind", ".metadata"].contains(&path);
        if missing && !top_level && !is_kubernetes_own(path) {
            unbounded.push(path.to_owned());
        }
    });
    assert_eq!(unbounded, Vec::<String>::new());
}

#[test]
fn nothing_is_nullable_defaulted_or_of_a_format_that_kubernetes_does_not_know() {
    let mut found = Vec::new();
    walk(&schema(), "", &mut |path, field| {
        let null_value = field["enum"]
            .as_array()
            .is_some_and(|values| values.iter().any(Value::is_null));
        let format = field["format"].as_str().unwrap_or("int32");
        let known = ["int32", "int64", "date-time"].contains(&format);
        if field.get("nullable").is_some() || field.get("default").is_some() || null_value || !known
        {
            found.push(path.to_owned());
        }
    });
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn every_field_is_structural_and_described() {
    let mut found = Vec::new();
    walk(&schema(), "", &mut |path, field| {
        let typed = field["type"].is_string() || field["x-kubernetes-int-or-string"] == true;
        let described = field["description"]
            .as_str()
            .is_some_and(|text| !text.is_empty());
        let anonymous = path.ends_with(']') || path.ends_with('}') || path.is_empty();
        let exempt = anonymous
            || [".apiVersion", ".kind", ".metadata"].contains(&path)
            || is_kubernetes_own(path);
        if !typed || !(described || exempt) {
            found.push(path.to_owned());
        }
    });
    assert_eq!(found, Vec::<String>::new());
}

/// `kubectl apply` keeps the whole object in an annotation of at most 262144 bytes.
#[test]
fn client_side_apply_can_take_the_crd() {
    assert!(
        crd().to_string().len() < 200_000,
        "{} bytes",
        crd().to_string().len()
    );
}

#[test]
fn lists_that_several_writers_share_are_maps() {
    let schema = schema();
    for (path, keys) in [
        ("/properties/spec/properties/apis", json!(["group"])),
        ("/properties/status/properties/conditions", json!(["type"])),
        ("/properties/status/properties/apis", json!(["name"])),
        (
            "/properties/status/properties/migration/properties/groups",
            json!(["group"]),
        ),
        (
            "/properties/status/properties/migration/properties/resources",
            json!(["group", "resource"]),
        ),
    ] {
        let list = schema.pointer(path).unwrap_or_else(|| panic!("no {path}"));
        assert_eq!(list["x-kubernetes-list-type"], "map", "{path}");
        assert_eq!(list["x-kubernetes-list-map-keys"], keys, "{path}");
    }
}
