use std::fmt::Write as _;

use granit_parser::Parser;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::document::{Document, options};
use crate::encoding::to_yaml;
use crate::schema::depth::MAX_LEVELS;
use crate::schema::{Encoding, decode, repeated_keys};

/// Most nodes of a text that is refused for its depth. The parser looks ahead by no more than a key
/// may be long.
const FEW: usize = 2 * 1024;

fn read(text: &str) -> Result<Value, String> {
    match decode(text.as_bytes(), Encoding::Yaml) {
        Ok(decoded) => Ok(decoded.value),
        Err(error) => Err(error.to_string()),
    }
}

fn refused(text: &str) -> String {
    let error = read(text).unwrap_err();
    let told = error.strip_prefix("error converting YAML to JSON: yaml: ");
    told.unwrap().to_owned()
}

/// The values are those that `sigs.k8s.io/yaml` 1.6.0 gives.
#[rstest]
#[case::short("[y, Y, n, N]", json!([true, true, false, false]))]
#[case::words("[yes, Yes, YES, on, On, ON, no, off, OFF]", json!([true, true, true, true, true, true, false, false, false]))]
#[case::true_words("[true, True, TRUE, false]", json!([true, true, true, false]))]
#[case::other_words("[yEs, oN, tRUE, nULL, inf, nan]", json!(["yEs", "oN", "tRUE", "nULL", "inf", "nan"]))]
#[case::nulls("[~, null, Null, NULL, ]", json!([null, null, null, null]))]
#[case::octal("[010, -010, +010, 0o17, 0O17, 00]", json!([8, -8, 8, 15, 15, 0]))]
#[case::no_octal("[08, -09, 0o8, 0x]", json!([8, -9, "0o8", "0x"]))]
#[case::other_bases("[0x1F, -0x1f, 0X1f, 0b101, 0B1]", json!([31, -31, 31, 5, 1]))]
#[case::underscores("[1_000, 1__0, 1_, 0_7, _1, 0.1_5]", json!([1000, 10, 1, 7, "_1", 0.15]))]
#[case::base_60("[1:30, 1:30.5]", json!(["1:30", "1:30.5"]))]
#[case::fractions("[.5, +.5, 5., 1.e3, 1e3, 1e+3, 1.5.2, .]", json!([0.5, 0.5, 5, 1000, 1000, 1000, "1.5.2", "."]))]
#[case::signs("[--1, +-1, +, -0]", json!(["--1", "+-1", "+", 0]))]
#[case::large("[-9223372036854775808, 9223372036854775807]", json!([i64::MIN, i64::MAX]))]
#[case::larger(
    "[-9223372036854775809, 18446744073709551615, +18446744073709551615]",
    json!([-9_223_372_036_854_775_809.0, 18_446_744_073_709_551_615.0, 18_446_744_073_709_551_615.0])
)]
#[case::no_double("[1e400, .5e400]", json!(["1e400", ".5e400"]))]
#[case::dates("[2020-01-02, !!timestamp 2020-01-02]", json!(["2020-01-02", "2020-01-02"]))]
#[case::quoted("['yes', \"010\", '~', '']", json!(["yes", "010", "~", ""]))]
#[case::blocks("- |\n  1\n- >-\n  yes\n", json!(["1\n", "yes"]))]
#[case::blocks_without_an_end("- |\n  x\n- |+\n  y", json!(["x\n", "y"]))]
#[case::folded_without_an_end("- >\n  x\n  y", json!(["x y"]))]
#[case::comment_without_an_end("- |\n  # x\n# x", json!(["# x\n"]))]
#[case::text_tags("[!!str 7, !!str , ! 7, !mine 7, !!set 7]", json!(["7", "", "7", "7", "7"]))]
#[case::type_tags("[!!int '7', !!float 3, !!bool 'on', !!null '', !<tag:yaml.org,2002:int> '1']", json!([7, 3, true, null, 1]))]
#[case::tags_of_collections("[!!str [1], !mine {a: 1}]", json!([[1], {"a": 1}]))]
#[case::binary("[!!binary aGk=, !!binary aGl=, !!binary /w==, !!binary \"aG\\nk=\"]", json!(["hi", "hi", "\u{fffd}", "hi"]))]
#[case::keys("{yes: 1, 010: 2, 0.5: 3, 1e6: 4, .inf: 5, '~': 6}", json!({"true": 1, "8": 2, "0.5": 3, "1e+06": 4, ".inf": 5, "~": 6}))]
#[case::aliases("{a: &x {b: &y 1}, c: *x, d: *y, *y : e}", json!({"a": {"b": 1}, "c": {"b": 1}, "d": 1, "1": "e"}))]
#[case::latest_anchor("[&x 1, &x 2, *x]", json!([1, 2, 2]))]
#[case::merge("{a: &x {b: 1, c: 1}, d: {<<: *x, c: 2}}", json!({"a": {"b": 1, "c": 1}, "d": {"b": 1, "c": 2}}))]
#[case::merge_behind("{c: 2, <<: {b: 1, c: 1}}", json!({"b": 1, "c": 1}))]
#[case::merge_of_several("{<<: [{a: 1}, {a: 2, b: 2}]}", json!({"a": 1, "b": 2}))]
#[case::merge_in_merge("{<<: {<<: {a: 1}, b: 2}}", json!({"a": 1, "b": 2}))]
#[case::no_merge("{'<<': {a: 1}, b: <<}", json!({"<<": {"a": 1}, "b": "<<"}))]
#[case::documents("a: 1\n---\nb: 2\n", json!({"a": 1}))]
#[case::behind_the_end("a: 1\n...\n]\n", json!({"a": 1}))]
#[case::nothing("# nothing\n", json!(null))]
#[case::json(r#"{"a":[1,"x\u00e9\t",true,null,-1.5e3]}"#, json!({"a": [1, "xé\t", true, null, -1500]}))]
fn is_read_as_in_go(#[case] text: &str, #[case] value: Value) {
    assert_eq!(read(text), Ok(value));
}

