//! Events of a watch, one by one.

use std::time::Duration;

use http::{HeaderMap, header};
use serde_json::Value;

use super::observed::Document;
use crate::serving::request::Lines;

/// An open watch.
pub struct Stream {
    lines: Lines,
    /// True when each event has its length in front, as in protobuf.
    lengths: bool,
}

impl Stream {
    /// Returns a watch that was answered with these headers.
    #[must_use]
    pub fn new(lines: Lines, headers: &HeaderMap) -> Self {
        let kind = headers.get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        Self {
            lines,
            lengths: kind.contains("protobuf") || kind.contains("cbor"),
        }
    }

    /// Returns the next event. The outer is none when nothing comes within `patience`, the inner at
    /// the end of the stream.
    pub async fn next(&mut self, patience: Duration) -> Option<Option<Document>> {
        if self.lengths {
            let frame = self.lines.frame_within(patience).await?;
            return Some(frame.map(|frame| Document::parse_message(&frame)));
        }
        let line = self.lines.line_within(patience).await?;
        Some(line.map(|line| Document::parse(&line)))
    }
}

impl Document {
    /// Returns whether this is an event of the object called `name`.
    #[must_use]
    pub fn is_of(&self, name: &str) -> bool {
        match self {
            Self::Json { values, .. } => values.iter().any(|event| names(&event["object"], name)),
            // Its name stands in the message between other fields.
            Self::Protobuf(fields) => format!("{fields:?}").contains(name),
            Self::Text(_) => false,
        }
    }

    /// Returns whether this is a bookmark that comes by the clock. Their number is chance.
    #[must_use]
    pub fn is_plain_bookmark(&self) -> bool {
        let text = match self {
            Self::Json { values, .. } if values.iter().any(|event| event["type"] == "BOOKMARK") => {
                values.iter().map(ToString::to_string).collect()
            }
            Self::Protobuf(fields) => format!("{fields:?}"),
            _ => return false,
        };
        text.contains("BOOKMARK") && !text.contains("k8s.io/initial-events-end")
    }

    /// Returns whether this event says that an object is gone.
    #[must_use]
    pub fn deletes(&self) -> bool {
        match self {
            Self::Json { values, .. } => values.iter().any(|event| event["type"] == "DELETED"),
            Self::Protobuf(fields) => format!("{fields:?}").contains("DELETED"),
            Self::Text(_) => false,
        }
    }
}

/// Returns whether an object, or the row of a table, has a name.
fn names(object: &Value, name: &str) -> bool {
    let row = &object["rows"][0];
    let places = [
        &object["metadata"]["name"],
        &row["object"]["metadata"]["name"],
        &row["cells"][0],
    ];
    places.into_iter().any(|place| place == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Document {
        Document::parse(text.as_bytes())
    }

    #[test]
    fn bookmarks_of_the_clock() {
        let plain = event(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}"#);
        assert!(plain.is_plain_bookmark());
        let text = r#"{"type":"BOOKMARK","object":{"metadata":{"annotations":
            {"k8s.io/initial-events-end":"true"}}}}"#;
        assert!(!event(text).is_plain_bookmark());
    }

    #[test]
    fn events_of_an_object_in_every_form() {
        for text in [
            r#"{"type":"DELETED","object":{"metadata":{"name":"a"}}}"#,
            r#"{"type":"DELETED","object":{"rows":[{"object":{"metadata":{"name":"a"}}}]}}"#,
            r#"{"type":"DELETED","object":{"rows":[{"cells":["a",1]}]}}"#,
        ] {
            assert!(event(text).is_of("a"), "{text}");
            assert!(event(text).deletes());
            assert!(!event(text).is_of("b"), "{text}");
        }
        let protobuf = Document::parse_message(b"\x0a\x07DELETED\x12\x01a");
        assert!(protobuf.deletes() && protobuf.is_of("a"));
    }
}
