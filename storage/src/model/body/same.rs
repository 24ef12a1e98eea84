//! The comparison of an object with a stored text, which is not parsed for it.

use std::io;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value};

use super::Body;

impl Body {
    /// Returns whether the text with resourceVersion `rv` is that of `object`, with `api_version`
    /// in place of its own, and is read as that object. Where it is not certain, the answer is no.
    ///
    /// Nothing is read behind the first difference, and the part after `metadata` is decompressed
    /// only where there is none before it.
    pub(in crate::model) fn is_of(
        &self,
        rv: u64,
        object: &Map<String, Value>,
        api_version: &str,
    ) -> bool {
        let mut text = Vec::with_capacity(self.layout.len() + 64);
        if self.append_head(&mut text).is_err() {
            return false;
        }
        self.layout.splice(&mut text, 0, 0, rv, None);
        let mut expected = Expected {
            body: self,
            text,
            at: 0,
            is_whole: false,
        };
        let object = Versioned {
            object,
            api_version,
        };
        let mut serializer = serde_json::Serializer::with_formatter(&mut expected, ReadBack);
        object.serialize(&mut serializer).is_ok() && expected.is_at_end()
    }
}

/// An object in another version.
struct Versioned<'a> {
    object: &'a Map<String, Value>,
    api_version: &'a str,
}

impl Serialize for Versioned<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.object.len()))?;
        for (key, value) in self.object {
            if key == "apiVersion" {
                map.serialize_entry(key, self.api_version)?;
            } else {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

/// A text that takes no other than itself.
struct Expected<'a> {
    body: &'a Body,
    text: Vec<u8>,
    /// The length of what was written.
    at: usize,
    /// True when the part after `metadata` is there.
    is_whole: bool,
}

impl Expected<'_> {
    fn is_at_end(&self) -> bool {
        self.is_whole && self.at == self.text.len()
    }
}

impl io::Write for Expected<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if !self.is_whole && self.text.len() - self.at < part.len() {
            self.body
                .append_tail(&mut self.text)
                .map_err(io::Error::other)?;
            self.is_whole = true;
        }
        if !self.text[self.at..].starts_with(part) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.at += part.len();
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A formatter that writes floats as Go does, but none whose text is read as another number: a
/// large float may look like an integer.
struct ReadBack;

impl serde_json::ser::Formatter for ReadBack {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let text = fieldmanager::go::float(value);
        let read: Option<Number> = serde_json::from_str(&text).ok();
        if read != Number::from_f64(value) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        writer.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::{Dictionary, Encoded, canonical_json};
    use super::*;

    const VERSION: &str = "g/v1";

    fn body(object: &Value) -> Body {
        Encoded::from_value(object, Dictionary::built_in())
            .unwrap()
            .body
    }

    fn text(body: &Body) -> Vec<u8> {
        let mut text = Vec::new();
        body.append_json(&mut text, 7, None).unwrap();
        text
    }

    fn is_of(body: &Body, object: &Value) -> bool {
        body.is_of(7, object.as_object().unwrap(), VERSION)
    }

    fn report() -> Value {
        json!({"apiVersion": VERSION, "kind": "K", "results": [{"message": "é\n", "n": 1.5}],
            "metadata": {"labels": {"a": "b"}, "name": "n", "resourceVersion": "7", "uid": "u"}})
    }

    #[test]
    fn an_object_is_told_from_others() {
        let stored = body(&report());
        assert!(is_of(&stored, &report()));
        let mut other_version = report();
        other_version["apiVersion"] = json!("g/v2");
        assert!(is_of(&stored, &other_version));
        for (pointer, value) in [
            ("/kind", json!("L")),
            ("/metadata/resourceVersion", json!("8")),
            ("/metadata/labels", json!({"a": "b", "c": ""})),
            ("/metadata/labels", json!({})),
            ("/metadata/uid", json!("uu")),
            ("/results", json!([])),
            ("/results/0/n", json!(1)),
            ("/results/0/message", json!("e\n")),
        ] {
            let mut other = report();
            *other.pointer_mut(pointer).unwrap() = value;
            assert!(!is_of(&stored, &other), "{other}");
        }
        for added in ["a", "l", "z"] {
            let mut other = report();
            other[added] = json!(1);
            assert!(!is_of(&stored, &other), "{other}");
            assert!(!is_of(&body(&other), &report()), "{other}");
        }
    }

    #[test]
    fn the_version_that_is_stored_counts() {
        let mut old = report();
        old["apiVersion"] = json!("g/v0");
        assert!(!is_of(&body(&old), &report()));
    }

    #[test]
    fn a_float_that_looks_like_an_integer_is_not_certain() {
        let mut object = report();
        object["results"] = json!(1e17);
        let stored = body(&object);
        assert_eq!(text(&stored), canonical_json(&object).unwrap());
        assert!(!is_of(&stored, &object));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            (-4_i32..4).prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
            "[a-c\"\\\\é\u{1}]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]{0,2}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Returns an object with one of a few contents, so that two of them are often equal.
    fn object() -> impl Strategy<Value = Value> {
        let field = prop::sample::select(vec!["aa", "kind", "results", "zz"]);
        let content = prop::collection::btree_map(field, any_json(), 0..3);
        let label = prop::sample::select(vec![json!({}), json!({"a": ""}), json!({"a": "b"})]);
        (content, label).prop_map(|(content, labels)| {
            let mut object = json!({"apiVersion": VERSION,
                "metadata": {"name": "n", "labels": labels, "resourceVersion": "7"}});
            for (field, value) in content {
                object[field] = value;
            }
            object
        })
    }

    proptest! {
        #[test]
        fn it_is_equality_of_the_texts(first in object(), second in object(), same: bool) {
            let second = if same { first.clone() } else { second };
            let stored = body(&first);
            let text = text(&stored);
            let is_equal = canonical_json(&second).unwrap() == text
                && serde_json::from_slice::<Value>(&text).unwrap() == second;
            prop_assert_eq!(is_of(&stored, &second), is_equal, "{} {}", first, second);
        }
    }
}
