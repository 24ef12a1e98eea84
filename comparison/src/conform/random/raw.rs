//! Bodies that no client library writes: duplicate keys, odd numbers and escapes, texts that are no
//! JSON.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

use super::objects::pointers;

/// Mark for the text that is put in once the rest is text.
const MARK: &str = "@@";

/// The change of one value of a body.
#[derive(Clone, Debug)]
enum Twist {
    /// It is written in this way.
    As(&'static str),
    /// The key comes once more, with this value.
    Twice(&'static str),
    /// It is wrapped in this many lists.
    Nested(usize),
    /// The text ends before it.
    End,
}

/// Ways to write numbers and texts, values of unexpected types, and texts that are no JSON.
pub const WAYS: &[&str] = &[
    "\"\u{2028}\u{feff}\"",
    "01",
    "-0",
    "0.10",
    "1e-7",
    "1e21",
    "1e300",
    "1234567.5",
    "9223372036854775808",
    "-9223372036854775809",
    "123456789.123456789",
    "9007199254740993.0",
    r#""\u0041\ud83d\ude00\/""#,
    r#""\ud800""#,
    "null",
    "true",
    "\"\"",
    ".5",
    "+1",
    "'x'",
    "NaN",
    "nul",
    "\"\t\"",
    r#""\x""#,
    "{,}",
    "[1,]",
    "{\"a\" 1}",
];
/// The ways that mean the same in every version of YAML.
pub const YAML_WAYS: &[&str] = WAYS.split_at(1).1;

/// Returns the text of `value` with something odd in it, or a value that is written in one of these
/// ways.
pub fn bytes(value: BoxedStrategy<Value>, ways: &'static [&str]) -> BoxedStrategy<String> {
    let again = select(vec!["null", "1", "\"x\"", "{}", "[]"]);
    let twist = prop_oneof![
        6 => select(ways).prop_map(Twist::As),
        3 => again.prop_map(Twist::Twice),
        1 => (1..60_usize).prop_map(Twist::Nested),
        1 => Just(Twist::End),
    ];
    (value, any::<Index>(), twist)
        .prop_map(|(value, at, twist)| twisted(value, |places| at.index(places), &twist))
        .boxed()
}

fn twisted(mut value: Value, at: impl Fn(usize) -> usize, twist: &Twist) -> String {
    let mut places = Vec::new();
    pointers(&value, "", &mut places);
    // Names stay, so that it is known what is written.
    places.retain(|place| !place.starts_with("/metadata/name") && place != "/metadata");
    if places.is_empty() {
        return value.to_string();
    }
    let place = &places[at(places.len())];
    let key = place.rsplit('/').next().unwrap_or_default();
    let key = Value::from(key.replace("~1", "/").replace("~0", "~"));
    let former = value.pointer(place).cloned().unwrap_or_default();
    if let Some(slot) = value.pointer_mut(place) {
        *slot = Value::from(MARK);
    }
    let text = value.to_string();
    let Some((before, after)) = text.split_once(&format!("\"{MARK}\"")) else {
        return text;
    };
    match twist {
        Twist::As(way) => format!("{before}{way}{after}"),
        Twist::Twice(_) if before.ends_with(['[', ',']) => format!("{before}{former}{after}"),
        Twist::Twice(again) => format!("{before}{former},{key}:{again}{after}"),
        Twist::Nested(depth) => {
            let (open, close) = ("[".repeat(*depth), "]".repeat(*depth));
            format!("{before}{open}{former}{close}{after}")
        }
        Twist::End => before.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(twist: &Twist) -> String {
        let value = json!({"metadata": {"name": "a"}, "x": 1});
        twisted(value, |_| 0, twist)
    }

    #[test]
    fn one_value_is_written_oddly() {
        let rest = r#"{"metadata":{"name":"a"},"x":"#;
        assert_eq!(made(&Twist::As("01")), format!("{rest}01}}"));
        assert_eq!(made(&Twist::Twice("{}")), format!(r#"{rest}1,"x":{{}}}}"#));
        assert_eq!(made(&Twist::Nested(2)), format!("{rest}[[1]]}}"));
        assert_eq!(made(&Twist::End), rest);
    }
}
