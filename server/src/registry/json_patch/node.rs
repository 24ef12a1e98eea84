//! A JSON document as the kube-apiserver's library for patches has it
//! (`gopkg.in/evanphx/json-patch.v4`): a value of an operation stays the text as which it came
//! until another operation looks into it. So numbers stay as they are written, and keys that are
//! there twice are there twice in the outcome.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use apimachinery::schema::Members;
use fieldmanager::go::{Flavour, json};
use serde_json::Value;
use serde_json::value::RawValue;

/// A value, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Null, which also stands for a value that was not given.
    Null,
    /// A text, number or boolean that was stored.
    Stored(Value),
    /// A value of a request that nobody has looked into, as it is written there.
    Written(Text),
    /// A list.
    List(Vec<Node>),
    /// An object.
    Map(BTreeMap<String, Node>),
}

/// The text of a value, measured once: a patch may move it ten thousand times.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    json: Box<str>,
    extent: Extent,
}

impl Text {
    fn new(json: &str) -> Self {
        Self {
            json: json.into(),
            extent: Extent::written(json),
        }
    }
}

impl Node {
    /// Returns a value of a request from its text, which has to be JSON.
    #[must_use]
    pub fn written(text: &str) -> Self {
        match text.trim_ascii() {
            "null" => Self::Null,
            text => Self::Written(Text::new(text)),
        }
    }

    /// Makes an object or a list of the text of one. The last of several members of a name counts.
    pub fn open(&mut self) {
        let Self::Written(Text { json: text, .. }) = self else {
            return;
        };
        let opened = match text.as_bytes().first() {
            Some(b'{') => serde_json::from_str(text).map(|Members(members)| {
                let nodes = members.into_iter();
                Self::Map(
                    nodes
                        .map(|(name, raw)| (name, Self::written(raw.get())))
                        .collect(),
                )
            }),
            Some(b'[') => serde_json::from_str(text).map(|items: Vec<&RawValue>| {
                Self::List(
                    items
                        .into_iter()
                        .map(|raw| Self::written(raw.get()))
                        .collect(),
                )
            }),
            _ => return,
        };
        // What is no JSON stays what it is.
        if let Ok(opened) = opened {
            *self = opened;
        }
    }

    /// Returns whether the library calls two values the same: numbers and texts are compared as
    /// written, so that `1` is not `1.0`, and a `<` that is escaped is not one that is not. Both
    /// are opened as far as they are looked at.
    #[must_use]
    pub fn is_same(&mut self, other: &mut Self) -> bool {
        self.open();
        other.open();
        match (self, other) {
            (Self::List(items), Self::List(others)) => {
                items.len() == others.len()
                    && items
                        .iter_mut()
                        .zip(others)
                        .all(|(item, other)| item.is_same(other))
            }
            (Self::Map(members), Self::Map(others)) => {
                members.len() == others.len()
                    && members
                        .iter_mut()
                        .all(|(name, node)| others.get_mut(name).is_some_and(|of| node.is_same(of)))
            }
            (Self::List(_) | Self::Map(_), _) | (_, Self::List(_) | Self::Map(_)) => false,
            (scalar, other) => scalar.text() == other.text(),
        }
    }

    /// Returns the extent of the value. Recursion is bounded: by the parser for values of a
    /// request, by the limits on a patch for its document.
    #[must_use]
    pub fn extent(&self) -> Extent {
        match self {
            Self::List(items) => Extent::around(items.iter()),
            Self::Map(members) => Extent::around(members.values()),
            Self::Written(text) => text.extent,
            Self::Null | Self::Stored(_) => Extent::around([].into_iter()),
        }
    }

    /// Returns the text of a value that is no list and no object.
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Stored(value) => Cow::Owned(json(value, Flavour::Standard)),
            Self::Written(text) => Cow::Borrowed(&text.json),
            Self::Null | Self::List(_) | Self::Map(_) => Cow::Borrowed("null"),
        }
    }

    /// Takes the nulls out of all objects within.
    pub fn prune_nulls(&mut self) {
        self.open();
        match self {
            Self::List(items) => items.iter_mut().for_each(Self::prune_nulls),
            Self::Map(members) => {
                members.retain(|_, node| *node != Self::Null);
                members.values_mut().for_each(Self::prune_nulls);
            }
            Self::Null | Self::Stored(_) | Self::Written(_) => {}
        }
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(members) => Self::Map(
                members
                    .into_iter()
                    .map(|(name, value)| (name, Self::from(value)))
                    .collect(),
            ),
            scalar => Self::Stored(scalar),
        }
    }
}

