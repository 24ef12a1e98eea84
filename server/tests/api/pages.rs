//! The number of objects that the pages of a list say are left, which tokens carry.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crds::control::GateState;
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::*;

/// Five reports of the namespace `default`, and two of another.
async fn with_reports() -> Server {
    let server = Server::start().await;
    for name in ["a", "b", "c", "d", "e"] {
        server.created(name).await;
    }
    let other = ALL_REPORTS.replace("/policyreports", "/namespaces/another/policyreports");
    for name in ["y", "z"] {
        server.post(&other, &report(name)).await.expect(201);
    }
    server
}

/// The token of a page; empty for the last.
fn token(page: &Value) -> String {
    page["metadata"]["continue"].as_str().unwrap().to_owned()
}

/// The number of objects that a page says are left; null where it says nothing.
fn left(page: &Value) -> Value {
    page["metadata"]["remainingItemCount"].clone()
}

/// Asserts what a page shows, and what it says about what is left.
fn holds(page: &Value, shown: &[&str], remaining: &Value) {
    assert_eq!(names(page), shown);
    assert_eq!(left(page), *remaining, "{page}");
}

/// The JSON in a token.
fn wire(token: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap()
}

/// A token with something else in the place of the number that is left, or without it.
fn forged(token: &str, left: Option<Value>) -> String {
    let mut wire = wire(token);
    wire.as_object_mut().unwrap().remove("left").unwrap();
    if let Some(left) = left {
        wire["left"] = left;
    }
    URL_SAFE_NO_PAD.encode(wire.to_string())
}

async fn page(server: &Server, uri: &str, token: &str) -> Value {
    let uri = format!("{uri}?limit=2&continue={token}");
    server.get(&uri).await.expect(200).json()
}

#[rstest]
#[case(ALL_REPORTS, &[Some(5), Some(3), Some(1), None])]
#[case(REPORTS, &[Some(3), Some(1), None])]
#[tokio::test]
async fn every_page_says_what_is_left(#[case] uri: &str, #[case] expected: &[Option<usize>]) {
    let server = with_reports().await;
    let mut next = String::new();
    for expected in expected {
        let with = page(&server, uri, &next).await;
        assert_eq!(left(&with), json!(expected), "{with}");
        if !next.is_empty() {
            // The same as for a token of an earlier release, which is counted for.
            let without = page(&server, uri, &forged(&next, None)).await;
            assert_eq!(with, without);
        }
        next = token(&with);
        assert_eq!(next.is_empty(), expected.is_none());
    }
}

#[tokio::test]
async fn the_number_in_a_token_is_not_counted_again() {
    let server = with_reports().await;
    let first = page(&server, REPORTS, "").await;
    let list = "policyreports.wgpolicyk8s.io/default";
    assert_eq!(
        wire(&token(&first))["left"],
        json!({"of": list, "objects": 3})
    );
    // What is shown and what follows does not depend on it; nor is it compared with what there is.
    for (objects, expected) in [
        (40_u32, 38_u32),
        (u32::MAX, u32::MAX - 2),
        (0, 1),
        (1, 1),
        (2, 1),
    ] {
        let number = json!({"of": list, "objects": objects});
        let next = forged(&token(&first), Some(number));
        let second = page(&server, REPORTS, &next).await;
        holds(&second, &["c", "d"], &json!(expected));
        let rest = page(&server, REPORTS, &token(&second)).await;
        holds(&rest, &["e"], &Value::Null);
        assert_eq!(token(&rest), "");
    }
}

#[rstest]
#[case(json!(3))]
#[case(json!("3"))]
#[case(json!({"of": "policyreports.wgpolicyk8s.io/default"}))]
#[case(json!({"of": "policyreports.wgpolicyk8s.io/default", "objects": -1}))]
#[case(json!({"of": "policyreports.wgpolicyk8s.io/default", "objects": 1e20}))]
#[case(json!({"of": 7, "objects": 3}))]
#[tokio::test]
async fn what_is_no_number_is_no_token(#[case] number: Value) {
    let server = with_reports().await;
    let first = page(&server, REPORTS, "").await;
    let token = forged(&token(&first), Some(number));
    let uri = format!("{REPORTS}?limit=2&continue={token}");
    let refused = server.get(&uri).await.expect(400);
    assert!(refused.message().contains("continue key is not valid"));
}

#[tokio::test]
async fn the_number_of_another_list_does_not_count() {
    let server = with_reports().await;
    // It is shown to nobody who may not list what was counted.
    let all = page(&server, ALL_REPORTS, "").await;
    holds(&all, &["y", "z"], &json!(5));
    let mut wire = wire(&token(&all));
    wire["start"] = json!("b\0");
    let elsewhere = URL_SAFE_NO_PAD.encode(wire.to_string());
    let rest = page(&server, REPORTS, &elsewhere).await;
    holds(&rest, &["c", "d"], &json!(1));
    let cluster = page(&server, CLUSTER_REPORTS, &token(&all)).await;
    holds(&cluster, &[], &Value::Null);
}

#[tokio::test]
async fn a_selection_has_no_number() {
    let server = with_reports().await;
    let first = page(&server, REPORTS, "").await;
    let selection = "limit=1&labelSelector=app";
    let uri = format!("{REPORTS}?{selection}&continue={}", token(&first));
    let second = server.get(&uri).await.expect(200).json();
    holds(&second, &["c"], &Value::Null);
    assert_eq!(wire(&token(&second)).get("left"), None);
    // It is counted when nothing is selected any more.
    let uri = format!("{REPORTS}?limit=1&continue={}", token(&second));
    let rest = server.get(&uri).await.expect(200).json();
    holds(&rest, &["d"], &json!(1));
}

#[tokio::test]
async fn the_newest_data_are_counted_anew() {
    let server = Server::start_closed(|_| {}).await;
    server.store.raise_floor(1000).await.unwrap();
    let reports = "policyreports.wgpolicyk8s.io";
    server.set_gate(reports, GateState::Open).await;
    for name in ["a", "b", "c"] {
        server.created(name).await;
    }
    let of = format!("{reports}/default");
    let old = json!({"v": "meta.k8s.io/v1", "rv": 1, "start": "a\0",
        "left": {"of": of, "objects": 40}});
    let old = URL_SAFE_NO_PAD.encode(old.to_string());
    let uri = format!("{REPORTS}?limit=1&continue={old}");
    let expired = server.get(&uri).await.expect(410).json();
    assert_eq!(wire(&token(&expired)).get("left"), None);
    let uri = format!("{REPORTS}?limit=1&continue={}", token(&expired));
    let rest = server.get(&uri).await.expect(200).json();
    holds(&rest, &["b"], &json!(1));
}
