//! The state that has to be reached once an action was carried out.

/// The state that has to be reached within a minute after an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Clients are served as the specification asks, and `Ready` says so.
    Served,
    /// The request is refused with one of these words, or `Stalled` has one of them; clients are
    /// served as before.
    Refused(&'static [&'static str]),
    /// Clients are served, and this condition has this status and one of these words.
    Told(&'static str, &'static str, &'static [&'static str]),
    /// Nobody is served, as was asked for; `Ready` is not true and has one of these words.
    Away(&'static [&'static str]),
}

/// Returns whether a message has one of the words; no words are in every message.
#[must_use]
pub fn has(message: &str, words: &[&str]) -> bool {
    words.is_empty() || words.iter().any(|word| message.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_the_words_is_enough() {
        assert!(has(
            "spec.server.replicas: no",
            &["autoscaling", "replicas"]
        ));
        assert!(!has("spec.server: no", &["autoscaling", "replicas"]));
        assert!(has("anything", &[]));
    }
}
