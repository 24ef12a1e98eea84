use rstest::rstest;

use crate::{check_name, name_of_user_agent};

#[rstest]
#[case("", false, &[])]
#[case("", true, &["Required value: is required for apply patch"])]
#[case("kubectl", true, &[])]
#[case("käse 日本", false, &[])]
#[case(
    "a\nb\u{200b}",
    false,
    &[
        "Invalid value: \"a\\nb\\u200b\": invalid character U+000A (at position 1)",
        "Invalid value: \"a\\nb\\u200b\": invalid character U+200B (at position 3)",
    ]
)]
fn names(#[case] name: &str, #[case] is_apply: bool, #[case] expected: &[&str]) {
    let found: Vec<String> = check_name(name, is_apply)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_name_has_128_bytes_at_most() {
    assert!(check_name(&"ä".repeat(64), false).is_empty());
    let found = check_name(&"ä".repeat(65), false);
    assert_eq!(
        found[0].to_string(),
        "Too long: may not be more than 128 bytes"
    );
}

#[rstest]
#[case("kubectl/v1.36.0 (linux/amd64) kubernetes/abc", "kubectl")]
#[case("curl", "curl")]
#[case("", "")]
#[case("/v1", "")]
#[case("a\tb\u{7f}c/d", "abc")]
fn user_agents(#[case] user_agent: &str, #[case] expected: &str) {
    assert_eq!(name_of_user_agent(user_agent), expected);
}

#[test]
fn a_long_user_agent_is_cut_between_characters() {
    let user_agent = format!("a{}", "ä".repeat(100));
    assert_eq!(
        name_of_user_agent(&user_agent),
        format!("a{}", "ä".repeat(63))
    );
}

#[test]
fn what_is_repeated_is_bounded() {
    assert_eq!(check_name(&"\u{7f}".repeat(128), false).len(), 128);
    for (length, told) in [(1_000, 16), (100_000, 1)] {
        let found = check_name(&"\u{7f}".repeat(length), false);
        assert_eq!(found.len(), 1 + told, "{length} bytes");
    }
}
