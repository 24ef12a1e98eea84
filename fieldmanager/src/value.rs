//! Equality and order of JSON values: integers and floats are equal where their values are.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::go::{self, Numeric};

/// A JSON value with the equality and the order of structured-merge-diff.
#[derive(Clone, Debug)]
pub struct FieldValue(pub Value);

impl PartialEq for FieldValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for FieldValue {}

impl PartialOrd for FieldValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FieldValue {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

/// Returns whether two values are equal; `1` and `1.0` are.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            Numeric::of(left).compare(Numeric::of(right)) == Ordering::Equal
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| equal(l, r))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, l)| right.get(key).is_some_and(|r| equal(l, r)))
        }
        _ => left == right,
    }
}

/// Returns a total order: numbers, strings, booleans, lists, maps, null.
fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            Numeric::of(left).compare(Numeric::of(right))
        }
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => compare_lists(left, right),
        (Value::Object(left), Value::Object(right)) => compare_maps(left, right),
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_lists(left: &[Value], right: &[Value]) -> Ordering {
    left.iter()
        .zip(right)
        .map(|(l, r)| compare(l, r))
        .find(|order| order.is_ne())
        .unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn compare_maps(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    left.iter()
        .zip(right)
        .map(|((left_key, l), (right_key, r))| left_key.cmp(right_key).then_with(|| compare(l, r)))
        .find(|order| order.is_ne())
        .unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// Returns the value in a path, for people.
pub(crate) fn display(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => Numeric::of(number).plain(),
        Value::String(text) => go::quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(display).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, entry)| format!("{key}={}", display(entry)))
                .collect();
            entries.concat()
        }
    }
}

/// Turns every number into a float, as a number in a key of `fieldsV1` is one.
pub(crate) fn to_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::from(Numeric::of(number).as_float()),
        Value::Array(items) => items.iter().map(to_floats).collect(),
        Value::Object(entries) => Value::Object(
            entries
                .iter()
                .map(|(key, entry)| (key.clone(), to_floats(entry)))
                .collect(),
        ),
        other => other.clone(),
    }
}

/// Turns floats without a fraction into integers: the kube-apiserver reads an apply patch as YAML,
/// writes it as JSON, where both look alike, and takes a number that looks like an integer for one.
pub(crate) fn to_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Numeric::Float(float) = Numeric::of(number)
                && let Some(int) = integer(float)
            {
                *value = Value::from(int);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(to_integers),
        Value::Object(entries) => entries.values_mut().for_each(to_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Returns the integer that a float looks like. It is written with the fewest digits that identify
/// it, and zeros behind them, so a large one can look like another number, or like none of 64 bits.
fn integer(float: f64) -> Option<i64> {
    float.to_string().parse().ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"a": [1.0, -0.0, 1.5]}), json!({"a": [1, 0, 1.5]}))]
    #[case(json!(9_007_199_254_740_992.0), json!(9_007_199_254_740_992_i64))]
    #[case(json!(9_223_372_036_854_774_784.0), json!(9_223_372_036_854_775_000_i64))]
    #[case(json!(-9_223_372_036_854_775_808.0), json!(-9_223_372_036_854_775_808.0))]
    fn what_looks_like_an_integer_is_one(#[case] mut value: Value, #[case] expected: Value) {
        to_integers(&mut value);
        assert_eq!(value, expected);
    }
}
