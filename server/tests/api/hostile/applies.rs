//! Owners of as many fields as there is room for.

use serde_json::{Value, json};

use super::target::Target;
use crate::harness::*;

const APPLY: &str = "application/apply-patch+yaml";

fn config(name: &str, value: &str) -> Vec<u8> {
    let pairs = (0..10_000).map(|index| (format!("k{index}"), json!(value)));
    let mut object = report(name);
    object["metadata"]["annotations"] = Value::Object(pairs.collect());
    object.to_string().into_bytes()
}

/// Applied against each other, until the annotations or their owners are too large.
#[tokio::test]
async fn applies_that_cost() {
    let target = Target::start().await;
    for (manager, query, value, codes) in [
        ("first", "", "a", &[201][..]),
        ("second", "", "b", &[409]),
        ("second", "&force=true", "b", &[200]),
        ("third", "", "b", &[200]),
        ("first", "&force=true", "a", &[200]),
    ] {
        let uri = format!("{REPORTS}/a?fieldManager={manager}{query}");
        target
            .expect(codes, ("PATCH", &uri, APPLY), &config("a", value))
            .await;
    }
}

/// Many managers of many fields.
#[tokio::test]
async fn managers_without_end() {
    let target = Target::start().await;
    for manager in 0..12 {
        let uri = format!("{REPORTS}/a?fieldManager=m{manager}&force=true");
        let codes = &[200, 201, 413, 422];
        target
            .expect(
                codes,
                ("PATCH", &uri, APPLY),
                &config("a", &manager.to_string()),
            )
            .await;
    }
    target.get(&format!("{REPORTS}/a"), 200).await;
}

/// Owners that a client makes up: deep, many, and of nothing.
#[tokio::test]
async fn owners_that_are_made_up() {
    let target = Target::start().await;
    let entry = |fields: Value| {
        json!({"manager": "m", "operation": "Update", "apiVersion": "wgpolicyk8s.io/v1alpha2",
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    };
    let deep = (0..100).fold(json!({}), |below, _| json!({"f:a": below}));
    let wide: serde_json::Map<_, _> = (0..150_000)
        .map(|n| (format!("f:a{n}"), json!({})))
        .collect();
    let items: serde_json::Map<_, _> = (0..60_000)
        .map(|n| (format!("k:{{\"a\":{n}}}"), json!({})))
        .collect();
    for (name, entries) in [
        ("deep", vec![entry(deep)]),
        ("wide", vec![entry(Value::Object(wide))]),
        ("items", vec![entry(json!({"f:results": items}))]),
        (
            "many",
            (0..10_000).map(|_| entry(json!({"f:a": {}}))).collect(),
        ),
    ] {
        let mut object = report(name);
        object["metadata"]["managedFields"] = Value::from(entries);
        let body = object.to_string();
        let to = ("POST", REPORTS, "application/json");
        target.expect(&[201], to, body.as_bytes()).await;
        let uri = format!("{REPORTS}/{name}?fieldManager=n&force=true");
        let config = report(name).to_string();
        target
            .expect(&[200], ("PATCH", &uri, APPLY), config.as_bytes())
            .await;
    }
}
