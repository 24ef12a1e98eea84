//! Lists and objects in each other.

use rstest::rstest;
use serde_json::{Value, json};

use super::target::{Target, head};
use crate::harness::*;

/// Levels that may be nested.
const MOST: usize = 120;
const APPLY: &str = "application/apply-patch+yaml";

fn nested(open: &str, close: &str, depth: usize) -> String {
    format!("{}1{}", open.repeat(depth), close.repeat(depth))
}

/// Nothing but nesting, in whatever a body is read from, closed or not, up to the largest body.
#[rstest]
#[case::post_lists("POST", "application/json", "[", "]")]
#[case::post_objects("POST", "application/json", "{\"a\":", "}")]
#[case::yaml_lists("POST", "application/yaml", "[", "]")]
#[case::yaml_objects("POST", "application/yaml", "{a: ", "}")]
#[case::yaml_keys("POST", "application/yaml", "{? ", "}")]
#[case::yaml_both("POST", "application/yaml", "[{a: [], b: ", "}]")]
#[case::yaml_blocks("POST", "application/yaml", "- ", "")]
#[case::yaml_block_keys("POST", "application/yaml", "? ", "")]
#[case::yaml_lines("POST", "application/yaml", "[\n", "]")]
#[case::yaml_anchors("POST", "application/yaml", "&a [", "]")]
#[case::yaml_tags("POST", "application/yaml", "!a [", "]")]
#[case::put("PUT", "application/yaml", "{a: ", "}")]
#[case::merge_patch("PATCH", "application/merge-patch+json", "{\"a\":", "}")]
#[case::json_patch("PATCH", "application/json-patch+json", "[", "]")]
#[case::apply_json("PATCH", APPLY, "{\"a\":", "}")]
#[case::apply_flow("PATCH", APPLY, "{a: ", "}")]
#[case::apply_blocks("PATCH", APPLY, "- ", "")]
#[case::delete("DELETE", "application/json", "{\"preconditions\":", "}")]
#[case::delete_yaml("DELETE", "application/yaml", "{preconditions: ", "}")]
#[tokio::test]
async fn without_end(
    #[case] method: &str,
    #[case] type_: &str,
    #[case] open: &str,
    #[case] close: &str,
) {
    let target = Target::start().await;
    target.server.created("a").await;
    let uri = match method {
        "POST" => REPORTS.to_owned(),
        "PATCH" => format!("{REPORTS}/a?fieldManager=m"),
        _ => format!("{REPORTS}/a"),
    };
    let to = (method, uri.as_str(), type_);
    let largest = apimachinery::error::MAX_BODY_BYTES / (open.len() + close.len()) - 1;
    for depth in [MOST + 1, 1000, 100_000, largest] {
        let closed = nested(open, close, depth);
        let answer = target.expect(&[400], to, closed.as_bytes()).await;
        let known = [
            "exceeded max depth",
            "recursion limit exceeded",
            // No list or object is one.
            "invalid map key",
        ];
        let told = answer.message();
        assert!(
            known.iter().any(|why| told.contains(why)),
            "{}",
            head(&answer)
        );
        target
            .expect(&[400], to, open.repeat(depth).as_bytes())
            .await;
    }
    target.get(&format!("{REPORTS}/a"), 200).await;
}

/// Ever deeper lines, each below the one before.
#[tokio::test]
async fn indents() {
    let target = Target::start().await;
    let lines: Vec<String> = (0..2_400)
        .map(|level| format!("{}a:", " ".repeat(level)))
        .collect();
    let to = ("POST", REPORTS, "application/yaml");
    let answer = target.expect(&[400], to, lines.join("\n").as_bytes()).await;
    assert!(
        answer.message().contains("exceeded max depth of 120"),
        "{}",
        head(&answer)
    );
}

/// Brackets in texts are not taken for nesting.
#[tokio::test]
async fn brackets_in_texts_do_not_count() {
    let target = Target::start().await;
    let body = format!(
        "apiVersion: wgpolicyk8s.io/v1alpha2\nkind: PolicyReport\nmetadata: {{name: a}}\nresults:\n\
         - policy: 'p'\n  message: |\n    {0}\n  description: a\n    {0} # {0}\n  source: \"{0}\"\n",
        "[{".repeat(50_000)
    );
    let to = ("POST", REPORTS, "application/yaml");
    let created = target.expect(&[201], to, body.as_bytes()).await.json();
    let message = created["results"][0]["message"].as_str().unwrap();
    assert_eq!(message, format!("{}\n", "[{".repeat(50_000)));
}

/// As deep as may be is stored and read again in every way, with the owners of every field.
#[rstest]
#[case::json("application/json")]
#[case::yaml("application/yaml")]
#[tokio::test]
async fn the_deepest_can_be_read_again(#[case] type_: &str) {
    let target = Target::start().await;
    // Within `anything` of a gadget.
    let body = |depth: usize| {
        let inside: Value = serde_json::from_str(&nested("{\"a\":", "}", depth - 2)).unwrap();
        json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"},
            "anything": {"x": inside}})
        .to_string()
        .into_bytes()
    };
    let to = ("POST", GADGETS_V1, type_);
    target.expect(&[400], to, &body(MOST + 1)).await;
    target.expect(&[201], to, &body(MOST)).await;
    let one = format!("{GADGETS_V1}/a");
    target.get(&one, 200).await;
    target.get(GADGETS_V1, 200).await;
    let mut written = target.get(&one, 200).await.json();
    written["size"] = json!(1);
    let written = written.to_string().into_bytes();
    target.expect(&[200], ("PUT", &one, type_), &written).await;
    let merge = br#"{"metadata":{"labels":{"a":"b"}}}"#;
    let patch = ("PATCH", one.as_str(), "application/merge-patch+json");
    target.expect(&[200], patch, merge).await;
    let apply = format!("{one}?fieldManager=m&force=true");
    target
        .expect(&[200], ("PATCH", &apply, APPLY), &body(MOST))
        .await;
    let read = target.get(&one, 200).await.json();
    assert_eq!(
        read["metadata"]["managedFields"].as_array().unwrap().len(),
        2
    );
    target.expect(&[200], ("DELETE", &one, type_), b"").await;
}