/// Go reads the text that goes on in a line without indentation, and refuses the others.
#[rstest]
#[case("a: !!int x", "line 1: cannot decode `x` as a !!int")]
#[case("a: 1\nb: !!bool 1", "line 2: cannot decode `1` as a !!bool")]
#[case("!!float x", "line 1: cannot decode `x` as a !!float")]
#[case("!!null x", "line 1: cannot decode `x` as a !!null")]
#[case("!!binary aGk", "!!binary value contains invalid base64 data")]
#[case("a: -.inf", "json: unsupported value: -Inf")]
#[case("a: .NaN", "json: unsupported value: NaN")]
#[case("a: 1\n? [b]\n: c", "line 2: invalid map key")]
#[case("? {a: b}\n: c", "line 1: invalid map key")]
#[case("~: a", "line 1: invalid map key")]
#[case("18446744073709551615: a", "line 1: invalid map key")]
#[case("[&a [x], {*a : b}]", "line 1: invalid map key")]
#[case("<<: ", "map merge requires map or sequence of maps as the value")]
#[case("<<: [a]", "map merge requires map or sequence of maps as the value")]
#[case(
    "[&a [{b: 1}], {<<: *a}]",
    "map merge requires map or sequence of maps as the value"
)]
#[case("a: &a [*a]", "line 1: anchor value contains itself")]
#[case("a: \u{7f}", "control characters are not allowed")]
#[case("a: 'b\nc'", "line 2: invalid indentation in multiline quoted scalar")]
#[case("a: *b", "line 1: while parsing node, found unknown anchor")]
#[case("a: b\n}", "line 2: misplaced bracket")]
fn is_refused(#[case] text: &str, #[case] told: &str) {
    assert_eq!(refused(text), told);
}

#[test]
fn other_encodings_are_refused() {
    let error = decode(b"a: \xff", Encoding::Yaml).unwrap_err();
    assert!(error.to_string().ends_with("yaml: invalid UTF-8"));
}

