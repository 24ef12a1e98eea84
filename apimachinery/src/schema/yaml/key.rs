//! Keys of maps.

use fieldmanager::go::{go_syntax, yaml_key};
use serde_json::Value;

use super::error::YamlError;
use super::scalar::Resolved;

/// A key: `1` and `"1"` are two, but have the same name in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A text.
    Text(String),
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// The bits of any other number.
    Float(u64),
}

impl Key {
    /// Returns the key that is written in this line.
    ///
    /// # Errors
    /// If it is null, or a whole number beyond an `i64`, which Go's parser holds in a type that can
    /// be no key.
    pub fn new(value: Resolved<'_>, line: usize) -> Result<Self, YamlError> {
        match value {
            Resolved::Text(text) => Ok(Self::Text(text.into_owned())),
            Resolved::Bool(flag) => Ok(Self::Bool(flag)),
            Resolved::Int(int) => Ok(Self::Int(int)),
            // Zero has one sign.
            Resolved::Float(float) => Ok(Self::Float((float + 0.0).to_bits())),
            Resolved::Null | Resolved::Large(_) => Err(YamlError::Key(line)),
        }
    }

    /// Returns the name in JSON, in the way of sigs.k8s.io/yaml.
    pub fn name(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Bool(flag) => flag.to_string(),
            Self::Int(int) => int.to_string(),
            Self::Float(bits) => yaml_key(f64::from_bits(*bits)),
        }
    }

    /// Returns the key as Go writes it: a text in quotes, others without.
    pub fn go_syntax(&self) -> String {
        match self {
            Self::Text(text) => go_syntax(&Value::from(text.as_str())),
            Self::Bool(_) | Self::Int(_) => self.name(),
            Self::Float(bits) => match f64::from_bits(*bits) {
                float if float.is_nan() => "NaN".to_owned(),
                f64::INFINITY => "+Inf".to_owned(),
                f64::NEG_INFINITY => "-Inf".to_owned(),
                float => go_syntax(&Value::from(float)),
            },
        }
    }
}
