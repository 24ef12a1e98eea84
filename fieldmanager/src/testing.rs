//! A kind with every sort of field, for tests.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{Duplicates, FieldManager, Schema, Typed, Versions};

/// `apiVersion` of the kind.
pub(crate) const VERSION: &str = "example.org/v1";

pub(crate) fn openapi() -> Value {
    let string = json!({"type": "string"});
    let ports = json!({
        "type": "object",
        "properties": {
            "port": {"type": "integer"},
            "protocol": {"type": "string", "default": "TCP"},
            "name": string,
            "tags": {"type": "array", "items": string, "x-kubernetes-list-type": "set"},
        },
    });
    json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "text": string,
                    "number": {"type": "integer"},
                    "flag": {"type": "boolean"},
                    "map": {"type": "object", "additionalProperties": string},
                    "maps": {
                        "type": "object",
                        "additionalProperties": {"type": "object", "additionalProperties": string},
                    },
                    "set": {"type": "array", "items": string, "x-kubernetes-list-type": "set"},
                    "ports": {
                        "type": "array",
                        "items": ports,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                    },
                    "atomicList": {"type": "array", "items": string},
                    "atomicMap": {
                        "type": "object",
                        "additionalProperties": string,
                        "x-kubernetes-map-type": "atomic",
                    },
                    "any": {"x-kubernetes-preserve-unknown-fields": true},
                    "intOrString": {"x-kubernetes-int-or-string": true},
                    "template": {
                        "type": "object",
                        "x-kubernetes-embedded-resource": true,
                        "x-kubernetes-preserve-unknown-fields": true,
                    },
                },
            },
        },
    })
}

pub(crate) fn schema() -> Schema {
    Schema::from_openapi(&openapi()).unwrap()
}

pub(crate) fn field_manager() -> FieldManager {
    let versions = Versions::single(VERSION, schema());
    FieldManager::new(Arc::new(versions), VERSION, "Thing", "")
}

/// Returns an object with this `spec`, as a client sends it.
pub(crate) fn object(spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": VERSION,
        "kind": "Thing",
        "metadata": {"name": "a", "namespace": "ns"},
    });
    if !spec.is_null() {
        object["spec"] = spec;
    }
    object
}

pub(crate) fn typed(value: &Value) -> Typed<'static> {
    Typed::new(Cow::Owned(value.clone()), &schema(), Duplicates::Allowed).unwrap()
}

/// Returns noon, `seconds` later.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_268_800 + seconds).unwrap()
}

/// Returns an object as a store returns it: it has a uid.
pub(crate) fn stored(mut object: Value) -> Value {
    object["metadata"]["uid"] = json!("u-1");
    object
}

fn word() -> impl Strategy<Value = String> {
    "[a-c]".prop_map(String::from)
}

fn words() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-d]", word(), 1..3).prop_map(|words| json!(words))
}

fn set() -> impl Strategy<Value = Value> {
    prop::collection::btree_set("[a-d]", 1..4)
        .prop_map(|items| items.into_iter().collect::<Vec<_>>())
        .prop_shuffle()
        .prop_map(|items| json!(items))
}

fn port() -> impl Strategy<Value = Value> {
    (1..4_i64, prop::option::of(word()), prop::option::of(set())).prop_map(|(port, name, tags)| {
        let mut item = json!({"port": port, "protocol": "TCP"});
        if let Some(name) = name {
            item["name"] = json!(name);
        }
        if let Some(tags) = tags {
            item["tags"] = tags;
        }
        item
    })
}

fn ports() -> impl Strategy<Value = Value> {
    prop::collection::vec(port(), 1..4).prop_map(|mut items| {
        let mut seen = Vec::new();
        items.retain(|item| {
            let is_new = !seen.contains(&item["port"]);
            seen.push(item["port"].clone());
            is_new
        });
        json!(items)
    })
}

/// Returns a `spec` that conforms to the schema, without repeated items, and without empty values:
/// an empty value that was applied and is applied again is at first null, and then empty, as in
/// Kubernetes.
pub(crate) fn spec() -> impl Strategy<Value = Value> {
    let fields = [
        ("number", (0..3_i64).prop_map(Value::from).boxed()),
        ("map", words().boxed()),
        (
            "maps",
            words().prop_map(|below| json!({"x": below})).boxed(),
        ),
        ("set", set().boxed()),
        ("ports", ports().boxed()),
        ("atomicList", set().boxed()),
        ("atomicMap", words().boxed()),
        ("any", words().boxed()),
    ];
    let fields = fields.map(|(name, value)| {
        prop::option::of(value).prop_map(move |value| value.map(|value| (name.to_owned(), value)))
    });
    (fields, word()).prop_map(|(fields, text)| {
        let mut spec: Map<String, Value> = fields.into_iter().flatten().collect();
        spec.insert("text".to_owned(), json!(text));
        Value::Object(spec)
    })
}
