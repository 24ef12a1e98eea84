//! The JSONPath of printer columns.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::jsonpath_parser::{self, JsonPathError};

/// A path into an object, as `additionalPrinterColumns[].jsonPath` writes it: fields
/// (`.a.b`, `.a\.b`, `['a.b']`), indices and slices (`[0]`, `[-1]`, `[1:3]`, `[*]`), wildcards
/// (`.*`) and filters (`[?(@.type=="Ready")]`). Recursive descent and unions, which a CRD may use
/// but no report API does, are refused when the path is read.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Field(String),
    Wildcard,
    Slice(Slice),
    Filter(Filter),
}

/// `[start:end:step]`; negative numbers count from the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slice {
    pub start: Option<i64>,
    pub end: Option<i64>,
    pub step: Option<i64>,
    /// True when the slice is a single index; then -1 means the last item, not an empty slice.
    pub single: bool,
}

/// `[?(left operator right)]`, or `[?(left)]` for "exists".
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filter {
    pub left: JsonPath,
    pub comparison: Option<(Comparison, Operand)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    Literal(Value),
    Path(JsonPath),
}

/// The path does not fit the object, such as an index beyond the end; the cell stays empty.
struct Mismatch;

impl JsonPath {
    /// Reads a path such as `.metadata.labels['app\.kubernetes\.io/name']`.
    ///
    /// # Errors
    /// If it is no path, or uses something that printer columns here do not support.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        jsonpath_parser::parse(text)
    }

    /// Returns the first value that the path leads to.
    #[must_use]
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.find(object).ok()?.first().copied()
    }

    fn find<'a>(&self, object: &'a Value) -> Result<Vec<&'a Value>, Mismatch> {
        let mut current = vec![object];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in current {
                step.walk(value, &mut next)?;
            }
            current = next;
        }
        Ok(current)
    }
}

impl Step {
    fn walk<'a>(&self, value: &'a Value, found: &mut Vec<&'a Value>) -> Result<(), Mismatch> {
        match (self, value) {
            (Self::Field(name), Value::Object(fields)) => found.extend(fields.get(name)),
            (Self::Wildcard, Value::Object(fields)) => found.extend(fields.values()),
            (Self::Wildcard, Value::Array(items)) => found.extend(items),
            (Self::Slice(slice), Value::Array(items)) => slice.walk(items, found)?,
            (Self::Filter(filter), Value::Array(items)) => {
                for item in items {
                    if filter.passes(item)? {
                        found.push(item);
                    }
                }
            }
            (Self::Slice(_), Value::Null) | (Self::Field(_) | Self::Wildcard, _) => {}
            (Self::Slice(_) | Self::Filter(_), _) => return Err(Mismatch),
        }
        Ok(())
    }
}

impl Slice {
    fn walk<'a>(&self, items: &'a [Value], found: &mut Vec<&'a Value>) -> Result<(), Mismatch> {
        let length = i64::try_from(items.len()).map_err(|_| Mismatch)?;
        let mut start = self.start.unwrap_or(0);
        if start < 0 {
            start += length;
        }
        let mut end = self.end.unwrap_or(length);
        if end < 0 || (end == 0 && self.single) {
            end += length;
        }
        if start == end {
            return Ok(());
        }
        let step = self.step.unwrap_or(1);
        if step <= 0 || !(0..length).contains(&start) || !(start..=length).contains(&end) {
            return Err(Mismatch);
        }
        let index = |number: i64| usize::try_from(number).map_err(|_| Mismatch);
        let slice = items.get(index(start)?..index(end)?).ok_or(Mismatch)?;
        found.extend(slice.iter().step_by(index(step)?));
        Ok(())
    }
}

impl Filter {
    fn passes(&self, item: &Value) -> Result<bool, Mismatch> {
        let left = self.left.find(item);
        let Some((comparison, right)) = &self.comparison else {
            return Ok(left.is_ok_and(|found| !found.is_empty()));
        };
        let right = match right {
            Operand::Literal(value) => vec![value],
            Operand::Path(path) => path.find(item)?,
        };
        match (left?.as_slice(), right.as_slice()) {
            ([], _) | (_, []) => Ok(false),
            ([left], [right]) => comparison.holds(left, right),
            _ => Err(Mismatch),
        }
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> Result<bool, Mismatch> {
        let ordering = compare(left, right).ok_or(Mismatch)?;
        Ok(match self {
            Self::Equal => ordering == Ordering::Equal,
            Self::NotEqual => ordering != Ordering::Equal,
            Self::Less => ordering == Ordering::Less,
            Self::LessEqual => ordering != Ordering::Greater,
            Self::Greater => ordering == Ordering::Greater,
            Self::GreaterEqual => ordering != Ordering::Less,
        })
    }
}

/// Compares two values. Only values of the same simple type can be compared.
fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        _ => None,
    }
}

fn compare_numbers(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}
