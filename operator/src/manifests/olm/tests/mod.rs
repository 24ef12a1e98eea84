//! The files for OLM, read back as its tools read them.

mod bundle;
mod catalog;
mod csv;

use std::collections::BTreeSet;

use serde::Deserialize as _;
use serde_json::Value;

use super::olm;
use crate::manifests::generated::examples;
use crate::manifests::installation::Files;

/// Registry of the tests with a mirror.
const MIRROR: &str = "mirror.example/policy";

/// Returns the files.
fn files() -> Files {
    olm(&examples(), None).unwrap()
}

/// Returns the documents of a file.
fn documents(files: &Files, path: &str) -> Vec<Value> {
    let documents = serde_yaml::Deserializer::from_str(&files[path]);
    let documents = documents.map(|document| Value::deserialize(document).unwrap());
    documents.filter(|document| !document.is_null()).collect()
}

/// Returns the objects of the bundle, by the paths of their files.
fn objects(files: &Files) -> Vec<(&str, Value)> {
    let paths = files.keys().map(String::as_str);
    let paths = paths.filter(|path| path.starts_with("bundle/manifests/"));
    paths
        .map(|path| {
            let mut documents = documents(files, path);
            assert_eq!(documents.len(), 1, "{path}: OLM reads one object a file");
            (path, documents.remove(0))
        })
        .collect()
}

/// Returns the `ClusterServiceVersion`.
fn service_version(files: &Files) -> Value {
    let path = "bundle/manifests/reports-server-operator.clusterserviceversion.yaml";
    documents(files, path).remove(0)
}

/// Returns a list.
fn list<'a>(value: &'a Value, pointer: &str) -> &'a Vec<Value> {
    let found = value.pointer(pointer).and_then(Value::as_array);
    found.unwrap_or_else(|| panic!("no list {pointer}"))
}

/// Returns a text that is not empty.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    let found = found.unwrap_or_else(|| panic!("no text {pointer}"));
    assert!(!found.is_empty(), "{pointer}");
    found
}

/// Returns an annotation.
fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    let key = key.replace('/', "~1");
    text(object, &format!("/metadata/annotations/{key}"))
}

/// Adds every image that containers run or variables name.
fn images(value: &Value, found: &mut BTreeSet<String>) {
    for container in value["containers"].as_array().into_iter().flatten() {
        found.insert(text(container, "/image").to_owned());
        for variable in container["env"].as_array().into_iter().flatten() {
            if text(variable, "/name").starts_with("RELATED_IMAGE_") {
                found.insert(text(variable, "/value").to_owned());
            }
        }
    }
}

/// Returns the images of a list of related images.
fn related(list: &[Value]) -> BTreeSet<String> {
    let images = list.iter().map(|image| text(image, "/image").to_owned());
    images.collect()
}