/// A repeated key is told with the line where its value begins, as Go sees it.
#[rstest]
#[case::scalar("a: 1\na: 2\n", &["2: key \"a\""])]
#[case::map("a: 1\na:\n  b: 1\n", &["3: key \"a\""])]
#[case::list("a: 1\na:\n- x\n", &["3: key \"a\""])]
#[case::anchor("a: 1\na: &x\n\n  b: 1\n", &["2: key \"a\""])]
#[case::anchor_of_a_text("a: 1\na: &x\n  y\n", &["2: key \"a\""])]
#[case::anchor_of_the_first_key("a: 1\na:\n  &y b: 1\n", &["3: key \"a\""])]
#[case::tag("a: 1\na: !t\n  b: 1\n", &["2: key \"a\""])]
#[case::tag_and_anchor("a: 1\na: !t\n  &x\n  - b\n", &["2: key \"a\""])]
#[case::alias("a: &x {b: 1}\na: *x\n", &["2: key \"a\""])]
#[case::literal("a: 1\na: |\n  x\n", &["2: key \"a\""])]
#[case::folded("a: 1\na: >- # c\n\n\n  x\n", &["2: key \"a\""])]
#[case::head_alone("a: 1\na:\n  |2\r\n  |\r\n", &["3: key \"a\""])]
#[case::empty_literal("a: 1\na: |\n\n\nb: 1\n", &["2: key \"a\""])]
#[case::literal_without_end("a: 1\na:\n\n  |", &["4: key \"a\""])]
#[case::behind_comments("a: 1\na: # c\n\n  # d\n  b", &["5: key \"a\""])]
#[case::nothing("a: 1\na:\n\nb: 1\n", &["2: key \"a\""])]
#[case::nothing_in_brackets("{a: 1,\na: ,\n}", &["2: key \"a\""])]
#[case::explicit("a: 1\n? a\n:\n  b\n", &["4: key \"a\""])]
#[case::inner_first("a: {b: 1, b: 2}\na:\n  c: 1\n  c: 2\n", &["1: key \"b\"", "4: key \"c\"", "3: key \"a\""])]
#[case::merged_behind("x: &l {z: 1}\nu: {z: 2,\n <<: *l}", &["1: key \"z\""])]
#[case::behind_a_merge("x: &l {z: 1}\nu: {<<: *l,\n z: 2}", &["3: key \"z\""])]
#[case::merged_twice("{<<: [{a: 1},\n{a: 2}], a: 3}", &["1: key \"a\"", "2: key \"a\""])]
#[case::notations("1: a\n0x1: b\nyes: c\ntrue: d\n", &["2: key 1", "4: key true"])]
#[case::types("1: a\n1.0: b\n'1': c\n", &[])]
fn repeated_keys_have_lines(#[case] text: &str, #[case] expected: &[&str]) {
    let found: Vec<String> = repeated_keys(text.as_bytes())
        .iter()
        .map(|key| format!("{}: key {}", key.line, key.key))
        .collect();
    assert_eq!(found, expected);
    let decoded = decode(text.as_bytes(), Encoding::Yaml).unwrap();
    assert_eq!(decoded.duplicates.is_empty(), expected.is_empty());
}

/// Input that is nested without end is refused at its beginning.
#[rstest]
#[case("[")]
#[case("{a: ")]
#[case("{? ")]
#[case("- ")]
#[case("? ")]
#[case("[\n")]
#[case("&a [")]
#[case("!a {")]
#[case("[{a: [], b: ")]
fn nesting_costs_no_more_than_its_beginning(#[case] open: &str) {
    let text = open.repeat(3_000_000 / open.len());
    assert_eq!(refused(&text), "exceeded max depth of 120");
    let events = Parser::new_from_str_with_options(&text, options());
    assert!(events.take_while(Result::is_ok).count() < FEW);
}

#[test]
fn owners_may_be_deeper() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        read(&format!("metadata: {{managedFields: {open}{close}}}"))
    };
    assert!(nested(MAX_LEVELS - 2).is_ok());
    assert!(nested(MAX_LEVELS - 1).is_err());
}

/// Aliases make levels that no text has.
#[rstest]
#[case("[*a]", "[]")]
#[case("{<<: *a}", "{}")]
fn levels_of_aliases_are_counted(#[case] around: &str, #[case] innermost: &str) {
    let chain = |length: usize| {
        let mut text = format!("x0: &a0 {innermost}\n");
        for level in 1..length {
            let around = around.replace("*a", &format!("*a{}", level - 1));
            writeln!(text, "x{level}: &a{level} {around}").unwrap();
        }
        // There, more levels are allowed.
        format!("{text}metadata: {{managedFields: *a{}}}\n", length - 1)
    };
    assert!(read(&chain(100)).is_ok());
    for length in [130, 20_000] {
        assert_eq!(refused(&chain(length)), "exceeded max depth of 120");
    }
}

