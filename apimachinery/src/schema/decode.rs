//! Reading a request body, strictly enough to find probable mistakes of the client.

use std::fmt::{self, Write as _};

use fieldmanager::go::{quote, syntax_error};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, IgnoredAny, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde_json::{Map, Value};

use super::depth::MAX_DEPTH;
use super::key::{self, KeySeed};
use super::repair::repaired;
use super::told::Told;
use super::yaml::{self, Allowance};

/// Most duplicates that are named; more are counted as one error too many to tell.
const MAX_DUPLICATES: usize = 100;

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/yaml` (1.2); JSON is read as well. The first of several documents counts.
    Yaml,
}

/// A body that could be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The content. The last of several values of one key stays, and numbers are as Go holds them:
    /// whole numbers are integers (also `1.0` and `1e3`, up to 2^53), all others floats.
    pub value: Value,
    /// Keys that occur more than once in their object, in the form of a warning or of `strict
    /// decoding error: `: `duplicate field "spec.x"`. At most 100.
    pub duplicates: Vec<String>,
}

/// A body that could not be read: a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON.
    #[error("couldn't get version/kind; json parse error: {0}")]
    Json(String),
    /// Not YAML.
    #[error("error converting YAML to JSON: yaml: {0}")]
    Yaml(String),
}

/// Decodes a body in time and memory that are proportional to its size, which the caller bounds.
///
/// # Errors
/// If the body is no JSON or YAML, is nested more than [`MAX_DEPTH`] levels deep (127 in
/// `metadata.managedFields`), holds too much by YAML aliases, or has text behind the value.
pub fn decode(body: &[u8], encoding: Encoding) -> Result<Decoded, DecodeError> {
    let mut track = Track::default();
    let value = match encoding {
        Encoding::Json => json(body, &mut track)
            .or_else(|error| match repaired(body) {
                Some(text) => {
                    track = Track::default();
                    json(text.as_bytes(), &mut track)
                }
                None => Err(error),
            })
            .map_err(|err| {
                DecodeError::Json(syntax_error(body).unwrap_or_else(|| err.to_string()))
            })?,
        Encoding::Yaml => {
            yaml::check(body).map_err(|err| DecodeError::Yaml(err.to_string()))?;
            track.allowance = Allowance::of(body);
            // Of several documents the first counts.
            match serde_yaml::Deserializer::from_slice(body).next() {
                Some(document) => Seed(&mut track)
                    .deserialize(document)
                    .map_err(|err| DecodeError::Yaml(err.to_string()))?,
                None => Value::Null,
            }
        }
    };
    Ok(Decoded {
        value,
        duplicates: track.duplicates.into_texts(),
    })
}

/// Returns the keys that occur more than once in a part of a JSON text, which is below the member
/// `name` of the item `index` of a list; none of a text that cannot be read.
#[must_use]
pub fn duplicates_below(text: &str, index: usize, name: &str) -> Vec<String> {
    let mut track = Track {
        path: vec![Segment::Index(index), Segment::Key(name.to_owned())],
        ..Track::default()
    };
    match json(text.as_bytes(), &mut track) {
        Ok(_) => track.duplicates.into_texts(),
        Err(_) => Vec::new(),
    }
}

fn json(body: &[u8], track: &mut Track) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = Seed(track).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// The position of the reader, and its findings.
struct Track {
    path: Vec<Segment>,
    duplicates: Told,
    /// The amount that may still be read.
    allowance: Allowance,
}

impl Default for Track {
    fn default() -> Self {
        Self {
            path: Vec::new(),
            duplicates: Told::at_most(MAX_DUPLICATES),
            allowance: Allowance::UNBOUNDED,
        }
    }
}

enum Segment {
    Key(String),
    Index(usize),
}

impl Track {
    /// Enters a list or an object.
    fn enter<E: serde::de::Error>(&mut self) -> Result<(), E> {
        if self.path.len() >= MAX_DEPTH && !self.is_of_owners() {
            return Err(E::custom(format_args!("exceeded max depth of {MAX_DEPTH}")));
        }
        self.allowance.take(0)
    }

    /// Returns whether this is within `metadata.managedFields`, where a path takes more levels than
    /// the field that it leads to.
    fn is_of_owners(&self) -> bool {
        let key = |index: usize| match self.path.get(index) {
            Some(Segment::Key(key)) => key.as_str(),
            _ => "",
        };
        key(0) == "metadata" && key(1) == "managedFields"
    }

