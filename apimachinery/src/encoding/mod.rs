//! JSON and YAML as Go writes them.
//!
//! `encoding/json` escapes `<`, `>`, `&`, U+2028 and U+2029 in strings, prints integral floats
//! without a fraction and ends a document with a line feed; clients that compare bytes see it.

mod yaml;

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

/// A document could not be written in the wanted format.
#[derive(Debug, thiserror::Error)]
pub enum EncodingError {
    /// A value has no JSON form.
    #[error("cannot encode as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The object has no form in protobuf.
    #[error("cannot encode as protobuf: the object has no such form")]
    Protobuf,
}

/// Returns compact JSON without the final line feed.
///
/// # Errors
/// If `value` has a map with keys that are not strings.
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, EncodingError> {
    let mut out = Vec::with_capacity(256);
    write_json(&mut out, value)?;
    Ok(out)
}

/// Appends compact JSON, without the final line feed.
///
/// # Errors
/// As [`to_json`].
pub fn write_json<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    value: &T,
) -> Result<(), EncodingError> {
    let mut serializer = serde_json::Serializer::with_formatter(out, GoFormatter(CompactFormatter));
    value.serialize(&mut serializer)?;
    Ok(())
}

/// Returns JSON indented by two spaces, as `json.MarshalIndent` writes it.
///
/// # Errors
/// As [`to_json`].
pub fn to_json_pretty<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, EncodingError> {
    let mut out = Vec::with_capacity(512);
    let formatter = GoFormatter(PrettyFormatter::with_indent(b"  "));
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
    value.serialize(&mut serializer)?;
    Ok(out)
}

/// Returns YAML with sorted keys, as `sigs.k8s.io/yaml` writes it.
///
/// # Errors
/// As [`to_json`].
pub fn to_yaml<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, EncodingError> {
    // By way of a JSON value, whose maps are sorted.
    let value = serde_json::to_value(value)?;
    let mut out = Vec::with_capacity(512);
    yaml::write(&mut out, &value)?;
    Ok(out)
}

/// A formatter that writes tokens as `encoding/json` does, layout as the inner formatter.
struct GoFormatter<F>(F);

/// Returns a float as Go prints it: shortest form, exponent only below 1e-6 and from 1e21 on.
fn go_float(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        if text.contains("e-") {
            text
        } else {
            text.replace('e', "e+")
        }
    } else {
        format!("{value}")
    }
}

impl<F: Formatter> Formatter for GoFormatter<F> {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(go_float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, tail) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut chars = tail.chars();
            if let Some(special) = chars.next() {
                write!(writer, "\\u{:04x}", u32::from(special))?;
            }
            rest = chars.as_str();
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: serde_json::ser::CharEscape,
    ) -> io::Result<()> {
        self.0.write_char_escape(writer, escape)
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn escapes_what_go_escapes() {
        let text = to_json(&json!({"b": "a<b>&c\u{2028}\"\n", "a": "é"})).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            r#"{"a":"é","b":"a\u003cb\u003e\u0026c\u2028\"\n"}"#
        );
    }

    #[rstest]
    #[case(1.0, "1")]
    #[case(0.5, "0.5")]
    #[case(-0.000_001, "-0.000001")]
    #[case(1e-7, "1e-7")]
    #[case(1e20, "100000000000000000000")]
    #[case(1e21, "1e+21")]
    #[case(1.5e300, "1.5e+300")]
    fn prints_floats_as_go(#[case] value: f64, #[case] expected: &str) {
        assert_eq!(
            String::from_utf8(to_json(&value).unwrap()).unwrap(),
            expected
        );
    }

    #[test]
    fn indents_by_two_spaces_and_leaves_empty_containers_closed() {
        let text = to_json_pretty(&json!({"a": [1], "b": {}, "c": []})).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "{\n  \"a\": [\n    1\n  ],\n  \"b\": {},\n  \"c\": []\n}"
        );
    }
}
