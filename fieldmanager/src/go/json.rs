//! JSON with HTML escaped, keys sorted and numbers as Go writes them.

use std::fmt::Write as _;

use serde_json::Value;

use super::Numeric;

/// The encoder of Go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// `encoding/json`.
    Standard,
    /// `json-iterator`, which writes backspace and form feed as `\u0008` and `\u000c`.
    Iterator,
    /// `json-iterator` for the names of fields, where HTML is not escaped.
    IteratorName,
}

/// Returns the value in JSON, in one line.
#[must_use]
pub fn json(value: &Value, flavour: Flavour) -> String {
    let mut out = String::new();
    write_value(&mut out, value, flavour);
    out
}

fn write_value(out: &mut String, value: &Value, flavour: Flavour) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&Numeric::of(number).json()),
        Value::String(text) => write_string(out, text, flavour),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(out, item, flavour);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            out.push('{');
            for (index, (key, entry)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(out, key, flavour);
                out.push(':');
                write_value(out, entry, flavour);
            }
            out.push('}');
        }
    }
}

fn write_string(out: &mut String, text: &str, flavour: Flavour) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' if flavour == Flavour::Standard => out.push_str("\\b"),
            '\u{c}' if flavour == Flavour::Standard => out.push_str("\\f"),
            _ if is_escaped(character, flavour) => {
                // Writing to a String does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

fn is_escaped(character: char, flavour: Flavour) -> bool {
    match character {
        '\0'..'\u{20}' => true,
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => flavour != Flavour::IteratorName,
        _ => false,
    }
}
