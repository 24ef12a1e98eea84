//! The catalog, and the request to a cluster.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{MIRROR, documents, examples, files, list, olm, related, service_version, text};
use crate::manifests::installation::Files;
use crate::manifests::olm::catalog::entry;
use crate::manifests::olm::release;
use crate::names::OPERATOR_NAMESPACE;

/// Returns the blob of a schema.
fn blob(files: &Files, schema: &str) -> Value {
    let blobs = documents(files, "catalog/catalog.yaml").into_iter();
    let mut blobs: Vec<Value> = blobs.filter(|blob| blob["schema"] == schema).collect();
    assert_eq!(blobs.len(), 1, "{schema}");
    blobs.remove(0)
}

/// Opm reads what comes before a separator as a blob.
#[test]
fn every_part_of_the_catalog_has_a_schema() {
    let files = files();
    for part in files["catalog/catalog.yaml"].split("\n---\n") {
        assert!(part.contains("\nschema: olm."), "{part}");
    }
}

#[test]
fn the_channel_offers_the_bundle_to_the_release_before() {
    let files = files();
    let version = service_version(&files);
    let package = blob(&files, "olm.package");
    let channel = blob(&files, "olm.channel");
    let bundle = blob(&files, "olm.bundle");
    assert_eq!(package["defaultChannel"], channel["name"]);
    for part in [&channel, &bundle] {
        assert_eq!(part["package"], package["name"]);
    }
    let entries = list(&channel, "/entries");
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["name"], bundle["name"]);
    assert_eq!(bundle["name"], version["metadata"]["name"]);
    let edge = release::edge();
    assert_eq!(entries[0], entry(edge.as_ref()));
    let annotations = &version["metadata"]["annotations"];
    let range = edge.as_ref().map(|edge| json!(edge.skip_range));
    assert_eq!(annotations.get("olm.skipRange"), range.as_ref());
    let replaces = edge.map(|edge| json!(edge.replaces));
    assert_eq!(version["spec"].get("replaces"), replaces.as_ref());
    assert_eq!(package["icon"], version["spec"]["icon"][0]);
}

/// Operators of one release run servers of the one before, and no older ones.
#[test]
fn an_edge_leads_from_the_release_before_alone() {
    let edge = release::Edge {
        replaces: "reports-server-operator.v0.0.9".to_owned(),
        skip_range: ">=0.0.9 <0.1.0".to_owned(),
    };
    let upgrade = entry(Some(&edge));
    assert_eq!(upgrade["replaces"], "reports-server-operator.v0.0.9");
    assert_eq!(upgrade["skipRange"], ">=0.0.9 <0.1.0");
    let first = entry(None);
    assert_eq!(first, json!({"name": release::bundle_name()}));
}

/// OLM v1 installs no bundle that requires others.
#[test]
fn the_bundle_provides_and_requires_nothing() {
    let files = files();
    let bundle = blob(&files, "olm.bundle");
    let properties = list(&bundle, "/properties");
    let types: Vec<&str> = properties.iter().map(|one| text(one, "/type")).collect();
    assert_eq!(types, ["olm.gvk", "olm.package", "olm.csv.metadata"]);
    let provided = &properties[0]["value"];
    assert_eq!(provided["group"], "reports-server.io");
    assert_eq!(provided["kind"], "ReportsServer");
    assert_eq!(provided["version"], "v1alpha1");
    let shown = &properties[2]["value"];
    let version = service_version(&files);
    assert_eq!(shown["annotations"], version["metadata"]["annotations"]);
    for field in [
        "description",
        "displayName",
        "installModes",
        "minKubeVersion",
    ] {
        assert_eq!(shown[field], version["spec"][field], "{field}");
    }
}

#[test]
fn every_image_of_the_release_is_listed() {
    for registry in [None, Some(MIRROR)] {
        let files = olm(&examples(), registry).unwrap();
        let bundle = blob(&files, "olm.bundle");
        let version = service_version(&files);
        let mut expected = related(list(&version, "/spec/relatedImages"));
        expected.insert(text(&bundle, "/image").to_owned());
        let images: Vec<&str> = list(&bundle, "/relatedImages")
            .iter()
            .map(|image| text(image, "/image"))
            .collect();
        assert!(images.is_sorted(), "{images:?}");
        let images: BTreeSet<String> = images.into_iter().map(str::to_owned).collect();
        assert_eq!(images, expected);
    }
}

/// Returns the object of a kind.
fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let found = objects.iter().find(|object| object["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}"))
}

#[test]
fn a_cluster_is_asked_for_what_the_catalog_offers() {
    let files = files();
    let request = documents(&files, "subscription.yaml");
    for object in &request {
        assert_eq!(object["metadata"]["namespace"], OPERATOR_NAMESPACE);
    }
    let channel = blob(&files, "olm.channel");
    let subscription = &of_kind(&request, "Subscription")["spec"];
    assert_eq!(subscription["name"], channel["package"]);
    assert_eq!(subscription["channel"], channel["name"]);
    let source = of_kind(&request, "CatalogSource");
    assert_eq!(subscription["source"], source["metadata"]["name"]);
    let image = text(source, "/spec/image");
    let bundle = blob(&files, "olm.bundle");
    assert_eq!(
        image.replace("-catalog:", "-bundle:"),
        text(&bundle, "/image")
    );
    // For all namespaces: no selector.
    assert_eq!(of_kind(&request, "OperatorGroup")["spec"], json!({}));
}

/// OLM v0 serves the folder of the image by its own program, OLM v1 finds it by the label.
#[test]
fn the_image_of_the_catalog_has_nothing_but_the_catalog() {
    let files = files();
    let image = &files["catalog.Containerfile"];
    let request = documents(&files, "subscription.yaml");
    let pod = &of_kind(&request, "CatalogSource")["spec"]["grpcPodConfig"];
    let folder = text(pod, "/extractContent/catalogDir");
    let label = format!("LABEL operators.operatorframework.io.index.configs.v1={folder}\n");
    assert!(image.contains("FROM scratch\n"), "{image}");
    assert!(image.contains(&label), "{image}");
    let copy = format!("COPY catalog {folder}/\n");
    assert!(image.ends_with(&copy), "{image}");
}
