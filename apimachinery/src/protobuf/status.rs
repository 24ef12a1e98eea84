//! `Status`.

use serde_json::Value;

use super::meta::list_meta;
use super::writer::Writer;

/// Returns a `Status`, without its envelope.
pub(super) fn status(status: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    out.message(1, |meta| list_meta(meta, &status["metadata"]));
    for (field, name) in [(2, "status"), (3, "message"), (4, "reason")] {
        out.text(field, text(status, name));
    }
    if status["details"].is_object() {
        out.message(5, |out| details(out, &status["details"]));
    }
    out.number(6, status["code"].as_i64().unwrap_or_default());
    out.into_bytes()
}

fn details(out: &mut Writer, details: &Value) {
    for (field, name) in [(1, "name"), (2, "group"), (3, "kind")] {
        out.text(field, text(details, name));
    }
    for cause in details["causes"].as_array().into_iter().flatten() {
        out.message(4, |out| {
            for (field, name) in [(1, "reason"), (2, "message"), (3, "field")] {
                out.text(field, text(cause, name));
            }
        });
    }
    let seconds = details["retryAfterSeconds"].as_i64();
    out.number(5, seconds.unwrap_or_default());
    out.text(6, text(details, "uid"));
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}
