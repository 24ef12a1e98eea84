//! Path elements as keys of `fieldsV1`: `f:`, `k:`, `v:` and `i:`.

use serde_json::{Deserializer, Value};

use super::PathElement;
use crate::go::{Flavour, json};
use crate::value::to_floats;

/// The reason why a key of `fieldsV1` is no path element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathElementError {
    /// There is no room for a type and a colon.
    #[error("key must be 2 characters long:")]
    TooShort,
    /// The type is not followed by a colon.
    #[error("missing colon: {0}")]
    MissingColon(String),
    /// The text after the colon cannot be read.
    #[error("invalid {kind} in path element {element:?}")]
    Invalid {
        /// `value`, `key` or `index`.
        kind: &'static str,
        /// The given key.
        element: String,
    },
}

impl PathElement {
    /// Returns the key of `fieldsV1`.
    #[must_use]
    pub fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| {
                        let name = json(&Value::from(name.as_str()), Flavour::IteratorName);
                        format!("{name}:{}", json(&value.0, Flavour::Iterator))
                    })
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
            Self::Value(value) => format!("v:{}", json(&value.0, Flavour::Iterator)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Reads a key of `fieldsV1`; returns `None` for a type of path element that is not known,
    /// which is passed over. Numbers become floats, as there.
    ///
    /// # Errors
    /// If the key has no type, or does not hold what its type asks for.
    pub fn decode(text: &str) -> Result<Option<Self>, PathElementError> {
        let &[kind, colon, ..] = text.as_bytes() else {
            return Err(PathElementError::TooShort);
        };
        if colon != b':' {
            return Err(PathElementError::MissingColon(text.to_owned()));
        }
        let invalid = |kind| PathElementError::Invalid {
            kind,
            element: text.to_owned(),
        };
        let rest = text.get(2..).unwrap_or_default();
        Ok(Some(match kind {
            b'f' => Self::Field(rest.to_owned()),
            b'v' => Self::value(first_value(rest).ok_or_else(|| invalid("value"))?),
            b'k' => match first_value(rest) {
                Some(Value::Object(fields)) => Self::key(fields),
                Some(Value::Null) => Self::Key(Vec::new()),
                _ => return Err(invalid("key")),
            },
            b'i' => Self::Index(rest.parse().map_err(|_| invalid("index"))?),
            _ => return Ok(None),
        }))
    }
}

/// Returns the first JSON value of a text; the text after it is not looked at.
fn first_value(text: &str) -> Option<Value> {
    let value = Deserializer::from_str(text).into_iter::<Value>().next()?;
    Some(to_floats(&value.ok()?))
}
