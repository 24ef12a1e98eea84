//! Patches: merge patches, JSON patches, and malformed ones.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::objects::{self, Values, odd as odd_value};
use super::operations::{item, metadata, options};
use super::raw;
use crate::conform::target::Target;

const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json-patch+json";

/// Returns a merge patch: of content, of metadata, or of something else.
pub fn merge(contents: &Values) -> BoxedStrategy<Value> {
    let nulls = (contents.clone(), any::<Index>(), Just(Value::Null)).prop_map(objects::spoilt);
    let body = prop_oneof![
        3 => contents.clone(),
        2 => nulls,
        2 => metadata().prop_map(|metadata| json!({"metadata": metadata})),
        1 => odd_value(),
    ];
    (item(), body, options())
        .prop_map(|(item, body, query)| {
            let mut step = step(item, &query, MERGE);
            // A body of null would be none.
            let field = if body.is_null() { "bytes" } else { "body" };
            step[field] = if body.is_null() { json!("null") } else { body };
            step
        })
        .boxed()
}

fn step(item: &str, query: &str, kind: &str) -> Value {
    json!({"do": format!("PATCH ${{item {item}}}{query}"), "type": kind})
}

/// Returns a JSON patch of a few operations.
pub fn json(target: &Target) -> BoxedStrategy<Value> {
    (item(), vec(operation(target), 1..4), options())
        .prop_map(|(item, operations, query)| {
            let mut step = step(item, &query, JSON);
            step["body"] = json!(operations);
            step
        })
        .boxed()
}

fn operation(target: &Target) -> BoxedStrategy<Value> {
    let mut places = Vec::new();
    objects::pointers(&target.report("a"), "", &mut places);
    places.retain(|place| !place.starts_with("/metadata/name"));
    places.extend([
        "/nowhere".to_owned(),
        "/results/-".to_owned(),
        "/metadata/labels/in".into(),
    ]);
    let place = || select(places.clone());
    let with_value = |op: &'static str| {
        (place(), odd_value())
            .prop_map(move |(path, value)| json!({"op": op, "path": path, "value": value}))
    };
    let from = |op: &'static str| {
        (place(), place())
            .prop_map(move |(from, path)| json!({"op": op, "from": from, "path": path}))
    };
    prop_oneof![
        3 => with_value("add"),
        2 => with_value("replace"),
        2 => place().prop_map(|path| json!({"op": "remove", "path": path})),
        1 => with_value("test"),
        1 => from("copy"),
        1 => from("move"),
    ]
    .prop_filter("see the deviation `null-in-a-list-tested`", bears)
    .boxed()
}

/// Returns whether a kube-apiserver can process this operation.
fn bears(operation: &Value) -> bool {
    fn listed(value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().any(|item| item.is_null() || listed(item)),
            Value::Object(members) => members.values().any(listed),
            _ => false,
        }
    }
    operation["op"] != "test" || !listed(&operation["value"])
}

/// Returns a patch that is read carelessly or refused: lists in place of objects, bad syntax, and
/// operations with members that are missing, twice there or of another type.
pub fn odd(target: &Target, contents: &Values) -> BoxedStrategy<Value> {
    let strictness = select(vec![
        "?fieldValidation=Ignore",
        "?fieldValidation=Ignore",
        "?fieldValidation=Strict",
        "",
    ]);
    let written = |kind: &'static str, bytes: BoxedStrategy<String>| {
        (item(), bytes, strictness.clone())
            .prop_map(move |(item, bytes, query)| {
                let mut step = step(item, query, kind);
                step["bytes"] = json!(bytes);
                step
            })
            .boxed()
    };
    let operations = vec(operation(target), 1..3).prop_map(Value::from).boxed();
    let spoilt = (operations.clone(), any::<Index>(), odd_value()).prop_map(objects::spoilt);
    let misnamed = (operations.clone(), any::<Index>(), select(NAMES))
        .prop_map(|(patch, at, name)| misnamed(patch, |length| at.index(length), name));
    let spoilt = prop_oneof![spoilt, misnamed]
        .prop_filter("see the deviation `null-in-a-list-tested`", |patch| {
            patch.as_array().is_none_or(|all| all.iter().all(bears))
        });
    let spoilt = spoilt.prop_map(|patch| patch.to_string());
    let list = vec(prop_oneof![odd_value(), contents.clone()], 0..3);
    let list = list.prop_map(|items| Value::from(items).to_string());
    prop_oneof![
        2 => written(JSON, raw::bytes(operations, raw::WAYS)),
        2 => written(JSON, spoilt.boxed()),
        1 => written(MERGE, list.boxed()),
        1 => written(MERGE, raw::bytes(contents.clone(), raw::WAYS)),
    ]
    .boxed()
}

/// Names of members of an operation in place of the right ones.
const NAMES: &[&str] = &["OP", "Path", "From", "VALUE", "note", "op", "path", "value"];

/// Returns an operation, one of whose members has another name.
fn misnamed(mut patch: Value, at: impl Fn(usize) -> usize, name: &str) -> Value {
    if let Some(Value::Object(operation)) = patch.get_mut(0)
        && !operation.is_empty()
    {
        let former = operation.keys().nth(at(operation.len())).cloned();
        if let Some(value) = former.and_then(|former| operation.remove(&former)) {
            operation.insert(name.to_owned(), value);
        }
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_test_of_null_in_a_list_is_too_much() {
        let of = |op: &str, value: Value| bears(&json!({"op": op, "path": "/a", "value": value}));
        assert!(!of("test", json!({"a": [1, [null]]})));
        assert!(of("add", json!([null])));
        assert!(of("test", json!([{"a": null}])));
    }

    #[test]
    fn a_member_gets_another_name() {
        let patch = json!([{"op": "remove", "path": "/a"}, {}]);
        let renamed = misnamed(patch, |_| 0, "OP");
        assert_eq!(renamed, json!([{"OP": "remove", "path": "/a"}, {}]));
    }
}
