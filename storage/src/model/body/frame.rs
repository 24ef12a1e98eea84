//! The text of a report in two parts: its content, and the values that a scan changes even where it
//! finds nothing new. The database keeps the first once and the second with each version.
//!
//! Values that are taken out are numbers, timestamps and results of checks. Each leaves [`HOLE`] in
//! the frame, and is in the leaves in order, separated by one space. An empty one equals the one
//! [`STRIDE`] before: a result has its outcome, nanoseconds and seconds. `~n` stands for n of
//! these.
//!
//! Messages stay in the frame, each between two [`MARK`]s, whatever they say. A new verdict comes with
//! a new message: it is written behind the leaves and a mark, in an object of JSON that has it under
//! its number among the messages of the frame. In the database, `report_text_v1` puts everything
//! together.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::model::projection::hash;

/// The character of a hole, which no JSON text holds.
const HOLE: char = '\u{1}';
/// The character on both sides of a message, which no JSON text holds either.
const MARK: char = '\u{2}';
const STRIDE: usize = 3;
/// Number of equal leaves from which a run of them is written as a number.
const LONG_RUN: usize = 3;
/// The part of a frame that messages beside it may be as long as; longer ones make a new frame. So
/// `commit_v2` has it, too: both rows of a write have these messages, and the frame is compressed.
const BESIDE: usize = 16;
/// The key of a message, as it is before it.
const MESSAGE: &[u8] = b"\"message\":";
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
    /// The difference from the frame of the text before; `None` where it is not known, or where the
    /// frames differ in more than a few messages.
    pub difference: Option<Difference>,
}

/// The change that makes another frame of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The hash of the one.
    pub base: i64,
    /// The messages of the other that are new, as a JSON object by number.
    pub messages: String,
}

impl Framed {
    /// Takes a compact JSON text apart.
    pub fn of(json: &str) -> Self {
        let mut leaves = Leaves::default();
        let frame = frame_of(json, |leaf| leaves.push(leaf));
        Self {
            hash: hash(frame.as_bytes()),
            frame,
            leaves: leaves.end(),
            difference: None,
        }
    }

    /// Takes a compact JSON text apart that replaces the text `before`.
    pub fn replacing(json: &str, before: &str) -> Self {
        let this = Self::of(json);
        let difference = this.difference_from(&frame_of(before, |_| ()));
        Self { difference, ..this }
    }

    fn difference_from(&self, before: &str) -> Option<Difference> {
        if self.frame == before {
            return None;
        }
        let (mut new, mut old) = (self.frame.split(MARK), before.split(MARK));
        let mut messages = BTreeMap::new();
        for number in 0_usize.. {
            // What is around the messages is the same.
            if new.next()? != old.next()? {
                return None;
            }
            match (new.next(), old.next()) {
                (None, None) => break,
                (Some(message), old) if old != Some(message) => {
                    messages.insert(number, message);
                }
                _ => {}
            }
        }
        let messages = serde_json::to_string(&messages).ok()?;
        (messages.len() <= self.frame.len() / BESIDE).then(|| Difference {
            base: hash(before.as_bytes()),
            messages,
        })
    }
}

/// Returns the frame of a compact JSON text, and hands over its leaves in order.
fn frame_of<'a>(json: &'a str, mut leaf: impl FnMut(&'a str)) -> String {
    let mut frame = String::with_capacity(json.len() + json.len() / 32);
    let mut kept = 0;
    for (part, begin, end) in parts_of(json) {
        frame.push_str(&json[kept..begin]);
        match part {
            Part::Leaf => {
                frame.push(HOLE);
                leaf(&json[begin..end]);
            }
            Part::Message => {
                frame.push(MARK);
                frame.push_str(&json[begin..end]);
                frame.push(MARK);
            }
        }
        kept = end;
    }
    frame.push_str(&json[kept..]);
    frame
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
    let (leaves, frame) = match leaves.split_once(MARK) {
        Some((leaves, messages)) => (leaves, Cow::Owned(with_messages(frame, messages)?)),
        None => (leaves, Cow::Borrowed(frame)),
    };
    let mut pieces = frame.split(HOLE);
    let mut text = String::with_capacity(frame.len() + frame.len() / 8);
    text.extend(pieces.next()?.split(MARK));
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
            text.extend(pieces.next()?.split(MARK));
        }
    }
    pieces.next().is_none().then_some(text)
}

/// Returns the frame with some of its messages replaced, without marks; `None` where it does not have
/// them.
fn with_messages(frame: &str, messages: &str) -> Option<String> {
    let mut messages: BTreeMap<usize, String> = serde_json::from_str(messages).ok()?;
    let mut replaced = String::with_capacity(frame.len() + frame.len() / BESIDE);
    for (place, piece) in frame.split(MARK).enumerate() {
        let is_message = place % 2 == 1;
        let message = is_message.then(|| messages.remove(&(place / 2))).flatten();
        replaced.push_str(message.as_deref().unwrap_or(piece));
    }
    messages.is_empty().then_some(replaced)
}

fn short(leaf: &str) -> &str {
    let known = RESULTS.iter().find(|(long, _)| *long == leaf);
    known.map_or(leaf, |(_, short)| short)
}

