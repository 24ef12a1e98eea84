//! One step of a path.

use std::fmt;

use crate::value::{self, FieldValue};

/// The way to find a child in its container. The order is that of serialised sets: fields, keys,
/// values, indices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A field of an object or an entry of a map, by name.
    Field(String),
    /// An item of an associative list, by its key fields, sorted by name.
    Key(Vec<(String, FieldValue)>),
    /// An item of a set, by its value.
    Value(FieldValue),
    /// An item of a list, by its index.
    Index(i64),
}

impl PathElement {
    /// Returns the field `name`.
    pub fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    /// Returns the item with these key fields.
    pub fn key(fields: impl IntoIterator<Item = (String, serde_json::Value)>) -> Self {
        let mut fields: Vec<_> = fields
            .into_iter()
            .map(|(name, value)| (name, FieldValue(value)))
            .collect();
        fields.sort_by(|(left, _), (right, _)| left.cmp(right));
        Self::Key(fields)
    }

    /// Returns the item of a set with this value.
    #[must_use]
    pub fn value(value: serde_json::Value) -> Self {
        Self::Value(FieldValue(value))
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{name}={}", value::display(&value.0)))
                    .collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", value::display(&value.0)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}
