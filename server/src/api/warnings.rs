//! `Warning` headers.

use apimachinery::mutation::{Mutation, broken};
use axum::response::Response;
use http::header::{HeaderName, HeaderValue};

/// Most characters of all warnings of an answer; beyond them each is cut.
const MAX_TOTAL: usize = 4 * 1024;
/// Most characters of one warning where they are cut.
const MAX_ITEM: usize = 256;

const WARNING: HeaderName = HeaderName::from_static("warning");

/// Adds a header for each text.
pub fn add(response: &mut Response, seen: Vec<String>) {
    if broken(Mutation::WarningsDropped) {
        return;
    }
    let total: usize = seen.iter().map(|text| text.chars().count()).sum();
    let mut written = 0;
    for text in seen {
        let text: String = if total > MAX_TOTAL {
            text.chars().take(MAX_ITEM).collect()
        } else {
            text
        };
        // The last one may go beyond.
        if written >= MAX_TOTAL {
            break;
        }
        if let Some(value) = header(&text) {
            written += text.chars().count();
            response.headers_mut().append(WARNING, value);
        }
    }
}

/// Returns the header `299 - "text"`, quoted as RFC 7234 wants it; none for a text with control
/// characters, which the kube-apiserver leaves out.
fn header(text: &str) -> Option<HeaderValue> {
    if text.chars().any(char::is_control) {
        return None;
    }
    let mut quoted = String::with_capacity(text.len() + 8);
    quoted.push_str("299 - \"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    HeaderValue::from_bytes(quoted.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(warnings: &[&str]) -> Vec<String> {
        let mut response = Response::default();
        let collected = crate::registry::Warnings::default();
        collected.add(warnings.iter().map(|w| (*w).to_owned()));
        add(&mut response, collected.take());
        let values = response.headers().get_all(WARNING).iter();
        values
            .map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
            .collect()
    }

    #[test]
    fn each_once_and_quoted() {
        assert_eq!(
            added(&["unknown field \"a\"", "x\ny", "y\\", "unknown field \"a\""]),
            ["299 - \"unknown field \\\"a\\\"\"", "299 - \"y\\\\\""]
        );
    }

    #[test]
    fn bounded_in_sum() {
        let long: Vec<String> = (0..100)
            .map(|i| format!("{i:03}{}", "é".repeat(1000)))
            .collect();
        let texts: Vec<&str> = long.iter().map(String::as_str).collect();
        let got = added(&texts);
        assert_eq!(got.len(), 16);
        assert_eq!(got[0].chars().count(), 256 + 8);
    }
}
