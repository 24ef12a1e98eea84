//! YAML that Go's parsers read as it was meant.
//!
//! They follow YAML 1.1, where a bare `no`, `on` or `12:30` is not a string; the YAML libraries of
//! Rust write those bare. So every string that is not plainly a word is quoted, in JSON's way,
//! which is YAML too.

use serde_json::Value;

use super::{EncodingError, write_json};

/// Appends a document.
pub(super) fn write(out: &mut Vec<u8>, value: &Value) -> Result<(), EncodingError> {
    node(out, value, 0, Position::Start)
}

/// Longest key that is written before its colon in one line, in bytes, as in Go's output. Parsers
/// take as much as 1024 characters of escapes.
const SIMPLE_KEY: usize = 128;

/// The place of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// At the start of a line, which is indented already.
    Start,
    /// Behind `key:`.
    Key,
    /// Behind `- `, or the `: ` of a long key.
    Item,
}

fn node(
    out: &mut Vec<u8>,
    value: &Value,
    indent: usize,
    position: Position,
) -> Result<(), EncodingError> {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let mut same_line = position != Position::Key;
            if !same_line {
                out.push(b'\n');
            }
            for (key, value) in map {
                if !std::mem::take(&mut same_line) {
                    pad(out, indent);
                }
                if key.len() > SIMPLE_KEY {
                    out.extend_from_slice(b"? ");
                    string(out, key)?;
                    out.push(b'\n');
                    pad(out, indent);
                    out.extend_from_slice(b": ");
                    node(out, value, indent + 2, Position::Item)?;
                    continue;
                }
                string(out, key)?;
                out.push(b':');
                // As in Go's output, a list stands below its key without further indentation.
                let deeper = if value.is_array() { indent } else { indent + 2 };
                node(out, value, deeper, Position::Key)?;
            }
            return Ok(());
        }
        Value::Array(items) if !items.is_empty() => {
            let mut same_line = position != Position::Key;
            if !same_line {
                out.push(b'\n');
            }
            for item in items {
                if !std::mem::take(&mut same_line) {
                    pad(out, indent);
                }
                out.extend_from_slice(b"- ");
                node(out, item, indent + 2, Position::Item)?;
            }
            return Ok(());
        }
        _ => {}
    }
    if position == Position::Key {
        out.push(b' ');
    }
    match value {
        Value::String(text) => string(out, text)?,
        // Empty containers, numbers, booleans and null are written as in JSON.
        other => write_json(out, other)?,
    }
    out.push(b'\n');
    Ok(())
}

fn pad(out: &mut Vec<u8>, indent: usize) {
    out.resize(out.len() + indent, b' ');
}

fn string(out: &mut Vec<u8>, text: &str) -> Result<(), EncodingError> {
    if is_word(text) {
        out.extend_from_slice(text.as_bytes());
        return Ok(());
    }
    if !text.contains(breaks_yaml) {
        return write_json(out, text);
    }
    let mut json = Vec::with_capacity(text.len() + 16);
    write_json(&mut json, text)?;
    for character in String::from_utf8_lossy(&json).chars() {
        if breaks_yaml(character) {
            out.extend(format!("\\u{:04x}", u32::from(character)).bytes());
        } else {
            out.extend(character.encode_utf8(&mut [0; 4]).bytes());
        }
    }
    Ok(())
}

/// Returns whether JSON leaves a character as it is that a parser of YAML refuses, or takes for the
/// end of a line.
fn breaks_yaml(character: char) -> bool {
    matches!(
        character,
        '\u{7f}'..='\u{9f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    )
}

/// Returns whether a bare string can be nothing but a string: it begins with a letter, `_` or `/`,
/// goes on with letters, digits and `_`, `.`, `/`, `-` (single spaces between), and is no word of
/// YAML 1.1.
fn is_word(text: &str) -> bool {
    const RESERVED: [&str; 9] = ["y", "yes", "n", "no", "true", "false", "on", "off", "null"];
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '/');
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-' | ' ');
    begins
        && text.chars().all(legal)
        && !text.ends_with(' ')
        && !text.contains("  ")
        && !RESERVED.iter().any(|word| text.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn text(value: &Value) -> String {
        let mut out = Vec::new();
        write(&mut out, value).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn is_laid_out_as_in_go() {
        let value = json!({
            "kind": "PolicyReport", "empty": {}, "none": [], "nothing": null,
            "metadata": {"name": "a", "labels": {"on": "off", "n": "1"}},
            "results": [{"policy": "p", "resources": [{"name": "x"}]}, [1, [2.5]], "12:30"],
        });
        let expected = "empty: {}\nkind: PolicyReport\nmetadata:\n  labels:\n    \"n\": \"1\"\n    \
            \"on\": \"off\"\n  name: a\nnone: []\nnothing: null\nresults:\n- policy: p\n  \
            resources:\n  - name: x\n- - 1\n  - - 2.5\n- \"12:30\"\n";
        assert_eq!(text(&value), expected);
    }

    /// Recorded from sigs.k8s.io/yaml 1.6.
    #[test]
    fn long_keys_stand_alone() {
        let key = "k".repeat(129);
        let value =
            json!({"a": {&key: {"b": 1, "c": [1, 2]}}, &key: [{"x": 1}, 2], "z": {&key: "t"}});
        let expected = format!(
            "a:\n  ? {key}\n  : b: 1\n    c:\n    - 1\n    - 2\n? {key}\n: - x: 1\n  - 2\nz:\n  ? {key}\n  : t\n"
        );
        assert_eq!(text(&value), expected);
        assert_eq!(serde_yaml::from_str::<Value>(&expected).unwrap(), value);
        assert!(text(&json!({&key[1..]: 1})).ends_with("k: 1\n"));
    }

    #[test]
    fn what_yaml_cannot_hold_is_escaped() {
        let out = text(&json!({"a\u{7f}": "\u{1}\u{85}\u{feff}\u{fffe}é"}));
        assert_eq!(out, "\"a\\u007f\": \"\\u0001\\u0085\\ufeff\\ufffeé\"\n");
    }

    #[test]
    fn strings_stay_strings_for_yaml_1_1() {
        for tricky in [
            "no",
            "Yes",
            "ON",
            "~",
            "",
            "1e3",
            "0x1",
            "1_000",
            "12:30:45",
            ".inf",
            "- a",
            "a: b",
            "a #b",
            "#a",
            "@a",
            "null",
            "=",
            "<<",
            " a",
            "a ",
            "a\nb",
            "2026-01-01",
        ] {
            let out = text(&json!({"k": tricky}));
            assert!(out.starts_with("k: \"") && out.ends_with("\"\n"), "{out}");
        }
        assert_eq!(text(&json!("a-b.c/d e")), "a-b.c/d e\n");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[\\x00-\\xa0\\u{2028}\\u{feff}-\\u{ffff}]{0,4}".prop_map(Value::from),
            "[a-z:# -]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-zé \"0-9.\\x7f\\x85]{0,6}(é{60,70})?", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn is_read_back_as_it_was(value in any_json()) {
            let read: Value = serde_yaml::from_str(&text(&value)).unwrap();
            prop_assert_eq!(read, value);
        }
    }
}
