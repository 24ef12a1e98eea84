//! Numbers without end, and bytes that are no text.

use rstest::rstest;

use super::target::{Target, head};
use crate::harness::*;

/// The report `a` with this text as a number in it.
fn with(number: &str) -> Vec<u8> {
    format!(
        "{{\"apiVersion\":\"wgpolicyk8s.io/v1alpha2\",\"kind\":\"PolicyReport\",\
         \"metadata\":{{\"name\":\"a\"}},\"summary\":{{\"pass\":{number}}}}}"
    )
    .into_bytes()
}

#[rstest]
#[case::digits("9".repeat(3_000_000), 400)]
#[case::exponent("1e400".to_owned(), 400)]
#[case::negative_exponent("1e-400000".to_owned(), 201)]
#[case::long_exponent(format!("1e{}", "9".repeat(3_000_000)), 400)]
#[case::fraction(format!("0.{}", "3".repeat(3_000_000)), 422)]
#[case::beyond_64_bits("18446744073709551616".to_owned(), 422)]
#[case::whole_after_all("1.0e0".to_owned(), 201)]
#[tokio::test]
async fn huge_numbers(#[case] number: String, #[case] code: u16) {
    let target = Target::start().await;
    for type_ in ["application/json", "application/yaml"] {
        let uri = format!("{REPORTS}?dryRun=All");
        let to = ("POST", uri.as_str(), type_);
        if type_ == "application/json" {
            target.expect(&[code], to, &with(&number)).await;
        } else {
            // What is no number of YAML is a text.
            target.expect(&[201, 400, 422], to, &with(&number)).await;
        }
    }
    let merge = format!("{{\"summary\":{{\"pass\":{number}}}}}");
    target.server.created("b").await;
    let uri = format!("{REPORTS}/b?dryRun=All");
    let to = ("PATCH", uri.as_str(), "application/merge-patch+json");
    target.expect(&[200, 400, 422], to, merge.as_bytes()).await;
}

/// Every reader of bodies meets text that is none, in keys and in values.
#[rstest]
#[case("POST", REPORTS.to_owned(), "application/json")]
#[case("POST", REPORTS.to_owned(), "application/yaml")]
#[case("PUT", format!("{REPORTS}/a"), "application/json")]
#[case("PATCH", format!("{REPORTS}/a"), "application/merge-patch+json")]
#[case("PATCH", format!("{REPORTS}/a"), "application/json-patch+json")]
#[case("PATCH", format!("{REPORTS}/a?fieldManager=m"), "application/apply-patch+yaml")]
#[case("DELETE", format!("{REPORTS}/a"), "application/json")]
#[case("DELETE", format!("{REPORTS}/a"), "application/vnd.kubernetes.protobuf")]
#[case("POST", format!("{CONTROL}/policyreports.wgpolicyk8s.io/import"), "application/json")]
#[tokio::test]
async fn bytes_that_are_no_text(#[case] method: &str, #[case] uri: String, #[case] type_: &str) {
    let target = Target::start().await;
    target.server.created("a").await;
    let whole = report("a").to_string().into_bytes();
    let mut bodies: Vec<Vec<u8>> = vec![
        vec![0xff; 3_000_000],
        b"\xef\xbb\xbf{}".to_vec(),
        b"\xff\xfe{\x00}\x00".to_vec(),
        b"{\"\xc3\x28\":\"\xed\xa0\x80\"}".to_vec(),
        b"k8s\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01".to_vec(),
        [b"{\"a\":\"", &b"\\ud800".repeat(500_000)[..], b"\"}"].concat(),
    ];
    for at in (0..whole.len()).step_by(11) {
        let mut spoiled = whole.clone();
        spoiled[at] = 0xfe;
        bodies.push(spoiled);
    }
    for body in bodies {
        let answer = target.send(method, &uri, type_, &body).await;
        if method == "DELETE" && answer.code == 200 {
            target.server.created("a").await;
        }
        assert_ne!(answer.code, 404, "{}", head(&answer));
    }
    target.get(&format!("{REPORTS}/a"), 200).await;
}
