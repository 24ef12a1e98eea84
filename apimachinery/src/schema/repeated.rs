//! Keys that a YAML text has twice, in the words of Go's strict decoder.

use std::fmt;

use super::track::Track;
use super::yaml;

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

/// Returns the repeated keys of the first document of a YAML text, in order, at most 100; none of a
/// text that cannot be read.
#[must_use]
pub fn repeated_keys(text: &[u8]) -> Vec<Repeated> {
    match yaml::read(text, &mut Track::default()) {
        Ok(read) => read.repeated,
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::told::MAX_BYTES;
    use crate::schema::track::MAX_DUPLICATES;

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
        assert_eq!(found(&"a: 1\n".repeat(1000)).len(), MAX_DUPLICATES);
        let long = "k".repeat(MAX_BYTES / 2);
        let keys = format!("? &k {long}\n{}", "? *k\n".repeat(1000));
        assert!(found(&keys).len() <= 3);
        assert_eq!(found(&format!("a: 1\na: {}", "[".repeat(100_000))), [""; 0]);
    }

    #[test]
    fn only_the_first_document_counts() {
        let all = found("a: 1\na: 2\n---\nb: 1\nb: 2\n");
        assert_eq!(all, ["line 2: key \"a\" already set in map"]);
    }
}
