//! The body of an apply: the configuration that its manager wants for an object.

use apimachinery::error::ApiError;
use apimachinery::schema::{self, Encoding, Repeated};
use fieldmanager::go::syntax_error;
use serde_json::Value;

/// The configuration that a manager wants for an object, as it was sent: nothing is pruned, and no
/// default filled in.
#[derive(Debug, Default)]
pub struct Configuration {
    /// The object; null where nothing was sent.
    pub value: Value,
    /// The keys that are there twice.
    pub repeated: Vec<Repeated>,
}

impl Configuration {
    /// Reads a body in YAML or JSON.
    ///
    /// # Errors
    /// 400 for a text that is neither, and for one that is no object.
    pub fn read(bytes: &[u8]) -> Result<Self, ApiError> {
        let refuse = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
        if bytes.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        if !std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_yaml)) {
            let why = "error converting YAML to JSON: yaml: control characters are not allowed";
            return Err(refuse(why.to_owned()));
        }
        if let Some(why) = odd_escape(bytes) {
            return Err(refuse(format!(
                "error converting YAML to JSON: yaml: {why}"
            )));
        }
        // Most clients send JSON, which is YAML too, and much quicker to read as what it is.
        let decoded = schema::decode(bytes, Encoding::Json)
            .or_else(|_| schema::decode(bytes, Encoding::Yaml))
            .map_err(|error| refuse(error.to_string()))?;
        let repeated = if decoded.duplicates.is_empty() {
            Vec::new()
        } else {
            schema::repeated_keys(bytes)
        };
        match decoded.value {
            value @ (Value::Object(_) | Value::Null) => Ok(Self { value, repeated }),
            other => Err(refuse(format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go \
                 value of type map[string]interface {{}}",
                schema::json_type(&other)
            ))),
        }
    }
}

/// Returns whether YAML allows a character as it is. JSON allows more.
const fn is_yaml(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}'
        | '\u{10000}'..)
}

/// Returns the first escape of JSON that is none in YAML, in the words of Go's parser: a slash, and
/// halves of characters beyond 16 bits. Only texts that are JSON are looked at, as a backslash may
/// stand for itself in others.
fn odd_escape(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at + 1..];
        let digits = escape.strip_prefix('u').and_then(|digits| digits.get(..4));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let problem = if escape.starts_with('/') {
            "found unknown escape character"
        } else if code.is_some_and(|code| (0xd800..=0xdfff).contains(&code)) {
            "found invalid Unicode character escape code"
        } else {
            let length = escape.chars().next().map_or(0, char::len_utf8);
            rest = &escape[length..];
            continue;
        };
        if syntax_error(bytes).is_some() {
            return None;
        }
        let before = &text[..text.len() - escape.len()];
        return Some(match before.matches('\n').count() {
            0 => problem.to_owned(),
            lines => format!("line {}: {problem}", lines + 1),
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case(r#"{"a":"\u0041\n\"\\/ \\ud800"}"#, None)]
    #[case(r#"{"a":"x\/y"}"#, Some("found unknown escape character"))]
    #[case(
        "{\"a\":1,\n\"b\":\"\\ud83d\\ude00\"}",
        Some("line 2: found invalid Unicode character escape code")
    )]
    #[case("a: x\\/y", None)]
    #[case("\\", None)]
    #[case("\"\\u", None)]
    fn escapes_that_are_none_in_yaml(#[case] text: &str, #[case] expected: Option<&str>) {
        assert_eq!(odd_escape(text.as_bytes()).as_deref(), expected);
    }
}
