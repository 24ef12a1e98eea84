//! The observations of a side, before anything is normalised.

use std::io::Read as _;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{HeaderMap, header};
use serde_json::Value;

use super::protobuf;
use super::step::Pick;
use super::variables::{self, Variables};
use crate::serving::request::Answer;

/// The outcome of a request or a watch.
#[derive(Clone, Debug)]
pub enum Observed {
    /// An answer.
    Answer {
        /// Status.
        code: u16,
        /// Headers.
        headers: HeaderMap,
        /// The body of the answer.
        body: Document,
    },
    /// Events of a watch.
    Events {
        /// The events in their order.
        events: Vec<Document>,
        /// The end of the watch after them, in words.
        end: &'static str,
    },
    /// A message of the harness.
    Note(String),
}

/// A body or an event.
#[derive(Clone, Debug)]
pub enum Document {
    /// JSON texts one behind the other; usually one.
    Json {
        /// The texts as they came.
        raw: String,
        /// The values of the texts.
        values: Vec<Value>,
    },
    /// Protobuf, taken apart.
    Protobuf(Vec<protobuf::Field>),
    /// Any other text.
    Text(String),
}

impl Observed {
    /// Returns the value that a case wants to keep: a part of the body by JSON pointer, or
    /// `header:NAME`.
    #[must_use]
    pub fn wanted(&self, body: &Value, wanted: &str) -> Option<Value> {
        let Some(name) = wanted.strip_prefix("header:") else {
            return body.pointer(wanted).cloned();
        };
        match self {
            Self::Answer { headers, .. } => {
                let value = headers.get(name)?.to_str().ok()?;
                Some(Value::from(value))
            }
            _ => None,
        }
    }

    /// Returns an answer, its body taken apart.
    #[must_use]
    pub fn answer(answer: &Answer) -> Self {
        let encoding = answer.headers.get(header::CONTENT_ENCODING);
        let body = if encoding.is_some_and(|encoding| encoding == "gzip") {
            unzip(&answer.body)
        } else {
            answer.body.clone()
        };
        Self::Answer {
            code: answer.code,
            headers: answer.headers.clone(),
            body: Document::of_answer(&body, &answer.headers),
        }
    }

    /// Returns only the picked part of an answer.
    ///
    /// # Errors
    /// If there is no such part.
    pub fn picked(self, pick: &Pick, values: &Variables) -> Result<Self, String> {
        let Self::Answer {
            code,
            headers,
            body: Document::Json { values: body, .. },
        } = self
        else {
            return Err("there is nothing to pick from".to_owned());
        };
        let body = body.first().cloned().unwrap_or_default();
        let part = pick.part(&body, values).ok_or("nothing was picked")?;
        let body = Document::Json {
            raw: part.to_string(),
            values: vec![part],
        };
        Ok(Self::Answer {
            code,
            headers,
            body,
        })
    }

    /// Returns all JSON values in it.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        let documents: Vec<&Document> = match self {
            Self::Answer { body, .. } => vec![body],
            Self::Events { events, .. } => events.iter().collect(),
            Self::Note(_) => Vec::new(),
        };
        documents.into_iter().flat_map(Document::values)
    }
}

impl Pick {
    fn part(&self, body: &Value, values: &Variables) -> Option<Value> {
        if let Some(pointer) = &self.at {
            return body
                .pointer(&variables::fill_text(pointer, values))
                .cloned();
        }
        let pointer = variables::fill_text(self.r#in.as_deref().unwrap_or_default(), values);
        let wanted = |item: &&Value| {
            self.r#where.iter().all(|(pointer, value)| {
                let mut value = value.clone();
                variables::fill(&mut value, values);
                item.pointer(pointer) == Some(&value)
            })
        };
        let items = body.pointer(&pointer)?.as_array()?;
        let picked: Vec<_> = items.iter().filter(wanted).cloned().collect();
        (!picked.is_empty()).then_some(Value::from(picked))
    }
}

impl Document {
    /// Returns a message in protobuf without Kubernetes' mark in front, as in watches.
    #[must_use]
    pub fn parse_message(bytes: &[u8]) -> Self {
        match protobuf::message(bytes) {
            Some(fields) => Self::Protobuf(fields),
            None => Self::parse(bytes),
        }
    }

    /// Returns the body of an answer with these headers.
    #[must_use]
    pub fn of_answer(bytes: &[u8], headers: &HeaderMap) -> Self {
        let kind = headers.get(header::CONTENT_TYPE);
        let yaml = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/yaml"));
        if yaml && let Ok(value) = serde_yaml::from_slice(bytes) {
            return Self::Json {
                raw: String::new(),
                values: vec![value],
            };
        }
        Self::parse(bytes)
    }

    /// Takes bytes apart, by their content.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        if let Some(fields) = protobuf::parse(bytes) {
            return Self::Protobuf(fields);
        }
        let text = String::from_utf8_lossy(bytes).into_owned();
        let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&text)
            .into_iter()
            .collect();
        match values {
            Ok(values) if values.iter().any(|v| v.is_object() || v.is_array()) => {
                Self::Json { raw: text, values }
            }
            _ => Self::Text(text),
        }
    }

    fn values(&self) -> &[Value] {
        match self {
            Self::Json { values, .. } => values,
            _ => &[],
        }
    }
}

fn unzip(bytes: &Bytes) -> Bytes {
    let mut plain = Vec::new();
    match GzDecoder::new(bytes.as_ref()).read_to_end(&mut plain) {
        Ok(_) => plain.into(),
        Err(_) => bytes.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_told_apart() {
        assert!(matches!(Document::parse(b"{\"a\":1}\n{\"b\":2}\n"),
            Document::Json { values, .. } if values.len() == 2));
        assert!(matches!(
            Document::parse(b"404 page not found\n"),
            Document::Text(_)
        ));
        assert!(matches!(Document::parse(b"kind: A\n"), Document::Text(_)));
        assert!(matches!(Document::parse(b""), Document::Text(_)));
        assert!(matches!(
            Document::parse(b"k8s\0\x0a\x01a"),
            Document::Protobuf(_)
        ));
    }
}
