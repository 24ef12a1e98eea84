//! Numbers.

use std::cmp::Ordering;
use std::fmt;

use fieldmanager::go::plain;
use serde_json::{Number, Value};

use super::super::format::FormatKind;
use super::super::structural::{Bound, Rules, Type, Types};
use super::super::{FieldError, Structural};
use super::Outcome;
use super::path::Path;

/// Judges a number by the range of its type, by its factor and by its bounds.
pub(super) fn judge(schema: &Structural, number: &Number, path: &Path<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let range = Range::of(schema);
    if let Some(error) = range.error(Given::of(number), "Checked", path) {
        outcome.push_general(error);
    }
    for (limit, name) in limits(&schema.rules) {
        // A limit that its own type cannot hold is an error of every value, and floats are compared
        // then.
        let given = match range.error(Given::Float(limit.value()), name, path) {
            Some(error) => {
                outcome.push_general(error);
                Given::Float(number.as_f64().unwrap_or_default())
            }
            None => Given::of(number),
        };
        if let Some((value, detail)) = limit.broken_by(given, path) {
            let value = Value::Number(value.number());
            outcome.push(FieldError::invalid(path.to_field(), value, detail));
        }
    }
    outcome.matches += 1;
    outcome
}

/// Returns the limits with their names in errors.
fn limits(rules: &Rules) -> impl Iterator<Item = (Limit, &'static str)> {
    [
        (rules.multiple_of.map(Limit::MultipleOf), "MultipleOf"),
        (rules.minimum.map(Limit::Minimum), "Minimum boundary"),
        (rules.maximum.map(Limit::Maximum), "Maximum boundary"),
    ]
    .into_iter()
    .filter_map(|(limit, name)| Some((limit?, name)))
}

/// A number as Go holds it.
#[derive(Clone, Copy)]
enum Given {
    Integer(i64),
    Float(f64),
}

impl Given {
    fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(integer) => Self::Integer(integer),
            None => Self::Float(number.as_f64().unwrap_or_default()),
        }
    }

    fn number(self) -> Number {
        match self {
            Self::Integer(integer) => integer.into(),
            Self::Float(float) => Number::from_f64(float).unwrap_or_else(|| 0.into()),
        }
    }

    /// Returns the order of two numbers of the same kind.
    fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Integer(left), Self::Integer(right)) => Some(left.cmp(&right)),
            (Self::Float(left), Self::Float(right)) => left.partial_cmp(&right),
            _ => None,
        }
    }

    fn is_positive(self) -> bool {
        match self {
            Self::Integer(integer) => integer > 0,
            Self::Float(float) => float > 0.0,
        }
    }

    fn is_multiple_of(self, factor: Self) -> bool {
        match (self, factor) {
            (Self::Integer(given), Self::Integer(factor)) => given.checked_rem(factor) == Some(0),
            (Self::Float(given), Self::Float(factor)) if factor < 1.0 => {
                is_nearly_whole(1.0 / factor * given)
            }
            (Self::Float(given), Self::Float(factor)) => is_nearly_whole(given / factor),
            _ => false,
        }
    }
}

impl fmt::Display for Given {
    /// Writes the number as Go's `%v`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&Value::Number(self.number())))
    }
}

#[derive(Clone, Copy)]
enum Limit {
    Maximum(Bound),
    Minimum(Bound),
    MultipleOf(f64),
}

impl Limit {
    fn value(self) -> f64 {
        match self {
            Self::Maximum(bound) | Self::Minimum(bound) => bound.value,
            Self::MultipleOf(factor) => factor,
        }
    }

    /// Returns the value and the detail of the error, if the limit is broken. An integer is
    /// compared with the limit cut to an integer.
    fn broken_by(self, given: Given, path: &Path<'_>) -> Option<(Given, String)> {
        let limit = match given {
            Given::Integer(_) => Given::Integer(truncate(self.value())),
            Given::Float(_) => Given::Float(self.value()),
        };
        let ordering = given.compare(limit)?;
        let (broken, words) = match self {
            Self::Maximum(Bound {
                exclusive: false, ..
            }) => (ordering.is_gt(), "less than or equal to"),
            Self::Maximum(_) => (ordering.is_ge(), "less than"),
            Self::Minimum(Bound {
                exclusive: false, ..
            }) => (ordering.is_lt(), "greater than or equal to"),
            Self::Minimum(_) => (ordering.is_le(), "greater than"),
            Self::MultipleOf(_) if !limit.is_positive() => {
                let detail =
                    format!("factor MultipleOf declared for {path} must be positive: {limit}");
                return Some((limit, detail));
            }
            Self::MultipleOf(_) => (!given.is_multiple_of(limit), "a multiple of"),
        };
        broken.then(|| (given, format!("{path} in body should be {words} {limit}")))
    }
}

/// The range that type and format allow for a number.
struct Range {
    type_: &'static str,
    format: Option<FormatKind>,
}

impl Range {
    fn of(schema: &Structural) -> Self {
        let type_ = match schema.types {
            Types::One(Type::Integer) => "integer",
            Types::One(Type::Number) => "number",
            _ => "",
        };
        Self {
            type_,
            format: schema.rules.format.as_ref().map(|format| format.kind),
        }
    }

    fn error(&self, given: Given, what: &str, path: &Path<'_>) -> Option<String> {
        let integer = match given {
            Given::Integer(integer) => Some(integer),
            Given::Float(float) => {
                (float.fract() == 0.0 && float.abs() < I64_LIMIT).then(|| truncate(float))
            }
        };
        let (fits, format) = match (self.type_, self.format) {
            ("integer", Some(FormatKind::Int32)) => (
                integer.is_some_and(|integer| i32::try_from(integer).is_ok()),
                "with format int32",
            ),
            ("integer", Some(FormatKind::Int64)) => (integer.is_some(), "with format int64"),
            ("integer", _) => (integer.is_some(), "(default format)"),
            ("number", Some(FormatKind::Float)) => (fits_f32(given), "with format float"),
            _ => return None,
        };
        let type_ = self.type_;
        (!fits).then(|| format!("{what} value must be of type {type_} {format} in {path}"))
    }
}

const I64_LIMIT: f64 = 9_223_372_036_854_775_808.0;

fn fits_f32(given: Given) -> bool {
    match given {
        Given::Integer(_) => true,
        Given::Float(float) => float.abs() <= f64::from(f32::MAX),
    }
}

/// Returns whether Go's validator takes a number for an integer (`IsFloat64AJSONInteger` of
/// go-openapi/swag): whole, or a little above a positive integer for its size, and within the
/// integers that a float holds exactly.
pub(super) fn is_nearly_whole(number: f64) -> bool {
    const EPSILON: f64 = 1e-9;
    const SAFE: f64 = 9_007_199_254_740_991.0;
    if !number.is_finite() || number.abs() > SAFE {
        return false;
    }
    let whole = number.trunc();
    number.fract() == 0.0 || whole > 0.0 && (number - whole) / (number + whole) < EPSILON
}

/// Converts a float to int64 as Go does.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the fraction is meant to go; the rest saturates"
)]
fn truncate(float: f64) -> i64 {
    float as i64
}