/// Writes the JSON as Go does.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null | Self::Stored(_) => f.write_str(&self.text()),
            Self::Written(text) => write_compact(f, &text.json),
            Self::List(items) => {
                f.write_char('[')?;
                for (index, item) in items.iter().enumerate() {
                    f.write_str(if index > 0 { "," } else { "" })?;
                    item.fmt(f)?;
                }
                f.write_char(']')
            }
            Self::Map(members) => {
                f.write_char('{')?;
                for (index, (name, node)) in members.iter().enumerate() {
                    f.write_str(if index > 0 { "," } else { "" })?;
                    let name = json(&Value::from(name.as_str()), Flavour::Standard);
                    write!(f, "{name}:{node}")?;
                }
                f.write_char('}')
            }
        }
    }
}

/// Writes a text that is JSON without spaces, and with the escapes of Go.
fn write_compact(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let (mut in_text, mut escaped) = (false, false);
    for character in text.chars() {
        match character {
            ' ' | '\t' | '\r' | '\n' if !in_text => continue,
            '"' if !escaped => in_text = !in_text,
            _ => {}
        }
        escaped = character == '\\' && !escaped;
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(f, "\\u{:04x}", u32::from(character))?;
            }
            _ => f.write_char(character)?,
        }
    }
    Ok(())
}

/// The extent of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Levels of nesting; 1 for a scalar.
    pub levels: usize,
    /// Values, itself and all within.
    pub values: usize,
}

impl Extent {
    /// Returns the extent of a value that holds these.
    fn around<'a>(nodes: impl Iterator<Item = &'a Node>) -> Self {
        nodes.map(Node::extent).fold(
            Self {
                levels: 1,
                values: 1,
            },
            |all, one| Self {
                levels: all.levels.max(one.levels + 1),
                values: all.values + one.values,
            },
        )
    }

    /// Returns the extent of a value by its text: as many levels as brackets are open at a time,
    /// and values by the commas and brackets.
    fn written(text: &str) -> Self {
        let (mut levels, mut values, mut open) = (0, 0, 0_usize);
        let (mut in_text, mut escaped) = (false, false);
        for byte in text.bytes() {
            match byte {
                b'"' if !escaped => in_text = !in_text,
                b'[' | b'{' if !in_text => {
                    open += 1;
                    levels = open.max(levels);
                    values += 1;
                }
                b']' | b'}' if !in_text => open = open.saturating_sub(1),
                b',' if !in_text => values += 1,
                _ => {}
            }
            escaped = byte == b'\\' && !escaped;
        }
        Self {
            levels: levels + 1,
            values: values + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn opened(text: &str) -> Node {
        let mut node = Node::written(text);
        let mut same = node.clone();
        assert!(node.is_same(&mut same));
        node
    }

    #[test]
    fn texts_stay_as_they_are_written() {
        let text = r#" {"b": [1.0, "< \"\u0061 ", null, true ], "a":{"x":1,"x":2}}"#;
        assert_eq!(
            Node::written(text).to_string(),
            r#"{"b":[1.0,"\u003c \"\u0061 ",null,true],"a":{"x":1,"x":2}}"#
        );
        assert_eq!(
            opened(text).to_string(),
            r#"{"a":{"x":2},"b":[1.0,"\u003c \"\u0061 ",null,true]}"#
        );
    }

    #[rstest::rstest]
    #[case(json!(1), "1", true)]
    #[case(json!(1), "1.0", false)]
    #[case(json!("a"), r#""\u0061""#, false)]
    #[case(json!("<"), r#""<""#, false)]
    #[case(json!("<"), r#""\u003c""#, true)]
    #[case(json!({"a": [null, 1e21]}), r#"{"a":[ null, 1e+21 ]}"#, true)]
    #[case(json!({"a": 1}), r#"{"a":1,"b":null}"#, false)]
    #[case(json!([1]), "[1,2]", false)]
    #[case(json!([]), "{}", false)]
    #[case(json!(null), "null", true)]
    #[case(json!("null"), "null", false)]
    fn what_is_the_same(#[case] stored: Value, #[case] written: &str, #[case] same: bool) {
        let (mut stored, mut written) = (Node::from(stored), Node::written(written));
        assert_eq!(stored.is_same(&mut written), same);
    }

    #[test]
    fn nulls_go_from_objects_and_stay_in_lists() {
        let mut pruned = Node::written(r#"[null,{"a":null,"b":[{"c":null}]}]"#);
        pruned.prune_nulls();
        assert_eq!(pruned.to_string(), r#"[null,{"b":[{}]}]"#);
    }

    #[rstest::rstest]
    #[case("1", 1, 1)]
    #[case(r#""[\"[,""#, 1, 1)]
    #[case("[]", 2, 2)]
    #[case(r#"{"a":[1,{"b":[]}],"c":2}"#, 5, 7)]
    fn extents(#[case] text: &str, #[case] levels: usize, #[case] values: usize) {
        assert_eq!(Node::written(text).extent(), Extent { levels, values });
    }
}
