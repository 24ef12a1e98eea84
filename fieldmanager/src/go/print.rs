//! `%v` and `%#v` of values.

use serde_json::{Map, Value};

use super::{Numeric, quote};

/// Returns `%v` of the Go value that a JSON value is decoded to.
#[must_use]
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => Numeric::of(number).plain(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(entries) => format!(
            "map[{}]",
            joined(entries, " ", |key, entry| {
                format!("{key}:{}", plain(entry))
            })
        ),
    }
}

/// Returns `%#v` of the Go value that a JSON value is decoded to.
#[must_use]
pub fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => Numeric::of(number).plain(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(entries) => format!(
            "map[string]interface {{}}{{{}}}",
            joined(entries, ", ", |key, entry| format!(
                "{}:{}",
                quote(key),
                go_syntax(entry)
            ))
        ),
    }
}

fn joined(
    entries: &Map<String, Value>,
    separator: &str,
    print: impl Fn(&str, &Value) -> String,
) -> String {
    let entries: Vec<String> = entries
        .iter()
        .map(|(key, entry)| print(key, entry))
        .collect();
    entries.join(separator)
}