fn long(leaf: &str) -> &str {
    let known = RESULTS.iter().find(|(_, short)| *short == leaf);
    known.map_or(leaf, |(long, _)| long)
}

/// A part of a text that is apart from what is around it.
#[derive(Clone, Copy)]
enum Part {
    /// A number, a timestamp or a result, which is taken out.
    Leaf,
    /// The text of a message, without its quotes.
    Message,
}

/// Returns the places of the leaves and messages of a text, in order.
fn parts_of(json: &str) -> impl Iterator<Item = (Part, usize, usize)> {
    let bytes = json.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let begin = at;
            match bytes[at] {
                b'"' => {
                    at = string_end(bytes, at);
                    // A key is no value.
                    if bytes.get(at) == Some(&b':') {
                        continue;
                    }
                    if bytes[..begin].ends_with(MESSAGE) {
                        return Some((Part::Message, begin + 1, at - 1));
                    }
                    if is_taken(&json[begin..at]) {
                        return Some((Part::Leaf, begin, at));
                    }
                }
                b'-' | b'0'..=b'9' => {
                    let number =
                        |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'0'..=b'9' | b'e' | b'E');
                    at += bytes[at..].iter().take_while(|byte| number(byte)).count();
                    return Some((Part::Leaf, begin, at));
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

    use super::{BESIDE, Framed, MARK, join};

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
            "\"2026-11-21T08:00:00Z\" 1700000000 p 0  f   1 1"
        );
        let mut other = scan(1_700_000_000, "fail");
        other["results"][0]["message"] = json!("b");
        assert_ne!(one.hash, Framed::of(&other.to_string()).hash);
    }

    /// A result with a message.
    fn said(message: &str, result: &str) -> Value {
        json!({"message": message, "policy": "p", "result": result, "timestamp": {"seconds": 1}})
    }

    fn report_of(results: &[Value]) -> String {
        json!({"metadata": {"name": "n"}, "results": results, "summary": {"fail": 1},
            "texts": vec!["no message"; 40]})
        .to_string()
    }

    /// Returns the text that a database has after `change` has replaced `before`.
    fn stored(before: &Framed, change: &Framed) -> Option<String> {
        let difference = change.difference.as_ref()?;
        assert_eq!(difference.base, before.hash);
        let leaves = format!("{}{MARK}{}", change.leaves, difference.messages);
        join(&before.frame, &leaves)
    }

    #[test]
    fn a_new_message_is_beside_the_frame() {
        let old = report_of(&[said("it is \"well\"", "pass"), said("as before", "fail")]);
        let before = Framed::of(&old);
        for (message, difference) in [
            ("", r#"{"0":""}"#),
            ("pass", r#"{"0":"pass"}"#),
            ("2026-11-21T08:00:00Z", r#"{"0":"2026-11-21T08:00:00Z"}"#),
            ("is\n\u{0} \\not", r#"{"0":"is\\n\\u0000 \\\\not"}"#),
        ] {
            let new = report_of(&[said(message, "fail"), said("as before", "fail")]);
            let change = Framed::replacing(&new, &old);
            let messages = &change.difference.as_ref().unwrap().messages;
            assert_eq!(messages, difference);
            assert_eq!(stored(&before, &change), Some(new.clone()));
            assert_eq!(change.hash, Framed::of(&new).hash);
        }
    }

    #[test]
    fn what_differs_in_more_than_messages_has_a_frame_of_its_own() {
        let old = report_of(&[said("a message", "pass")]);
        let added = report_of(&[said("a message", "pass"), said("another one", "pass")]);
        let mut renamed = said("b message", "pass");
        renamed["policy"] = json!("q");
        let long = report_of(&[said(&"b ".repeat(old.len() / BESIDE), "pass")]);
        for new in [&added, &report_of(&[renamed]), &long, &old] {
            assert_eq!(Framed::replacing(new, &old).difference, None, "{new}");
        }
    }

    #[test]
    fn messages_of_another_frame_are_refused() {
        let one = Framed::of(&report_of(&[said("a message", "pass")]));
        for messages in [r#"{"41":"x"}"#, r#"{"a":"x"}"#, "[]", "", r#"{"0":1}"#] {
            let leaves = format!("{}{MARK}{messages}", one.leaves);
            assert_eq!(join(&one.frame, &leaves), None, "{messages}");
        }
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
            Just("message".to_owned()),
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

        #[test]
        fn a_text_with_other_messages_comes_back(
            value in json_value(),
            old in prop::collection::vec("[a-z\"\\\\é\u{1} ]{0,9}", 1..5),
            new in prop::collection::vec("[a-z\"\\\\é\u{1} ]{0,9}", 1..5),
        ) {
            let text = |messages: &[String]| {
                let results = messages.iter().map(|message| json!({"message": message}));
                let results: Vec<Value> = results.collect();
                json!({"padding": "x".repeat(400), "results": results, "value": value}).to_string()
            };
            let (old, new) = (text(&old), text(&new));
            let (before, change) = (Framed::of(&old), Framed::replacing(&new, &old));
            prop_assert_eq!(join(&change.frame, &change.leaves), Some(new.clone()));
            if change.difference.is_some() {
                prop_assert_eq!(stored(&before, &change), Some(new));
            }
        }
    }
}
