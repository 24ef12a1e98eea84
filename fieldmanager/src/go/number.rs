//! Numbers as Go has them in JSON values: 64-bit integers, and floats for everything else.

use std::cmp::Ordering;

use serde_json::Number;

/// A number of a JSON value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Numeric {
    Int(i64),
    Float(f64),
}

impl Numeric {
    pub fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(int) => Self::Int(int),
            None => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "as Go compares an int64 with a float64"
    )]
    pub fn as_float(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }

    /// Returns the order by value; an integer and a float are compared as floats.
    pub fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => left.cmp(&right),
            _ => self
                .as_float()
                .partial_cmp(&other.as_float())
                .unwrap_or(Ordering::Equal),
        }
    }

    /// Returns the number as `%v` of `fmt` does.
    pub fn plain(self) -> String {
        match self {
            Self::Int(int) => int.to_string(),
            Self::Float(float) => general(float),
        }
    }

    /// Returns the number in JSON.
    pub fn json(self) -> String {
        match self {
            Self::Int(int) => int.to_string(),
            Self::Float(float) if float != 0.0 && !(1e-6..1e21).contains(&float.abs()) => {
                exponential(float, 1)
            }
            Self::Float(float) => float.to_string(),
        }
    }
}

/// Returns a float in JSON.
#[must_use]
pub fn float(value: f64) -> String {
    Numeric::Float(value).json()
}

/// Returns a float that is the key of a map in YAML, as sigs.k8s.io/yaml makes a text of it: with
/// the digits that single precision needs.
#[must_use]
pub fn yaml_key(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "so is the rule")]
    let single = value as f32;
    if single.is_nan() {
        return ".nan".to_owned();
    }
    if single.is_infinite() {
        return if single > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    // The same digits, and as many, in double precision.
    let same: f64 = single.to_string().parse().unwrap_or(value);
    general(same)
}

/// Returns a float as `%g` with the shortest digits: with an exponent below 0.0001 and from 1e+06
/// on.
fn general(float: f64) -> String {
    let exponent = parts(float).1;
    if (-4..6).contains(&exponent) {
        float.to_string()
    } else {
        exponential(float, 2)
    }
}

/// Returns a float as `d.ddde±dd`, with at least `width` digits of a negative exponent and two of a
/// positive one.
fn exponential(float: f64, width: usize) -> String {
    let (digits, exponent) = parts(float);
    if exponent < 0 {
        format!("{digits}e-{:0width$}", exponent.unsigned_abs())
    } else {
        format!("{digits}e+{exponent:02}")
    }
}

fn parts(float: f64) -> (String, i32) {
    let text = format!("{float:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => (digits.to_owned(), exponent.parse().unwrap_or(0)),
        None => (text, 0),
    }
}
