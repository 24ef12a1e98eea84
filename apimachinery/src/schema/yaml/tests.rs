use std::fmt::Write as _;

use proptest::prelude::*;
use serde::Deserialize as _;
use serde_yaml::Value;

use super::scan::{MOST_LEVELS, Scanner, check};
use crate::schema::{Encoding, decode};

/// Returns the deepest nesting that the scanner finds.
fn levels(text: &str) -> usize {
    let mut scanner = Scanner::new(text.as_bytes());
    let mut deepest = 0;
    while scanner.next_token() {
        deepest = deepest.max(scanner.levels());
    }
    deepest
}

/// Returns the parser's value of the first document.
fn parsed(text: &str) -> Result<Value, String> {
    match serde_yaml::Deserializer::from_str(text).next() {
        Some(document) => Value::deserialize(document).map_err(|error| error.to_string()),
        None => Ok(Value::Null),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Sequence(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Mapping(map) => {
            let inside = map.iter().map(|(key, value)| depth(key).max(depth(value)));
            1 + inside.max().unwrap_or(0)
        }
        Value::Tagged(tagged) => depth(&tagged.value),
        _ => 0,
    }
}

#[rstest::rstest]
#[case("", 0)]
#[case("a: [{b: [1]}]", 4)]
#[case("[]\n", 1)]
#[case("- - - a", 3)]
#[case("a:\n  b:\n    c: 1\nd: 1\n", 3)]
#[case("? a\n: b: c\n", 2)]
#[case("\"[[[\": '[[['' [['", 1)]
#[case("a: b [[[ c\n  [[[\nd: 1", 1)]
#[case("a: |\n  [[[\n   {{{\nb: [", 2)]
#[case("a: |2-\n   [[[\n  [[[\n [", 2)]
#[case("a: >-\n\n  [[[\n\n  [[[\nb: 1", 1)]
#[case("# [[[\na: 1 # [[[\n", 1)]
#[case("a: &b !c [!<tag:[[[> {a: *b}]", 3)]
#[case("a: b#[[[", 1)]
#[case("a: http://[[[", 1)]
#[case("[a: \"]\", ']', ]", 1)]
#[case("[a [b", 2)]
#[case("\u{feff}[[", 2)]
#[case("a: \"\\\"[[[\"", 1)]
#[case("%TAG ! [[[\n---\na: 1", 1)]
#[case("a: 1\r\nb:\r\n- [1]\r\n", 2)]
fn counts_what_is_open(#[case] text: &str, #[case] expected: usize) {
    assert_eq!(levels(text), expected);
}

#[test]
fn says_where_it_is_too_deep() {
    let error = |text: &str| check(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(error(&"[".repeat(200)), "exceeded max depth of 120");
    let later = format!("a: 1\nb: {}", "{a: ".repeat(200));
    assert_eq!(error(&later), "line 2: exceeded max depth of 120");
    assert_eq!(error(&"- ".repeat(128)), "exceeded max depth of 120");
    let directives = "%TAG !a! b\n".repeat(101);
    assert_eq!(
        error(&directives),
        "line 102: exceeded max number of directives of 100"
    );
    assert!(check("- ".repeat(MOST_LEVELS).as_bytes()).is_ok());
}

#[test]
fn aliases_cannot_multiply() {
    let mut nested = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let items = vec![format!("*a{}", level - 1); 9].join(",");
        writeln!(nested, "a{level}: &a{level} [{items}]").unwrap();
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
    for text in [nested, many, long, keys] {
        let error = decode(text.as_bytes(), Encoding::Yaml).unwrap_err();
        let told = error.to_string();
        let known = ["excessive aliasing", "repetition limit exceeded"];
        assert!(known.iter().any(|why| told.contains(why)), "{told}");
    }
}

#[rstest::rstest]
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
        ",",
        "\n",
        "\n  ",
        "\n    ",
        "\n- ",
        "\nc: ",
        "\n  d: ",
        "'",
        "''",
        "\"",
        "\\",
        "\\\"",
        "|",
        ">",
        "|\n",
        ">-\n  ",
        "|2\n",
        "|+\n",
        "&a ",
        "*a ",
        "!t ",
        "!<x> ",
        "#c",
        " #",
        " ",
        "  ",
        "x",
        "x y",
        "é",
        "\u{2028}",
        "\r\n",
        "\t",
        ":x",
        "-x",
        "%",
        "%TAG ! y\n",
        "@",
        "`",
        "0",
        "~",
        "\u{feff}",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Returns whether there is nothing behind the first document, beyond which the parser does not go.
fn is_alone(text: &str) -> bool {
    serde_yaml::Deserializer::from_str(text).take(2).count() < 2
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Nothing that the parser reads has fewer levels than are counted.
    #[test]
    fn counts_no_level_too_many(text in any_yaml()) {
        if let (true, Ok(value)) = (is_alone(&text), parsed(&text)) {
            prop_assert!(levels(&text) <= depth(&value), "{text:?}: {}", levels(&text));
        }
    }

    /// Brackets count wherever the parser takes them for brackets, and nowhere else.
    #[test]
    fn counts_brackets_as_the_parser_does(
        text in any_yaml(),
        at in any::<prop::sample::Index>(),
        open in prop::sample::select(vec!["[", "{", "{a: ", "[[],"]),
    ) {
        let places: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        let (before, behind) = text.split_at(places[at.index(places.len())]);
        let text = format!("{before}{}{behind}", open.repeat(130));
        let refused = check(text.as_bytes()).is_err();
        match parsed(&text) {
            Ok(value) if is_alone(&text) => {
                prop_assert_eq!(refused, depth(&value) > MOST_LEVELS, "{:?}", text);
            }
            // An alias within its own anchor is refused in the same words.
            Err(error) if error.contains("recursion limit") && !text.contains('*') => {
                prop_assert!(refused, "{text:?}");
            }
            Ok(_) | Err(_) => {}
        }
    }

    #[test]
    fn ends(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = check(&bytes);
    }
}
