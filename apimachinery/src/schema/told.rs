//! Texts about a body, for the client that sent it.

/// Most bytes of the texts of one kind about one body. A path holds the keys that lead to it, which
/// may be as long as the body: without a bound, a thousand paths below one long key would take a
/// thousand times its size.
pub(super) const MAX_BYTES: usize = 256 * 1024;
/// Most bytes of texts that are made to see whether they were reported before.
const MAX_REPEATED: usize = 16 * MAX_BYTES;

/// Texts, bounded in number and in size.
#[derive(Debug)]
pub(super) struct Told {
    texts: Vec<String>,
    bytes: usize,
    repeated: usize,
    most: usize,
}

impl Told {
    /// Returns an empty list of texts, with room for at most this many.
    pub fn at_most(most: usize) -> Self {
        Self {
            texts: Vec::new(),
            bytes: 0,
            repeated: 0,
            most,
        }
    }

    /// Returns whether no more texts are taken.
    pub fn is_full(&self) -> bool {
        self.texts.len() >= self.most || self.bytes >= MAX_BYTES || self.repeated >= MAX_REPEATED
    }

    /// Adds one more text, unless it is too much.
    pub fn add(&mut self, text: String) {
        if !self.is_full() {
            self.bytes += text.len();
            self.texts.push(text);
        }
    }

    /// Adds one more text, unless it was added before or is too much.
    pub fn add_once(&mut self, text: String) {
        if self.texts.contains(&text) {
            self.repeated += text.len();
        } else {
            self.add(text);
        }
    }

    /// Returns the texts, in order.
    pub fn into_texts(self) -> Vec<String> {
        self.texts
    }

    /// Returns the texts, by alphabet.
    pub fn into_sorted(self) -> Vec<String> {
        let mut texts = self.texts;
        texts.sort();
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_bounded_in_number_and_size() {
        let mut few = Told::at_most(2);
        for text in ["b", "a", "c"] {
            few.add(text.to_owned());
        }
        assert!(few.is_full());
        assert_eq!(few.into_sorted(), ["a", "b"]);
        let mut long = Told::at_most(100);
        for _ in 0..100 {
            long.add("x".repeat(MAX_BYTES / 3));
        }
        assert_eq!(long.into_texts().len(), 4);
    }
    #[test]
    fn what_was_told_costs_its_making() {
        let mut told = Told::at_most(100);
        for _ in 0..MAX_REPEATED / 1000 {
            told.add_once("x".repeat(1000));
        }
        assert!(!told.is_full());
        for _ in 0..1000 {
            told.add_once("x".repeat(1000));
        }
        assert!(told.is_full());
        assert_eq!(told.into_texts().len(), 1);
    }
}
