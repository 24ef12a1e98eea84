//! Two schemas of one version of `ReportsServer`, compared, and the part of a value that a schema
//! takes.

use crds::v1alpha1::ReportsServer;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use serde_json::{Map, Value};

/// The parts of a `ReportsServer` that have a schema of ours.
const PARTS: [&str; 2] = ["spec", "status"];
/// Key of a schema that takes every field.
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";
/// Keys of the schemas of what has no name, with its mark in a path: items of lists, entries of maps.
const UNNAMED: [(&str, &str); 2] = [("items", "[]"), ("additionalProperties", "{}")];

/// Returns the schema of the operator's version of `ReportsServer`; none where the CRD does not serve
/// this version.
#[must_use]
pub fn of(crd: &CustomResourceDefinition) -> Option<Value> {
    let wanted = ReportsServer::version(&());
    let mut versions = crd.spec.versions.iter();
    let version = versions.find(|version| version.name == *wanted && version.served)?;
    let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    serde_json::to_value(schema).ok()
}

/// Returns the paths of the fields that `own` has and `installed` has not, without those below them,
/// and as `PATH=VALUE` the values of enumerations.
#[must_use]
pub fn missing(own: &Value, installed: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for part in PARTS {
        let (own, installed) = (&own["properties"][part], &installed["properties"][part]);
        compare(part, own, installed, &mut found);
    }
    found
}

fn compare(path: &str, own: &Value, installed: &Value, found: &mut Vec<String>) {
    if is_open(installed) {
        return;
    }
    let values = own["enum"].as_array().into_iter().flatten();
    let unknown = values.filter(|value| !allows(installed, value));
    found.extend(unknown.map(|value| format!("{path}={value}")));
    for (name, own) in own["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match field(installed, name) {
            Some(installed) => compare(&path, own, installed, found),
            None => found.push(path),
        }
    }
    for (key, mark) in UNNAMED {
        let (own, installed) = (&own[key], &installed[key]);
        if own.is_object() && installed.is_object() {
            compare(&format!("{path}{mark}"), own, installed, found);
        }
    }
}

/// Returns the part of a value that a schema takes. Nothing is left of a value that an enumeration
/// does not have, nor of an object without a field that it must have.
#[must_use]
pub fn taken(value: Value, schema: &Value) -> Option<Value> {
    if is_open(schema) {
        return Some(value);
    }
    if !allows(schema, &value) {
        return None;
    }
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter_map(|(name, value)| {
                let value = taken(value, field(schema, &name)?)?;
                Some((name, value))
            });
            let fields: Map<String, Value> = fields.collect();
            let required = schema["required"].as_array().into_iter().flatten();
            let mut required = required.filter_map(Value::as_str);
            let is_whole = required.all(|name| fields.contains_key(name));
            is_whole.then_some(Value::Object(fields))
        }
        Value::Array(items) => {
            let items = items.into_iter();
            let items = items.filter_map(|item| taken(item, &schema["items"]));
            Some(Value::Array(items.collect()))
        }
        single => Some(single),
    }
}

/// Returns whether a schema takes fields that it does not name.
fn is_open(schema: &Value) -> bool {
    *schema == Value::Bool(true) || schema[OPEN] == Value::Bool(true)
}

/// Returns whether a value is one of the schema's enumeration, where it has one.
fn allows(schema: &Value, value: &Value) -> bool {
    let allowed = schema["enum"].as_array();
    allowed.is_none_or(|allowed| allowed.contains(value))
}

/// Returns the schema of a field, or of an entry of this name.
fn field<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let named = schema["properties"].get(name);
    let entries = schema.get("additionalProperties");
    named.or(entries.filter(|entries| **entries != Value::Bool(false)))
}
