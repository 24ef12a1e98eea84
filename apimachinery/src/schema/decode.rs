//! Reading a request body, strictly enough to find probable mistakes of the client.

use std::fmt;

use fieldmanager::go::syntax_error;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::number::number;
use super::repair::repaired;
use super::track::{Segment, Track};
use super::yaml;

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/yaml`, with the scalars of YAML 1.1; JSON is read as well. The first of several
    /// documents counts.
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
/// If the body is no JSON or YAML, is nested more than [`super::MAX_DEPTH`] levels deep (127 in
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
            yaml::read(body, &mut track)
                .map_err(|err| DecodeError::Yaml(err.to_string()))?
                .value
        }
    };
    Ok(Decoded {
        value,
        duplicates: track.into_duplicates(),
    })
}

/// Returns the keys that occur more than once in a part of a JSON text, which is below the member
/// `name` of the item `index` of a list; none of a text that cannot be read.
#[must_use]
pub fn duplicates_below(text: &str, index: usize, name: &str) -> Vec<String> {
    let mut track = Track::below(vec![Segment::Index(index), Segment::Key(name.to_owned())]);
    match json(text.as_bytes(), &mut track) {
        Ok(_) => track.into_duplicates(),
        Err(_) => Vec::new(),
    }
}

fn json(body: &[u8], track: &mut Track) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = Seed(track).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// The reader of a value of JSON.
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

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(match i64::try_from(value) {
            Ok(value) => value.into(),
            Err(_) => number(value as f64),
        })
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let Self(track) = self;
        track.check_depth().map_err(A::Error::custom)?;
        let mut items = Vec::new();
        loop {
            track.enter(Segment::Index(items.len()));
            let item = sequence.next_element_seed(Seed(&mut *track))?;
            track.leave();
            match item {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let Self(track) = self;
        track.check_depth().map_err(A::Error::custom)?;
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if fields.contains_key(&key) {
                track.record_duplicate(&key);
            }
            track.enter(Segment::Key(key));
            let value = map.next_value_seed(Seed(&mut *track))?;
            if let Some(key) = track.leave_member() {
                fields.insert(key, value);
            }
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::MAX_DEPTH;
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
    fn the_first_document_counts() {
        let decoded = decode(b"a: !mine 1\n---\nb: 2\n", Encoding::Yaml).unwrap();
        assert_eq!(decoded.value, json!({"a": "1"}));
        assert_eq!(decode(b"", Encoding::Yaml).unwrap().value, Value::Null);
    }

    #[test]
    fn what_is_no_unicode_is_replaced() {
        let decoded = decode(b"{\"a\":\"\xff\\ud800\"}", Encoding::Json).unwrap();
        assert_eq!(decoded.value, json!({"a": "\u{fffd}\u{fffd}"}));
    }

    #[test]
    fn yaml_keys_become_texts() {
        let decoded = decode(b"1: a\ntrue: b\nx: &n {v: 0x10}\nz: *n\n", Encoding::Yaml).unwrap();
        assert_eq!(
            decoded.value,
            json!({"1": "a", "true": "b", "x": {"v": 16}, "z": {"v": 16}})
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
