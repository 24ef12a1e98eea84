//! Keys that a YAML text has twice, in the words of Go's strict decoder.

use std::collections::BTreeSet;
use std::fmt;

use fieldmanager::go::go_syntax;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::key::KeySeed;
use super::yaml::{self, Allowance};

/// Most keys that are reported. The text is read once more for each.
const MAX: usize = 10;

/// A key that is in its map for the second time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The line where its value begins, from one.
    pub line: usize,
    /// The key as Go writes it: a text in quotes, a number or a boolean without.
    pub key: String,
}

impl fmt::Display for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, key } = self;
        write!(f, "line {line}: key {key} already set in map")
    }
}

/// Returns the repeated keys of the first document of a YAML text that can be read, in order, at
/// most ten.
#[must_use]
pub fn repeated_keys(text: &[u8]) -> Vec<Repeated> {
    if yaml::check(text).is_err() {
        return Vec::new();
    }
    // Only the error about a value tells its line: so each one is made an error.
    let nth = |skip| {
        let mut search = Search {
            skip,
            found: None,
            allowance: Allowance::of(text),
        };
        let document = serde_yaml::Deserializer::from_slice(text).next()?;
        let error = Walk(&mut search).deserialize(document);
        let line = error.err()?.location()?.line();
        search.found.map(|key| Repeated { line, key })
    };
    (0..MAX).map_while(nth).collect()
}

struct Search {
    skip: usize,
    found: Option<String>,
    /// The amount that may still be read.
    allowance: Allowance,
}

impl Search {
    /// Returns whether this is the key that is looked for.
    fn meets(&mut self, key: &str) -> bool {
        if self.skip == 0 {
            self.found = Some(key.to_owned());
            return true;
        }
        self.skip -= 1;
        false
    }
}

struct Walk<'s>(&'s mut Search);

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.0.allowance.take(0)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.0.allowance.take(0)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.0.allowance.take(0)
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<(), E> {
        self.0.allowance.take(0)
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<(), E> {
        self.0.allowance.take(0)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.0.allowance.take(0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.allowance.take(text.len())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.0.allowance.take(0)
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.0.allowance.take(0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.0.allowance.take::<A::Error>(0)?;
        while items.next_element_seed(Walk(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.allowance.take::<A::Error>(0)?;
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key_seed(KeySeed)? {
            let key = go_syntax(&key);
            self.0.allowance.take::<A::Error>(key.len())?;
            if seen.contains(&key) && self.0.meets(&key) {
                return map.next_value_seed(Refuse);
            }
            seen.insert(key);
            map.next_value_seed(Walk(&mut *self.0))?;
        }
        Ok(())
    }
}

/// A seed that fails at any value, where it begins.
struct Refuse;

impl<'de> DeserializeSeed<'de> for Refuse {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Refuse {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let keys = repeated_keys(text.as_bytes());
        keys.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_is_told_with_its_line() {
        let yaml = "a: 1\nb:\n  c: 1\n  d: [{x: 1, x: 2}]\n  c:\n    e: 1\na: 2\n";
        assert_eq!(
            found(yaml),
            [
                "line 4: key \"x\" already set in map",
                "line 6: key \"c\" already set in map",
                "line 7: key \"a\" already set in map",
            ]
        );
        assert_eq!(
            found(r#"{"a":{"b":1,"b":null}}"#),
            ["line 1: key \"b\" already set in map"]
        );
        assert_eq!(
            found("1: a\n1e6: b\n\"1\": c\n1: d\n1e6: e\n"),
            [
                "line 4: key 1 already set in map",
                "line 5: key 1e+06 already set in map",
            ]
        );
    }

    #[test]
    fn most_texts_have_none() {
        for text in ["", "a: 1\nb: {a: 1}\n", "[1, 2.5, true, ~]", "{", "x"] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn they_are_bounded() {
        assert_eq!(found(&"a: 1\n".repeat(1000)).len(), MAX);
        assert_eq!(found(&format!("a: 1\na: {}", "[".repeat(100_000))), [""; 0]);
    }

    #[test]
    fn only_the_first_document_counts() {
        let all = found("a: 1\na: 2\n---\nb: 1\nb: 2\n");
        assert_eq!(all, ["line 2: key \"a\" already set in map"]);
    }
}
