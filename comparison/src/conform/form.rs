//! The form of a JSON text, beside its content: order of keys, repeated keys, numbers.

use apimachinery::schema::Members;
use serde_json::value::RawValue;

/// Returns the keys in their order and the numbers as they are written; texts and the numbers that
/// differ from run to run are not part of it.
#[must_use]
pub fn form(raw: &str) -> String {
    let mut out = String::new();
    for value in serde_json::Deserializer::from_str(raw).into_iter::<&RawValue>() {
        match value {
            Ok(value) => write(value.get(), &mut out),
            Err(_) => break,
        }
        out.push('\n');
    }
    out
}

fn write(raw: &str, out: &mut String) {
    match raw.trim_start().as_bytes().first() {
        Some(b'{') => {
            let Ok(Members(members)) = serde_json::from_str(raw) else {
                return;
            };
            out.push('{');
            for (key, value) in members {
                // The order of owners depends on times.
                if key == "managedFields" {
                    continue;
                }
                out.push_str(&key);
                out.push(':');
                write(value.get(), out);
                out.push(',');
            }
            out.push('}');
        }
        Some(b'[') => {
            let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw) else {
                return;
            };
            out.push('[');
            for item in items {
                write(item.get(), out);
                out.push(',');
            }
            out.push(']');
        }
        Some(b'"') => out.push('s'),
        _ => out.push_str(raw.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_numbers_are_seen() {
        assert_eq!(form(r#"{"b":1,"a":"x"}"#), "{b:1,a:s,}\n");
        assert_ne!(form(r#"{"b":1,"a":2}"#), form(r#"{"a":2,"b":1}"#));
        assert_ne!(form("[1.0]"), form("[1]"));
        assert_eq!(form(r#"{"a":1,"a":[true]}"#), "{a:1,a:[true,],}\n");
        assert_eq!(form("{} {}"), "{}\n{}\n");
    }
}
