//! Objects of an installation, compared but for what belongs to a way of installing.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize as _;
use serde_json::{Map, Value};

/// Labels that Helm's charts put on each object.
const OF_HELM: [&str; 4] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
];
/// Kinds of the cluster that kustomize takes for kinds of a namespace; the kube-apiserver drops the
/// namespace.
const OF_CLUSTER: [&str; 2] = [
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// Objects by kind, namespace and name.
#[derive(Debug, PartialEq)]
pub struct Objects(BTreeMap<String, Value>);

impl Objects {
    /// Returns the objects without what belongs to a way of installing.
    pub fn of(objects: &[Value]) -> Self {
        let named = objects.iter().map(|object| {
            let object = plain(object.clone());
            let metadata = &object["metadata"];
            let key = format!(
                "{} {} {}",
                object["kind"], metadata["namespace"], metadata["name"]
            );
            (key, object)
        });
        let all: BTreeMap<String, Value> = named.collect();
        assert_eq!(all.len(), objects.len(), "each object is there once");
        Self(all)
    }
}

fn plain(mut object: Value) -> Value {
    whole_numbers(&mut object);
    let of_cluster = OF_CLUSTER.contains(&object["kind"].as_str().unwrap_or_default());
    if let Some(metadata) = object["metadata"].as_object_mut() {
        if of_cluster {
            metadata.remove("namespace");
        }
        without(metadata, "labels", |key| OF_HELM.contains(&key));
        without(metadata, "annotations", |key| key.starts_with("helm.sh/"));
    }
    object
}

/// Replaces `1.0` with `1`: a tool may write a whole number either way, and the kube-apiserver reads
/// both as one.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(members) => members.values_mut().for_each(whole_numbers),
        Value::Number(number) if number.is_f64() => {
            if let Ok(whole) = format!("{}", number.as_f64().unwrap()).parse::<i64>() {
                *value = whole.into();
            }
        }
        _ => {}
    }
}

/// Removes entries of a map by their keys, and the map when it is empty then.
fn without(metadata: &mut Map<String, Value>, name: &str, gone: impl Fn(&str) -> bool) {
    if let Some(Value::Object(map)) = metadata.get_mut(name) {
        map.retain(|key, _| !gone(key));
        if map.is_empty() {
            metadata.remove(name);
        }
    }
}

/// Returns the objects of a YAML stream.
pub fn parse(text: &str) -> Vec<Value> {
    let documents = serde_yaml::Deserializer::from_str(text);
    let objects = documents.map(|document| Value::deserialize(document).unwrap());
    objects.filter(|object| !object.is_null()).collect()
}

/// Returns the objects of a kind.
pub fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let found = objects.iter().filter(|object| object["kind"] == kind);
    found.collect()
}

/// Returns the objects with a text replaced wherever it is.
pub fn replaced(objects: &[Value], from: &str, to: &str) -> Vec<Value> {
    let text = serde_json::to_string(objects).unwrap();
    assert!(text.contains(from), "{from}");
    serde_json::from_str(&text.replace(from, to)).unwrap()
}

/// Returns every image: of containers, and in variables that name images.
pub fn images(objects: &[Value]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for object in objects {
        collect(object, &mut all);
    }
    all
}

fn collect(value: &Value, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            let name = map.get("name").and_then(Value::as_str).unwrap_or_default();
            for (key, inner) in map {
                let of_variable = key == "value" && name.starts_with("RELATED_IMAGE_");
                match inner {
                    Value::String(image) if key == "image" || of_variable => {
                        all.insert(image.clone());
                    }
                    inner => collect(inner, all),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, all)),
        _ => {}
    }
}
