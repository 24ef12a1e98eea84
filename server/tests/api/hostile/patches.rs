//! JSON patches of ten thousand operations, each as dear as it can be, and merge patches.

use rstest::rstest;
use serde_json::{Value, json};

use super::target::{Target, head};
use crate::harness::*;

const PATCH: &str = "application/json-patch+json";

fn operations(count: usize, operation: impl Fn(usize) -> Value) -> Vec<u8> {
    let all: Vec<Value> = (0..count).map(operation).collect();
    Value::from(all).to_string().into_bytes()
}

/// A report as large as it may be.
async fn with_a_large_report() -> Target {
    let target = Target::start().await;
    let mut large = report("a");
    large["results"] = Value::from(vec![json!({"policy": "p".repeat(100)}); 24_000]);
    let body = large.to_string();
    let to = ("POST", REPORTS, "application/json");
    target.expect(&[201], to, body.as_bytes()).await;
    target
}

#[rstest]
#[case::in_front(422, |_| json!({"op": "add", "path": "/results/0", "value": {"policy": "p"}}))]
#[case::out_of_the_front(422, |_| json!({"op": "remove", "path": "/results/0"}))]
#[case::to_and_fro(422, |index| match index % 2 {
    0 => json!({"op": "move", "from": "/results", "path": "/metadata/x"}),
    _ => json!({"op": "move", "from": "/metadata/x", "path": "/results"}),
})]
#[case::tests(422, |_| json!({"op": "test", "path": "/results", "value": []}))]
#[case::tests_of_one(200, |_| json!({"op": "test", "path": "/results/20000/policy", "value": "p".repeat(100)}))]
#[case::tests_of_all(422, |_| json!({"op": "test", "path": "", "value": {}}))]
#[case::copies(422, |_| json!({"op": "copy", "from": "/results", "path": "/metadata/x"}))]
#[case::doubling(422, |_| json!({"op": "copy", "from": "/results", "path": "/results/-"}))]
#[case::nesting(422, |index| match index % 2 {
    0 => json!({"op": "copy", "from": "/metadata", "path": "/scope/x"}),
    _ => json!({"op": "move", "from": "/scope", "path": "/metadata/x"}),
})]
#[case::deep_paths(422, |_| json!({"op": "test", "path": "/a".repeat(100)}))]
#[tokio::test]
async fn operations_that_cost(#[case] code: u16, #[case] operation: fn(usize) -> Value) {
    let target = with_a_large_report().await;
    let uri = format!("{REPORTS}/a?dryRun=All");
    let to = ("PATCH", uri.as_str(), PATCH);
    target
        .expect(&[code], to, &operations(10_000, operation))
        .await;
}

/// A list that comes with the patch is longer than any that is stored.
#[rstest]
#[case::added_to("add")]
#[case::removed_from("remove")]
#[tokio::test]
async fn a_list_that_is_shifted(#[case] op: &str) {
    let target = with_a_large_report().await;
    let list = json!({"op": "add", "path": "/metadata/x", "value": vec![0; 1_200_000]});
    let shift = json!({"op": op, "path": "/metadata/x/0", "value": 0});
    let all = operations(9_000, |index| {
        if index == 0 {
            list.clone()
        } else {
            shift.clone()
        }
    });
    let uri = format!("{REPORTS}/a");
    target.expect(&[422], ("PATCH", &uri, PATCH), &all).await;
}

#[tokio::test]
async fn operations_without_end() {
    let target = with_a_large_report().await;
    let uri = format!("{REPORTS}/a");
    let many = operations(
        10_001,
        |_| json!({"op": "test", "path": "/kind", "value": "PolicyReport"}),
    );
    let answer = target.expect(&[413], ("PATCH", &uri, PATCH), &many).await;
    assert!(answer.message().contains("10000"), "{}", head(&answer));
    let most = format!("[{}{{}}]", "{},".repeat(1_000_000));
    target
        .expect(&[413], ("PATCH", &uri, PATCH), most.as_bytes())
        .await;
}

/// Merge patches that add, remove and repeat.
#[rstest]
#[case::unknown(200, |index| (format!("x{index}"), json!(1)))]
#[case::removed(200, |index| (format!("x{index}"), Value::Null))]
#[case::nested(200, |index| (format!("x{index}"), json!({"a": {"b": null, "c": [1]}})))]
#[tokio::test]
async fn merges_that_cost(#[case] code: u16, #[case] field: fn(usize) -> (String, Value)) {
    let target = with_a_large_report().await;
    let fields: serde_json::Map<_, _> = (0..60_000).map(field).collect();
    let uri = format!("{REPORTS}/a?dryRun=All");
    let to = ("PATCH", uri.as_str(), "application/merge-patch+json");
    let body = Value::Object(fields).to_string();
    target.expect(&[code], to, body.as_bytes()).await;
}
