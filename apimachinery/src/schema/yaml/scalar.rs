//! Texts, and the values that they are written for, by the rules of `go.yaml.in/yaml/v2`
//! (`resolve.go`): those of YAML 1.1, with most of 1.2.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::GeneralPurposeConfig;
use granit_parser::{ScalarStyle, Tag};

use super::error::YamlError;
use crate::schema::repair::replaced;

/// The prefix of the tags that YAML defines.
const YAML: &str = "tag:yaml.org,2002:";
/// Base64 whose last bits may be any.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// A text in a document.
#[derive(Debug)]
pub struct Scalar<'t> {
    text: Cow<'t, str>,
    meant: Meant,
}

/// The types that a text may be meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meant {
    /// Any type that the text fits.
    Any,
    /// A text: it is in quotes, or has a tag for texts, times, or of its own.
    Text,
    /// Null.
    Null,
    /// A boolean.
    Bool,
    /// An integer.
    Int,
    /// Any number.
    Float,
    /// Bytes in base64.
    Binary,
    /// The key whose value is merged.
    Merge,
}

/// The value of a text.
#[derive(Debug, PartialEq)]
pub enum Resolved<'s> {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A larger one.
    Large(u64),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(Cow<'s, str>),
}

impl<'t> Scalar<'t> {
    /// Returns a text of the parser.
    pub fn new(text: Cow<'t, str>, style: ScalarStyle, tag: Option<&Tag>) -> Self {
        let meant = match tag {
            None if style == ScalarStyle::Plain => Meant::Any,
            None => Meant::Text,
            Some(tag) => Meant::by(tag),
        };
        Self { text, meant }
    }

    /// Returns the number of its bytes.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Returns whether this is the key `<<`, whose value is merged into the map around it.
    pub fn is_merge(&self) -> bool {
        self.text == "<<" && matches!(self.meant, Meant::Any | Meant::Merge)
    }

    /// Returns the value; errors name this line.
    ///
    /// # Errors
    /// If it is not of the type that its tag says.
    pub fn resolve(&self, line: usize) -> Result<Resolved<'_>, YamlError> {
        let text = || Resolved::Text(Cow::Borrowed(&*self.text));
        let found = match self.meant {
            Meant::Text | Meant::Merge => return Ok(text()),
            Meant::Binary => return binary(&self.text),
            _ => inferred(&self.text).unwrap_or_else(text),
        };
        let tag = match (self.meant, &found) {
            (Meant::Any, _)
            | (Meant::Null, Resolved::Null)
            | (Meant::Bool, Resolved::Bool(_))
            | (Meant::Int, Resolved::Int(_) | Resolved::Large(_))
            | (Meant::Float, Resolved::Float(_)) => return Ok(found),
            (Meant::Float, Resolved::Int(int)) => return Ok(Resolved::Float(float(*int))),
            (Meant::Null, _) => "!!null",
            (Meant::Bool, _) => "!!bool",
            (Meant::Int, _) => "!!int",
            _ => "!!float",
        };
        let text = self.text.to_string();
        Err(YamlError::Tag { line, text, tag })
    }
}

impl Meant {
    /// Returns the type that a tag is for.
    fn by(tag: &Tag) -> Self {
        match tag.suffix_in_namespace(YAML).as_deref() {
            Some("null") => Self::Null,
            Some("bool") => Self::Bool,
            Some("int") => Self::Int,
            Some("float") => Self::Float,
            Some("binary") => Self::Binary,
            Some("merge") => Self::Merge,
            _ => Self::Text,
        }
    }
}

/// Returns what a text looks like; none for a text.
fn inferred(text: &str) -> Option<Resolved<'_>> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Resolved::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Resolved::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Resolved::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => Resolved::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Resolved::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Resolved::Float(f64::NEG_INFINITY),
        _ => return number(text),
    })
}

/// Returns the number that a text looks like; underscores do not count.
fn number(text: &str) -> Option<Resolved<'static>> {
    match text.as_bytes().first()? {
        b'.' => decimal(text),
        b'0'..=b'9' | b'+' | b'-' if text.contains('_') => {
            let text = text.replace('_', "");
            integer(&text).or_else(|| decimal(&text))
        }
        b'0'..=b'9' | b'+' | b'-' => integer(text).or_else(|| decimal(text)),
        _ => None,
    }
}

/// Reads an integer in the notation of Go, in which a leading zero means octal digits, too.
fn integer(text: &str) -> Option<Resolved<'static>> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', ..] => (2, &unsigned[2..]),
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let size = u64::from_str_radix(digits, radix).ok()?;
    if text.starts_with('-') {
        return 0_i64.checked_sub_unsigned(size).map(Resolved::Int);
    }
    match i64::try_from(size) {
        Ok(int) => Some(Resolved::Int(int)),
        Err(_) => (!text.starts_with('+')).then_some(Resolved::Large(size)),
    }
}

/// Reads a number with a fraction or an exponent. One that no double can hold is a text.
fn decimal(text: &str) -> Option<Resolved<'static>> {
    let is_part = |byte: u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    let value: f64 = text.bytes().all(is_part).then(|| text.parse().ok())??;
    value.is_finite().then_some(Resolved::Float(value))
}

#[expect(clippy::cast_precision_loss, reason = "so does Go")]
const fn float(int: i64) -> f64 {
    int as f64
}

/// Reads bytes in base64, as a text.
fn binary(text: &str) -> Result<Resolved<'static>, YamlError> {
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = BASE64.decode(text).map_err(|_| YamlError::Binary)?;
    Ok(Resolved::Text(Cow::Owned(replaced(&bytes))))
}
