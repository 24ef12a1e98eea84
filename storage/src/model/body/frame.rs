//! The text of a report in two parts: its content, and the values that a scan changes even where it
//! finds nothing new. The database keeps the first once and the second with each version.
//!
//! Values that are taken out are numbers, timestamps and results of checks. Each leaves [`HOLE`] in
//! the frame, and is in the leaves in order, separated by one space. An empty one equals the one
//! [`STRIDE`] before: a result has its outcome, nanoseconds and seconds. `~n` stands for n of
//! these. In the database, `report_text_v1` puts both together.

use crate::model::projection::hash;

/// The character of a hole, which no JSON text holds.
const HOLE: char = '\u{1}';
const STRIDE: usize = 3;
/// Number of equal leaves from which a run of them is written as a number.
const LONG_RUN: usize = 3;
/// Results of checks, as JSON strings, and their abbreviations in the leaves.
const RESULTS: [(&str, &str); 5] = [
    ("\"pass\"", "p"),
    ("\"fail\"", "f"),
    ("\"warn\"", "w"),
    ("\"error\"", "e"),
    ("\"skip\"", "s"),
];

/// A canonical JSON text in two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Framed {
    /// The text, with holes.
    pub frame: String,
    /// A hash, which is equal for equal frames, and only for those.
    pub hash: i64,
    /// The values in the holes.
    pub leaves: String,
}

impl Framed {
    /// Takes a compact JSON text apart.
    pub fn of(json: &str) -> Self {
        let mut frame = String::with_capacity(json.len());
        let mut leaves = Leaves::default();
        let mut kept = 0;
        for (begin, end) in leaves_of(json) {
            frame.push_str(&json[kept..begin]);
            frame.push(HOLE);
            kept = end;
            leaves.push(&json[begin..end]);
        }
        frame.push_str(&json[kept..]);
        let hash = hash(frame.as_bytes());
        Self {
            frame,
            hash,
            leaves: leaves.end(),
        }
    }
}

/// Leaves as they are written.
#[derive(Default)]
struct Leaves<'a> {
    text: String,
    last: [&'a str; STRIDE],
    count: usize,
    /// Number of leaves at the end that equal earlier ones, and are not written yet.
    run: usize,
}

impl<'a> Leaves<'a> {
    fn push(&mut self, leaf: &'a str) {
        let before = &mut self.last[self.count % STRIDE];
        if *before == leaf {
            self.run += 1;
        } else {
            *before = leaf;
            self.end_run();
            self.write(short(leaf));
        }
        self.count += 1;
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        if run >= LONG_RUN {
            self.write(&format!("~{run}"));
        } else {
            (0..run).for_each(|_| self.write(""));
        }
    }

    /// Writes a leaf. The first one is never an empty one.
    fn write(&mut self, word: &str) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(word);
    }

    fn end(mut self) -> String {
        self.end_run();
        self.text
    }
}

/// Returns the text of the parts; `None` where the parts are not of one text.
pub(crate) fn join(frame: &str, leaves: &str) -> Option<String> {
    let mut pieces = frame.split(HOLE);
    let mut text = String::with_capacity(frame.len() + frame.len() / 8);
    text.push_str(pieces.next()?);
    let mut last = [""; STRIDE];
    let mut count = 0;
    let words = leaves.split(' ').filter(|_| !leaves.is_empty());
    for word in words {
        let (run, leaf) = match word.strip_prefix('~') {
            Some(run) => (run.parse().ok()?, None),
            None if word.is_empty() => (1, None),
            None => (1, Some(long(word))),
        };
        for _ in 0..run {
            let before = &mut last[count % STRIDE];
            count += 1;
            *before = leaf.unwrap_or(before);
            text.push_str(before);
            text.push_str(pieces.next()?);
        }
    }
    pieces.next().is_none().then_some(text)
}

fn short(leaf: &str) -> &str {
    let known = RESULTS.iter().find(|(long, _)| *long == leaf);
    known.map_or(leaf, |(_, short)| short)
}