#[test]
fn aliases_cannot_multiply() {
    let mut nested = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    let mut merged = String::from("a0: &a0 {x: 1}\n");
    for level in 1..12 {
        let items = vec![format!("*a{}", level - 1); 9].join(",");
        writeln!(nested, "a{level}: &a{level} [{items}]").unwrap();
        writeln!(merged, "a{level}: &a{level} {{<<: [{items}]}}").unwrap();
    }
    let many = format!(
        "a: &a [{}]\nb: [{}]\n",
        "x,".repeat(5000),
        "*a,".repeat(5000)
    );
    let long = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(100_000),
        "*a,".repeat(5000)
    );
    let keys = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(900),
        "{*a : 1},".repeat(5000)
    );
    for text in [nested, merged, many, long, keys] {
        assert_eq!(refused(&text), "document contains excessive aliasing");
    }
}

#[rstest]
#[case::empty_values("- \n", 100_000)]
#[case::empty_keys("{a,b},\n", 100_000)]
#[case::separators("\"\\L\\P\",", 200_000)]
#[case::list("a,", 500_000)]
fn what_has_no_aliases_is_never_too_much(#[case] part: &str, #[case] times: usize) {
    let all = part.repeat(times);
    let text = if part.starts_with('-') {
        all
    } else {
        format!("[{all}]")
    };
    decode(text.as_bytes(), Encoding::Yaml).unwrap();
}

/// Each node is read once, whatever is nested in it.
#[rstest]
#[case::in_keys("? ", "")]
#[case::in_maps("{1: ", "}")]
#[case::in_merges("{<<: ", "}")]
fn a_document_is_as_large_as_its_text(#[case] open: &str, #[case] close: &str) {
    let text = format!(
        "{}{{{}}}{}",
        open.repeat(110),
        "a,".repeat(10_000),
        close.repeat(110)
    );
    let document = Document::first(&text).unwrap();
    let root = document.root().unwrap();
    assert!(document.behind(root) < text.len());
}

fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[\\x00-\\xa0\\u{2028}\\u{feff}-\\u{ffff}]{0,4}",
        "[yYnN~<=?:,&*!|>%@` 0-9_.x+-]{0,5}",
        prop::sample::select(vec!["yes", "No", "on", "null", "<<", "010", "1_0", ".inf"])
            .prop_map(str::to_owned),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text.clone(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Returns pieces of YAML that mean different things in different places.
fn any_yaml() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a: ",
        "b:",
        "- ",
        "-",
        "? ",
        ": ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "\n",
        "\n  ",
        "\n- ",
        "\nc: ",
        "\n  d: ",
        "'",
        "\"",
        "\\",
        "|\n",
        ">-\n  ",
        "&a ",
        "*a ",
        "!t ",
        "!!int ",
        "!<x> ",
        "<<: ",
        "#c",
        " #",
        " ",
        "x",
        "é",
        "\u{2028}",
        "\r\n",
        "\t",
        "%TAG ! y\n",
        "---\n",
        "0",
        "~",
        "\u{feff}",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The server reads everything that it writes.
    #[test]
    fn what_is_written_is_read(value in any_value()) {
        let text = to_yaml(&value).unwrap();
        let decoded = decode(&text, Encoding::Yaml);
        prop_assert_eq!(decoded.map(|decoded| decoded.value), Ok(value), "{}", String::from_utf8_lossy(&text));
    }

    /// A key is repeated where a field is doubled.
    #[test]
    fn repeated_keys_are_doubled_fields(text in any_yaml()) {
        let repeated = repeated_keys(text.as_bytes());
        let decoded = decode(text.as_bytes(), Encoding::Yaml);
        let doubled = decoded.is_ok_and(|decoded| !decoded.duplicates.is_empty());
        prop_assert_eq!(doubled, !repeated.is_empty());
    }
}
