//! Labels of an object, kept beside its compressed body.

use std::collections::BTreeMap;
use std::fmt;

use memchr::{memchr, memchr_iter};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Labels in one allocation, sorted by key.
///
/// Ten thousand reports with eight labels each are kept all the time, so a map of strings would be
/// most of an object's memory. Objects have few labels: a scan is as quick as a search.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels(
    /// `key NUL value NUL` for each label. NUL can be in neither.
    Box<str>,
);

impl Labels {
    /// Returns the value of the label `key`. A list by a label that has no index calls this for
    /// every object.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut rest = &*self.0;
        loop {
            let value = rest.strip_prefix(key).and_then(|r| r.strip_prefix('\0'));
            if let Some(value) = value {
                return value.get(..memchr(0, value.as_bytes())?);
            }
            let mut ends = memchr_iter(0, rest.as_bytes());
            rest = rest.get(ends.nth(1)? + 1..)?;
        }
    }

    /// Returns all labels, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut parts = self.0.split_terminator('\0');
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }

    /// Returns true when there is no label.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the memory held, in bytes.
    #[must_use]
    pub(crate) fn memory(&self) -> usize {
        self.0.len()
    }
}

impl apimachinery::selector::Labels for Labels {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key)
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    /// Collects labels, which must come sorted by key and without duplicates.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let mut text = String::new();
        for (key, value) in labels {
            for part in [key.as_ref(), value.as_ref()] {
                text.push_str(part);
                text.push('\0');
            }
        }
        Self(text.into_boxed_str())
    }
}

/// Writes the labels as a JSON object.
impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(BTreeMap::<String, String>::deserialize(deserializer)?
            .into_iter()
            .collect())
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Labels;

    #[test]
    fn labels_with_empty_values_are_kept_apart() {
        let labels: Labels = [("a", ""), ("b", "1"), ("c", "")].into_iter().collect();
        assert_eq!(
            labels.iter().collect::<Vec<_>>(),
            [("a", ""), ("b", "1"), ("c", "")]
        );
        assert_eq!(labels.get("a"), Some(""));
        assert_eq!(labels.get("b"), Some("1"));
        assert_eq!(labels.get("c"), Some(""));
        assert_eq!(labels.get("d"), None);
        assert_eq!(labels.get(""), None);
        assert!(Labels::default().is_empty());
    }
}
