//! Keys of objects.

use std::fmt;

use fieldmanager::go::yaml_key;
use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};
use serde_json::Value;

/// A key as it is written: a text, or in YAML a number or a boolean.
pub struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "Go holds larger numbers as floats"
)]
impl Visitor<'_> for KeySeed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key of an object")
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(if value.is_finite() {
            value.into()
        } else {
            yaml_key(value).into()
        })
    }
}

/// Returns a key as the text that it is in JSON, in the way of sigs.k8s.io/yaml.
///
/// # Errors
/// If the key is a whole number beyond an `i64`, which Go's parser holds in a type that can be no
/// key.
pub fn name<E: Error>(key: Value) -> Result<String, E> {
    Ok(match key {
        Value::String(text) => text,
        Value::Number(number) if number.is_f64() => yaml_key(number.as_f64().unwrap_or_default()),
        Value::Number(number) if !number.is_i64() => {
            return Err(E::custom(format_args!("unsupported map key: {number}")));
        }
        other => other.to_string(),
    })
}
