//! The words about a body: fields that are doubled or unknown, and errors.

use apimachinery::error::MAX_BODY_BYTES;
use apimachinery::schema::{MAX_ERRORS, MAX_UNKNOWN};
use rstest::rstest;
use serde_json::{Value, json};

use super::target::{Target, head};
use crate::harness::*;

/// The report `a` with this field, in JSON.
fn with(field: &str, value: &str) -> Vec<u8> {
    let mut object = report("a");
    object.as_object_mut().unwrap().remove(field);
    let text = object.to_string();
    let start = text.strip_suffix('}').unwrap();
    format!("{start},\"{field}\":{value}}}").into_bytes()
}

/// A path is told for each field that is doubled or unknown, and holds all keys above it.
#[rstest]
#[case::the_same(1_500_000, |_| "\"a\":1".to_owned())]
#[case::different(1_300_000, |index| format!("\"a{0}\":1,\"a{0}\":2", index % 50_000))]
#[case::shorter(200_000, |_| "\"a\":1".to_owned())]
#[case::unknown(1_500_000, |index| format!("\"a{index}\":1"))]
#[tokio::test]
async fn paths_below_a_long_key(#[case] length: usize, #[case] field: fn(usize) -> String) {
    let target = Target::start().await;
    let fields: Vec<String> = (0..80_000).map(field).collect();
    let results = format!(
        "[{{\"policy\":\"p\",\"properties\":{{\"{}\":{{{}}}}}}}]",
        "k".repeat(length),
        fields.join(",")
    );
    let body = with("results", &results);
    for validation in ["Ignore", "Warn", "Strict"] {
        let uri = format!("{REPORTS}?fieldValidation={validation}&dryRun=All");
        // What should be a text is none.
        target
            .expect(&[400, 422], ("POST", &uri, "application/json"), &body)
            .await;
        // A key of YAML is not so long.
        target
            .expect(&[400], ("POST", &uri, "application/yaml"), &body)
            .await;
    }
    target.get(REPORTS, 200).await;
}

/// Each character of a manager's name that cannot be printed is an error, which repeats the name.
#[rstest]
#[case::one(1, 2_900_000)]
#[case::many(9_000, 128)]
#[tokio::test]
async fn managers_that_cannot_be_printed(#[case] count: usize, #[case] length: usize) {
    let target = Target::start().await;
    let manager = "\u{7f}".repeat(length);
    let entry = json!({
        "manager": manager, "operation": "Update", "apiVersion": report("a")["apiVersion"],
        "fieldsType": "FieldsV1", "fieldsV1": {"f:summary": {"f:pass": {}}}, "time": "2026-01-01T00:00:00Z",
    });
    let metadata = json!({"name": "a", "managedFields": vec![entry; count]});
    let created = with("metadata", &json!({"name": "a"}).to_string());
    let to = ("POST", REPORTS, "application/json");
    target.expect(&[201], to, &created).await;
    let one = format!("{REPORTS}/a");
    let body = with("metadata", &metadata.to_string());
    let to = ("PUT", one.as_str(), "application/json");
    target.expect(&[422], to, &body).await;
    target.get(REPORTS, 200).await;
}

#[tokio::test]
async fn nor_those_of_a_query() {
    let target = Target::start().await;
    let uri = format!("{REPORTS}?fieldManager={}", "%7f".repeat(20_000));
    let to = ("POST", uri.as_str(), "application/json");
    target.expect(&[422], to, &with("scope", "null")).await;
    target.get(REPORTS, 200).await;
}

/// Of as many fields as there is room for, a hundred are named.
#[rstest]
#[case::in_the_object(|fields: &str| with("x", &format!("{{}},{fields}")))]
#[case::in_metadata(|fields: &str| with("metadata", &format!("{{\"name\":\"a\",{fields}}}")))]
#[case::in_results(|fields: &str| with("results", &format!("[{{\"policy\":\"p\",{fields}}}]")))]
#[tokio::test]
async fn unknown_fields(#[case] body: fn(&str) -> Vec<u8>) {
    let target = Target::start().await;
    let fields: Vec<String> = (0..200_000)
        .map(|index| format!("\"x{index}\":0"))
        .collect();
    let body = body(&fields.join(","));
    for type_ in ["application/json", "application/yaml"] {
        let strict = format!("{REPORTS}?fieldValidation=Strict&dryRun=All");
        let refused = target.expect(&[400], ("POST", &strict, type_), &body).await;
        let named = refused.message().matches("unknown field").count();
        assert!((1..=MAX_UNKNOWN).contains(&named), "{named}");
        let warn = format!("{REPORTS}?fieldValidation=Warn&dryRun=All");
        let warned = target.expect(&[201], ("POST", &warn, type_), &body).await;
        assert!((1..=MAX_UNKNOWN).contains(&warned.warnings().len()));
    }
}

/// So it is of those that are there twice.
#[tokio::test]
async fn doubled_fields() {
    let target = Target::start().await;
    let fields: Vec<String> = (0..80_000)
        .map(|index| format!("\"x{index}\":0,\"x{index}\":1"))
        .collect();
    let body = with(
        "results",
        &format!("[{{\"policy\":\"p\",{}}}]", fields.join(",")),
    );
    let strict = format!("{REPORTS}?fieldValidation=Strict&dryRun=All");
    for (type_, words, most) in [
        ("application/json", "duplicate field", 100),
        ("application/yaml", "already set in map", 100),
    ] {
        let refused = target.expect(&[400], ("POST", &strict, type_), &body).await;
        assert_eq!(
            refused.message().matches(words).count(),
            most,
            "{}",
            head(&refused)
        );
    }
}

/// Of the errors of an object a thousand are told.
#[tokio::test]
async fn errors_without_end() {
    let target = Target::start().await;
    let mut object = report("a");
    object["results"] = Value::from(vec![json!({"result": "maybe", "scored": 1}); 60_000]);
    let to = ("POST", REPORTS, "application/json");
    let answer = target
        .expect(&[422], to, object.to_string().as_bytes())
        .await;
    let causes = answer.json()["details"]["causes"].as_array().unwrap().len();
    assert_eq!(causes, MAX_ERRORS);
    // Each with a text of its own, and long ones.
    let results = (0..100)
        .map(|index| json!({"policy": "p", "result": format!("{index}{}", "<".repeat(10_000))}));
    object["results"] = results.collect();
    target
        .expect(&[422], to, object.to_string().as_bytes())
        .await;
}

/// A refusal that repeats the whole object several times is cut.
#[tokio::test]
async fn a_refusal_repeats_no_more_than_a_body() {
    let target = Target::start().await;
    let text = "<\\\"".repeat(MAX_BODY_BYTES / 3 - 300);
    let body = with(
        "results",
        &format!("[{{\"policy\":\"p\",\"message\":\"{text}\"}}]"),
    );
    target
        .expect(&[201], ("POST", REPORTS, "application/json"), &body)
        .await;
    let uri = format!("{REPORTS}/a");
    let to = ("PATCH", uri.as_str(), "application/json-patch+json");
    let answer = target
        .expect(&[422], to, br#"[{"op":"remove","path":"/kind"}]"#)
        .await;
    assert!(answer.message().ends_with(" ..."), "{}", head(&answer));
}
