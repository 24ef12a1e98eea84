//! The file-based catalog that offers the bundle.

use serde_json::{Map, Value, json};

use super::bundle::HEADER;
use super::csv::{Csv, icon, related_images};
use super::release::{self, Edge};
use crate::manifests::place::Place;

/// Fields of a `ClusterServiceVersion`'s specification that a catalog tells consoles.
const TOLD: [&str; 9] = [
    "description",
    "displayName",
    "installModes",
    "keywords",
    "links",
    "maintainers",
    "maturity",
    "minKubeVersion",
    "provider",
];

/// Fields of an owned CRD that it tells.
const TOLD_OF_CRDS: [&str; 5] = ["description", "displayName", "kind", "name", "version"];

/// Folder of the catalog in its image.
pub(super) const FOLDER: &str = "/configs";
/// Label of an image that has a catalog, with its folder there.
const LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// Returns what a builder makes the image of the catalog from, in the folder that has the catalog.
pub(super) fn containerfile() -> String {
    format!("{HEADER}FROM scratch\nLABEL {LABEL}={FOLDER}\nCOPY catalog {FOLDER}/\n")
}

/// Returns the blobs of the catalog: package, channel and bundle.
pub(super) fn catalog(place: &Place, csv: &Csv) -> Vec<Value> {
    let name = release::bundle_name();
    vec![
        json!({
            "schema": "olm.package",
            "name": release::PACKAGE,
            "defaultChannel": release::CHANNEL,
            "description": csv.object["spec"]["description"],
            "icon": icon(),
        }),
        json!({
            "schema": "olm.channel",
            "name": release::CHANNEL,
            "package": release::PACKAGE,
            "entries": [entry(release::edge().as_ref())],
        }),
        json!({
            "schema": "olm.bundle",
            "name": name,
            "package": release::PACKAGE,
            "image": release::bundle_image(place),
            "properties": properties(&csv.object),
            "relatedImages": images(place),
        }),
    ]
}

/// Returns the bundle's entry in the channel, with what it is an upgrade of.
pub(super) fn entry(edge: Option<&Edge>) -> Value {
    let mut entry = json!({"name": release::bundle_name()});
    if let Some(edge) = edge {
        entry["replaces"] = json!(edge.replaces);
        entry["skipRange"] = json!(edge.skip_range);
    }
    entry
}

/// Returns the properties of the bundle, as `opm render` writes them: the APIs that it provides, its
/// package, and what consoles show.
fn properties(csv: &Value) -> Vec<Value> {
    let owned = csv["spec"]["customresourcedefinitions"]["owned"].as_array();
    let owned = owned.into_iter().flatten();
    let mut properties: Vec<Value> = owned
        .map(|crd| {
            let name = crd["name"].as_str().unwrap_or_default();
            let group = name.split_once('.').map_or("", |(_, group)| group);
            let value = json!({"group": group, "kind": crd["kind"], "version": crd["version"]});
            json!({"type": "olm.gvk", "value": value})
        })
        .collect();
    let package = json!({"packageName": release::PACKAGE, "version": release::VERSION});
    properties.push(json!({"type": "olm.package", "value": package}));
    properties.push(json!({"type": "olm.csv.metadata", "value": metadata(csv)}));
    properties
}

fn metadata(csv: &Value) -> Value {
    let mut told = part(&csv["spec"], &TOLD);
    let owned = csv["spec"]["customresourcedefinitions"]["owned"].as_array();
    let owned = owned.into_iter().flatten();
    let owned: Vec<Value> = owned
        .map(|crd| Value::Object(part(crd, &TOLD_OF_CRDS)))
        .collect();
    for (key, value) in [
        ("annotations", csv["metadata"]["annotations"].clone()),
        ("labels", csv["metadata"]["labels"].clone()),
        ("apiServiceDefinitions", json!({})),
        ("crdDescriptions", json!({"owned": owned})),
    ] {
        told.insert(key.to_owned(), value);
    }
    Value::Object(told)
}

/// Returns some fields of an object.
fn part(object: &Value, fields: &[&str]) -> Map<String, Value> {
    let fields = fields.iter();
    fields
        .map(|field| ((*field).to_owned(), object[*field].clone()))
        .collect()
}

/// Returns all images of the release, that of its bundle included, in the order of `opm render`.
fn images(place: &Place) -> Vec<Value> {
    let mut images = related_images(place);
    images.push(json!({"name": "", "image": release::bundle_image(place)}));
    images.sort_by_key(|image| image["image"].as_str().unwrap_or_default().to_owned());
    images
}