fn long(leaf: &str) -> &str {
    let known = RESULTS.iter().find(|(_, short)| *short == leaf);
    known.map_or(leaf, |(long, _)| long)
}

/// Returns the places of the values that are taken out, in order.
fn leaves_of(json: &str) -> impl Iterator<Item = (usize, usize)> {
    let bytes = json.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let begin = at;
            match bytes[at] {
                b'"' => {
                    at = string_end(bytes, at);
                    // A key is no value.
                    let value = bytes.get(at) != Some(&b':');
                    if value && is_taken(&json[begin..at]) {
                        return Some((begin, at));
                    }
                }
                b'-' | b'0'..=b'9' => {
                    let number =
                        |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'0'..=b'9' | b'e' | b'E');
                    at += bytes[at..].iter().take_while(|byte| number(byte)).count();
                    return Some((begin, at));
                }
                _ => at += 1,
            }
        }
        None
    })
}

/// Returns the place behind the string that begins at `begin`.
fn string_end(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns whether a string is a result or looks like a timestamp in UTC.
fn is_taken(string: &str) -> bool {
    if string.len() <= "\"error\"".len() {
        return RESULTS.iter().any(|(result, _)| *result == string);
    }
    let bytes = string.as_bytes();
    bytes.len() >= 22
        && bytes.len() <= 32
        && bytes.ends_with(b"Z\"")
        && bytes[5] == b'-'
        && bytes[11] == b'T'
        && bytes[1..bytes.len() - 2]
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'-' | b':' | b'.' | b'T'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{Framed, join};

    fn scan(seconds: u64, result: &str) -> Value {
        let one = |message: &str, result: &str| {
            json!({"message": message, "result": result, "scored": true,
                "timestamp": {"nanos": 0, "seconds": seconds}})
        };
        json!({"kind": "PolicyReport", "results": [one("a", "pass"), one("pass", result)],
            "metadata": {"name": "n", "creationTimestamp": "2026-11-21T08:00:00Z",
                "generation": seconds, "labels": {"a": "7", "b": "2026"}},
            "summary": {"pass": 1, "fail": 1}})
    }

    #[test]
    fn a_scan_that_finds_nothing_new_has_the_same_frame() {
        let one = Framed::of(&scan(1_700_000_000, "fail").to_string());
        let two = Framed::of(&scan(1_800_000_000, "skip").to_string());
        assert_eq!((&one.frame, one.hash), (&two.frame, two.hash));
        assert_eq!(
            one.leaves,
            "\"2026-11-21T08:00:00Z\" 1700000000 p 0   f 0 1700000000 1 1"
        );
        let mut other = scan(1_700_000_000, "fail");
        other["results"][0]["message"] = json!("b");
        assert_ne!(one.hash, Framed::of(&other.to_string()).hash);
    }

    #[test]
    fn what_stays_the_same_is_short() {
        let numbers = vec![5; 40];
        let text = serde_json::to_string(&numbers).unwrap();
        let framed = Framed::of(&text);
        assert_eq!(framed.leaves, "5 5 5 ~37");
        assert_eq!(join(&framed.frame, &framed.leaves), Some(text));
    }

    #[test]
    fn parts_of_different_texts_are_refused() {
        let one = Framed::of(&scan(1, "fail").to_string());
        assert_eq!(join(&one.frame, ""), None);
        assert_eq!(join(&one.frame, &format!("{} 1", one.leaves)), None);
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            Just("pass".to_owned()),
            Just("error".to_owned()),
            Just("2026-11-21T08:00:00Z".to_owned()),
            Just("2026-11-21T08:00:00.123456Z".to_owned()),
            Just("p".to_owned()),
            Just("1 2".to_owned()),
            "[a-z\"\\\\ 0-9é\u{1}\n:]{0,24}",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_text_comes_back(value in json_value()) {
            let text = value.to_string();
            let framed = Framed::of(&text);
            prop_assert_eq!(join(&framed.frame, &framed.leaves), Some(text));
        }
    }
}
