//! Numbers.

use serde_json::{Number, Value};

use super::super::format::FormatKind;
use super::super::structural::{Bound, Type, Types};
use super::super::{FieldError, Structural};
use super::Outcome;
use super::path::Path;

/// Judges a number by bounds, factor and the range of its type.
pub(super) fn judge(schema: &Structural, given: &Number, path: &Path<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let rules = &schema.rules;
    let range = Range::of(schema);
    if let Some(error) = range.error(&Given::of(given), "Checked", path) {
        outcome.push_general(error);
    }
    let bounds = [
        (
            rules.multiple_of.map(|factor| Bound {
                value: factor,
                exclusive: false,
            }),
            "MultipleOf",
            Rule::MultipleOf,
        ),
        (rules.minimum, "Minimum boundary", Rule::Minimum),
        (rules.maximum, "Maximum boundary", Rule::Maximum),
    ];
    for (bound, name, rule) in bounds {
        let Some(bound) = bound else { continue };
        // A bound that its own type cannot hold is an error of every value, and is compared as a
        // float then.
        let misfit = range.error(&Given::Float(bound.value), name, path);
        let given = match misfit {
            Some(error) => {
                outcome.push_general(error);
                Given::Float(given.as_f64().unwrap_or_default())
            }
            None => Given::of(given),
        };
        if let Some(detail) = rule.broken(given, bound, path) {
            let value = Value::Number(given.number());
            outcome.push(FieldError::invalid(path.to_field(), value, detail));
        }
    }
    outcome.matches += 1;
    outcome
}

/// A number the way Go holds it.
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
}

#[derive(Clone, Copy)]
enum Rule {
    Maximum,
    Minimum,
    MultipleOf,
}

impl Rule {
    /// The detail of the error, if the rule is broken. Integers are compared as integers.
    fn broken(self, given: Given, bound: Bound, path: &Path<'_>) -> Option<String> {
        let (broken, limit) = match given {
            Given::Integer(integer) => {
                let limit = truncate(bound.value);
                (
                    self.is_broken(integer.cmp(&limit).into(), bound)
                        || self.is_no_multiple(integer, limit),
                    limit.to_string(),
                )
            }
            Given::Float(float) => {
                let ordering = float.partial_cmp(&bound.value);
                (
                    self.is_broken(ordering, bound)
                        || self.is_no_float_multiple(float, bound.value),
                    print(bound.value),
                )
            }
        };
        broken.then(|| match (self, bound.exclusive) {
            (Self::Maximum, false) => {
                format!("{path} in body should be less than or equal to {limit}")
            }
            (Self::Maximum, true) => format!("{path} in body should be less than {limit}"),
            (Self::Minimum, false) => {
                format!("{path} in body should be greater than or equal to {limit}")
            }
            (Self::Minimum, true) => format!("{path} in body should be greater than {limit}"),
            (Self::MultipleOf, _) => format!("{path} in body should be a multiple of {limit}"),
        })
    }

    fn is_broken(self, ordering: Option<std::cmp::Ordering>, bound: Bound) -> bool {
        let Some(ordering) = ordering else {
            return false;
        };
        match (self, bound.exclusive) {
            (Self::Maximum, false) => ordering.is_gt(),
            (Self::Maximum, true) => ordering.is_ge(),
            (Self::Minimum, false) => ordering.is_lt(),
            (Self::Minimum, true) => ordering.is_le(),
            (Self::MultipleOf, _) => false,
        }
    }

    fn is_no_multiple(self, given: i64, factor: i64) -> bool {
        matches!(self, Self::MultipleOf) && given.checked_rem(factor).is_none_or(|rest| rest != 0)
    }

    fn is_no_float_multiple(self, given: f64, factor: f64) -> bool {
        let quotient = if factor < 1.0 {
            1.0 / factor * given
        } else {
            given / factor
        };
        matches!(self, Self::MultipleOf) && !is_nearly_whole(quotient)
    }
}

/// The range that type and format give a number.
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

    fn error(&self, given: &Given, what: &str, path: &Path<'_>) -> Option<String> {
        let integer = match given {
            Given::Integer(integer) => Some(*integer),
            Given::Float(float) => {
                (float.fract() == 0.0 && float.abs() < I64_LIMIT).then(|| truncate(*float))
            }
        };
        let (fits, format) = match (self.type_, self.format) {
            ("integer", Some(FormatKind::Int32)) => (
                integer.is_some_and(|integer| i32::try_from(integer).is_ok()),
                "with format int32",
            ),
            ("integer", Some(FormatKind::Int64)) => (integer.is_some(), "with format int64"),
            ("integer", _) => (integer.is_some(), "(default format)"),
            ("number", Some(FormatKind::Float)) => (fits_f32(*given), "with format float"),
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

/// Whole up to the error of the division.
fn is_nearly_whole(number: f64) -> bool {
    const EPSILON: f64 = 1e-9;
    const SAFE: f64 = 9_007_199_254_740_991.0;
    if !number.is_finite() || number.abs() > SAFE {
        return false;
    }
    let distance = (number - number.trunc()).abs();
    number == number.trunc() || distance < EPSILON || 1.0 - distance < EPSILON
}

/// Go's conversion to int64.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the fraction is meant to go; the rest saturates"
)]
fn truncate(float: f64) -> i64 {
    float as i64
}

/// Go's `%v` of a float64.
fn print(float: f64) -> String {
    match float.abs() {
        magnitude if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) => {
            let text = format!("{float:e}");
            match text.split_once('e') {
                Some((mantissa, exponent)) => {
                    let (sign, digits) = match exponent.strip_prefix('-') {
                        Some(digits) => ('-', digits),
                        None => ('+', exponent),
                    };
                    format!("{mantissa}e{sign}{digits:0>2}")
                }
                None => text,
            }
        }
        _ => float.to_string(),
    }
}
