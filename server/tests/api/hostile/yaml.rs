//! Anchors, aliases, directives and keys of YAML.

use rstest::rstest;

use super::target::Target;
use crate::harness::*;

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

/// Lists of lists, each nine times the one before.
fn exponential() -> String {
    lines(20, |level| {
        if level == 0 {
            return "a0: &a0 [x,x,x,x,x,x,x,x,x]".to_owned();
        }
        let below = vec![format!("*a{}", level - 1); 9];
        format!("a{level}: &a{level} [{}]", below.join(","))
    })
}

/// One list, as often as there is room for.
fn quadratic() -> String {
    format!(
        "a: &a [{}]\nb: [{}]",
        "x,".repeat(700_000),
        "*a,".repeat(500_000)
    )
}

/// The same of one long text, as a value and as a key.
fn long() -> String {
    format!(
        "a: &a {}\nb: [{}]",
        "x".repeat(1_500_000),
        "*a,".repeat(500_000)
    )
}

fn long_keys() -> String {
    format!(
        "a: &a {}\nb:\n{}",
        "x".repeat(1_000_000),
        "- *a : 1\n".repeat(200_000)
    )
}

fn of_themselves() -> String {
    format!("a: &a [{}]", "*a,".repeat(900_000))
}

/// Whatever a text costs its parser, it is no more than its size explains.
#[rstest]
#[case::exponential(exponential())]
#[case::quadratic(quadratic())]
#[case::long(long())]
#[case::long_keys(long_keys())]
#[case::of_themselves(of_themselves())]
#[case::anchors(lines(130_000, |index| format!("a{index}: &a{index} x")))]
#[case::unknown_aliases(lines(130_000, |index| format!("a{index}: *a{index}")))]
#[case::doubled("a: 1\n".repeat(600_000))]
#[case::documents("---\n".repeat(700_000))]
#[case::indents(lines(2_400, |level| format!("{}a:", " ".repeat(level))))]
#[case::tags(format!("a: {}1", "!a ".repeat(1_000_000)))]
#[case::directives(format!("{}---\na: 1", lines(150_000, |index| format!("%TAG !a{index}! b"))))]
#[case::handles(format!("%TAG !a! b\n---\n[{}]", "!a!b c,".repeat(400_000)))]
#[case::quotes(format!("a: \"{}\"", "\\u0041".repeat(500_000)))]
#[case::folded(format!("a: >\n{}", " b\n\n".repeat(700_000)))]
#[case::plain_lines(format!("a:\n{}", " b\n\n".repeat(700_000)))]
#[case::keys(format!("{{{}}}", "? a, ".repeat(600_000)))]
#[case::nested_keys(format!("{}[{}]", "? ".repeat(110), "a,".repeat(1_400_000)))]
#[case::integer_keys(format!("{}[{}]{}", "{1: ".repeat(110), "a,".repeat(1_400_000), "}".repeat(110)))]
#[case::merges(format!("{}{{{}}}{}", "{<<: ".repeat(110), "a,".repeat(1_400_000), "}".repeat(110)))]
#[case::merged_lists(format!("<<: [{}]", "{a},".repeat(700_000)))]
#[case::merged_aliases(format!("a: &a {{{}}}\nb: {{{}}}", "a,".repeat(100_000), "<<: *a,".repeat(300_000)))]
#[case::empty(format!("[{}]", "{},".repeat(1_000_000)))]
#[case::at_the_limit(format!("{}{}", "{a: ".repeat(118), "[a,],".repeat(600_000)))]
#[case::blanks(" ".repeat(3_000_000))]
#[case::comments("#\n".repeat(1_500_000))]
#[tokio::test]
async fn costs(#[case] body: String) {
    let target = Target::start().await;
    let body = body.into_bytes();
    let uri = format!("{REPORTS}?fieldValidation=Strict");
    target
        .expect(&[400], ("POST", &uri, "application/yaml"), &body)
        .await;
    let uri = format!("{REPORTS}/a?fieldManager=m&fieldValidation=Strict");
    let to = ("PATCH", uri.as_str(), "application/apply-patch+yaml");
    target.expect(&[400], to, &body).await;
}

/// Aliases that a person would write are followed.
#[tokio::test]
async fn modest_aliases_are_followed() {
    let target = Target::start().await;
    let results = "- *r\n".repeat(5_000);
    let body = format!(
        "apiVersion: wgpolicyk8s.io/v1alpha2\nkind: PolicyReport\nmetadata: {{name: a}}\nresults:\n\
         - &r {{policy: p, rule: r, result: pass}}\n{results}"
    );
    let to = ("POST", REPORTS, "application/yaml");
    let created = target.expect(&[201], to, body.as_bytes()).await.json();
    assert_eq!(created["results"].as_array().unwrap().len(), 5_001);
}