    fn record_duplicate(&mut self, key: &str) {
        if self.duplicates.is_full() {
            return;
        }
        let mut path = String::new();
        for segment in &self.path {
            match segment {
                Segment::Key(key) if path.is_empty() => path.push_str(key),
                Segment::Key(key) => {
                    path.push('.');
                    path.push_str(key);
                }
                Segment::Index(index) => {
                    let _ = write!(path, "[{index}]");
                }
            }
        }
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        let error = format!("duplicate field {}", quote(&path));
        self.duplicates.add_once(error);
    }
}

struct Seed<'t>(&'t mut Track);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "Go holds larger numbers as floats"
)]
impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        self.0.allowance.take::<E>(0)?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.0.allowance.take::<E>(0)?;
        Ok(value.into())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.visit_u128(value.into()),
        }
    }

    /// Reads a number of 128 bits, which only a parser of YAML has.
    fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        if !value.is_finite() {
            return Err(E::custom(format_args!("json: unsupported value: {value}")));
        }
        self.0.allowance.take::<E>(0)?;
        Ok(number(value))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.0.allowance.take::<E>(value.len())?;
        Ok(value.into())
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<Value, E> {
        self.0.allowance.take::<E>(value.len())?;
        Ok(value.into())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        self.0.allowance.take::<E>(0)?;
        Ok(Value::Null)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    /// Reads a value with a tag of its own, which means nothing here.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Value, A::Error> {
        let (_, value) = tagged.variant::<IgnoredAny>()?;
        value.newtype_variant_seed(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let Self(track) = self;
        track.enter::<A::Error>()?;
        let mut items = Vec::new();
        loop {
            track.path.push(Segment::Index(items.len()));
            let item = sequence.next_element_seed(Seed(&mut *track))?;
            track.path.pop();
            match item {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let Self(track) = self;
        track.enter::<A::Error>()?;
        let mut fields = Map::new();
        while let Some(key) = map.next_key_seed(KeySeed)? {
            let key = key::name::<A::Error>(key)?;
            track.allowance.take::<A::Error>(key.len())?;
            if fields.contains_key(&key) {
                track.record_duplicate(&key);
            }
            track.path.push(Segment::Key(key.clone()));
            let value = map.next_value_seed(Seed(&mut *track))?;
            track.path.pop();
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

/// Returns a number the way Go holds it after `1.0` has been written and read back as `1`.
fn number(value: f64) -> Value {
    const LIMIT: f64 = 9_007_199_254_740_991.0;
    if value.fract() == 0.0 && value.abs() <= LIMIT {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole and within the bounds"
        )]
        return (value as i64).into();
    }
    value.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case(r#"{"a":1}"#, json!({"a":1}), &[])]
    #[case(r#"{"a":1,"a":2}"#, json!({"a":2}), &["duplicate field \"a\""])]
    #[case(r#"{"s":{"x":1,"x":1,"x":1}}"#, json!({"s":{"x":1}}), &["duplicate field \"s.x\""])]
    #[case(
        r#"{"r":[{},{"x":[[{"y":0,"y":1}]]}]}"#,
        json!({"r":[{},{"x":[[{"y":1}]]}]}),
        &["duplicate field \"r[1].x[0][0].y\""]
    )]
    #[case(r#"{"a":{"b":1},"a":{"c":2}}"#, json!({"a":{"c":2}}), &["duplicate field \"a\""])]
    #[case(" [1, null, true, \"x\", 1.5] ", json!([1, null, true, "x", 1.5]), &[])]
    fn duplicates_are_named_and_the_last_wins(
        #[case] body: &str,
        #[case] value: Value,
        #[case] duplicates: &[&str],
        #[values(Encoding::Json, Encoding::Yaml)] encoding: Encoding,
    ) {
        let decoded = decode(body.as_bytes(), encoding).unwrap();
        assert_eq!(decoded.value, value);
        assert_eq!(decoded.duplicates, duplicates);
    }

    #[rstest]
    #[case("1.0", json!(1))]
    #[case("-1e3", json!(-1000))]
    #[case("-0.0", json!(0))]
    #[case("9223372036854775807", json!(9_223_372_036_854_775_807_i64))]
    #[case("9223372036854775808", json!(9_223_372_036_854_775_808.0))]
    #[case("0.5", json!(0.5))]
    #[case("1e17", json!(1e17))]
    fn numbers_are_held_as_in_go(#[case] body: &str, #[case] value: Value) {
        let decoded = decode(body.as_bytes(), Encoding::Json).unwrap().value;
        assert_eq!(decoded, value);
        assert_eq!(decoded.is_i64(), value.is_i64());
    }

    #[rstest]
    #[case("922337203685477228175", json!(922_337_203_685_477_228_175.0))]
    #[case("-922337203685477228175", json!(-922_337_203_685_477_228_175.0))]
    #[case("1e3", json!(1000))]
    #[case("{1e6: 1, 922337203685477228175: 2}", json!({"1e+06": 1, "9.223372e+20": 2}))]
    fn so_are_those_of_yaml(#[case] body: &str, #[case] value: Value) {
        let decoded = decode(body.as_bytes(), Encoding::Yaml).unwrap().value;
        assert_eq!(decoded, value);
    }

    #[rstest]
    #[case("")]
    #[case("{")]
    #[case("{\"a\":1")]
    #[case("{\"a\":1}x")]
    #[case("{\"a\":1} {}")]
    #[case("not json")]
    #[case("{\"a\":1e999}")]
    #[case("\u{feff}{}")]
    #[case("{1:2}")]
    fn broken_json_is_refused(#[case] body: &str) {
        let error = decode(body.as_bytes(), Encoding::Json).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("couldn't get version/kind; json parse error: ")
        );
    }

    #[rstest]
    #[case("a: [")]
    #[case("a: .nan")]
    #[case("? ~\n: 1")]
    #[case("? [x]\n: 1")]
    fn broken_yaml_is_refused(#[case] body: &str) {
        let error = decode(body.as_bytes(), Encoding::Yaml).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("error converting YAML to JSON: yaml: "),
            "{error}"
        );
    }

    #[test]
    fn the_first_document_counts_and_tags_do_not() {
        let decoded = decode(b"a: !mine 1\n---\nb: 2\n", Encoding::Yaml).unwrap();
        assert_eq!(decoded.value, json!({"a": 1}));
        assert_eq!(decode(b"", Encoding::Yaml).unwrap().value, Value::Null);
    }

    #[test]
    fn what_is_no_unicode_is_replaced() {
        let decoded = decode(b"{\"a\":\"\xff\\ud800\"}", Encoding::Json).unwrap();
        assert_eq!(decoded.value, json!({"a": "\u{fffd}\u{fffd}"}));
    }

    #[test]
    fn yaml_keys_become_texts() {
        let decoded = decode(b"1: a\ntrue: b\nx: &n {y: 0x10}\nz: *n\n", Encoding::Yaml).unwrap();
        assert_eq!(
            decoded.value,
            json!({"1": "a", "true": "b", "x": {"y": 16}, "z": {"y": 16}})
        );
    }

    #[rstest]
    fn nesting_is_bounded(#[values(Encoding::Json, Encoding::Yaml)] encoding: Encoding) {
        for (open, close) in [("[", "]"), ("{\"a\": ", "}")] {
            let nested = |depth| format!("{}1{}", open.repeat(depth), close.repeat(depth));
            assert!(decode(nested(MAX_DEPTH).as_bytes(), encoding).is_ok());
            for depth in [MAX_DEPTH + 1, 128, 129, 100_000] {
                let error = decode(nested(depth).as_bytes(), encoding).unwrap_err();
                let text = error.to_string();
                let known = text.contains("exceeded max depth")
                    || text.contains("recursion limit exceeded");
                assert!(known, "{depth}: {text}");
            }
        }
    }

    #[test]
    fn the_list_of_duplicates_is_bounded() {
        let fields: Vec<String> = (0..500).map(|n| format!("\"k{n}\":0,\"k{n}\":1")).collect();
        let body = format!("{{{}}}", fields.join(","));
        assert_eq!(
            decode(body.as_bytes(), Encoding::Json)
                .unwrap()
                .duplicates
                .len(),
            100
        );
    }

    proptest::proptest! {
        #[test]
        fn hostile_bodies_never_panic(body in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = decode(&body, Encoding::Json);
            let _ = decode(&body, Encoding::Yaml);
        }

        #[test]
        fn json_like_bodies_never_panic(body in r#"[\[\]{}:,"0-9.eE+\-a-c \\u]{0,60}"#) {
            let _ = decode(body.as_bytes(), Encoding::Json);
            let _ = decode(body.as_bytes(), Encoding::Yaml);
        }
    }
}
