//! Selectors, tokens and other parts of a query, as long as a head may be.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rstest::rstest;

use super::target::{Target, head};
use crate::harness::*;

/// Length of a long text: HTTP/2 takes a head of a megabyte.
const LONG: usize = 60_000;

async fn with_reports() -> Target {
    let target = Target::start().await;
    for index in 0..100 {
        target.server.created(&format!("r{index}")).await;
    }
    target
}

fn joined(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(",")
}

/// Every requirement is asked of every object.
#[rstest]
#[case::keys(joined(8_000, |n| format!("!k{n}")), 100)]
#[case::values(format!("app+in+({})", joined(8_000, |n| format!("v{n}"))), 0)]
#[case::other_values(format!("app+notin+({})", joined(8_000, |n| format!("v{n}"))), 100)]
#[case::the_same(joined(10_000, |_| "app".to_owned()), 100)]
#[tokio::test]
async fn selectors_that_cost(#[case] selector: String, #[case] found: usize) {
    let target = with_reports().await;
    let list = target
        .get(&format!("{REPORTS}?labelSelector={selector}"), 200)
        .await;
    assert_eq!(names(&list.json()).len(), found);
}

#[rstest]
#[case::no_selector(format!("labelSelector={}", "(".repeat(LONG)))]
#[case::no_key(format!("labelSelector={}", "a".repeat(LONG)))]
#[case::no_bytes("labelSelector=%ff".to_owned())]
#[case::commas(format!("fieldSelector={}", ",".repeat(LONG)))]
#[case::escapes(format!("fieldSelector=metadata.name%3D{}", "%5C".repeat(LONG / 3)))]
#[case::unknown_fields(format!("fieldSelector={}", joined(5_000, |n| format!("f{n}%3Dx"))))]
#[case::token_of_nothing(format!("continue={}", "%00".repeat(LONG / 3)))]
#[case::token_of_nesting(format!("continue={}", URL_SAFE_NO_PAD.encode("[".repeat(LONG / 2))))]
#[case::token_of_a_name(format!("limit=1&continue={}", URL_SAFE_NO_PAD.encode(
    format!(r#"{{"v":"meta.k8s.io/v1","rv":-1,"start":"{}"}}"#, "x".repeat(LONG / 2)))))]
#[case::limit(format!("limit={}", "9".repeat(LONG)))]
#[case::match_(format!("resourceVersionMatch={}&resourceVersion=1", "x".repeat(LONG)))]
#[case::parameters(joined(7_000, |n| format!("p{n}=x")).replace(',', "&"))]
#[case::repeated("limit=1&".repeat(7_000))]
#[case::signs("&=".repeat(LONG / 2))]
#[case::percents(format!("limit={}", "%".repeat(LONG)))]
#[tokio::test]
async fn queries_that_cost(#[case] query: String) {
    let target = with_reports().await;
    for uri in [
        format!("{REPORTS}?{query}"),
        format!("{REPORTS}?watch=1&timeoutSeconds=1&{query}"),
    ] {
        let to = ("GET", uri.as_str(), "application/json");
        let answer = target.expect(&[200, 400, 422], to, b"").await;
        assert!(answer.body.len() < 256 * 1024, "{}", head(&answer));
    }
    let uri = format!("{REPORTS}?{query}&dryRun=All");
    let to = ("DELETE", uri.as_str(), "application/json");
    target.expect(&[200, 400, 422], to, b"").await;
}

/// Slashes at the end of a path are none.
#[tokio::test]
async fn names_and_paths() {
    let target = Target::start().await;
    for name in [
        "a".repeat(LONG),
        "%2F".repeat(LONG / 3),
        "%ff".repeat(LONG / 3),
        "a/".repeat(LONG / 2),
    ] {
        for method in ["GET", "DELETE", "PUT"] {
            let uri = format!("{REPORTS}/{name}");
            let body = report("a").to_string();
            let body = if method == "PUT" {
                body.as_bytes()
            } else {
                b""
            };
            target
                .expect(
                    &[200, 400, 404, 405, 422],
                    (method, &uri, "application/json"),
                    body,
                )
                .await;
        }
    }
}
