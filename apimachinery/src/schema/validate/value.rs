//! The rules of one schema on one value, and the way down to the values below it.

use fieldmanager::go::{Flavour, json};
use serde_json::{Map, Value};

use super::super::format::FormatKind;
use super::super::structural::{Additional, Rules, Type, Types};
use super::super::{FieldError, Structural};
use super::path::Path;
use super::previous::{Items, Previous};
use super::{Outcome, number};

impl Structural {
    /// Judges a value; errors of parts that equal their former values are dropped.
    pub(super) fn judge_update(
        &self,
        value: &Value,
        path: &Path<'_>,
        previous: Previous<'_>,
    ) -> Outcome {
        let mut outcome = self.judge(value, path, Some(previous));
        if !outcome.is_valid() && previous.equals(value) {
            outcome.errors.clear();
        }
        outcome
    }

    pub(super) fn judge(
        &self,
        value: &Value,
        path: &Path<'_>,
        previous: Option<Previous<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        self.judge_type(value, path, &mut outcome);
        if !value.is_null() {
            outcome.merge(self.judge_junctors(value, path));
            outcome.matches += 1;
            match value {
                Value::String(text) => self.judge_text(text, path, &mut outcome),
                Value::Number(given) => {
                    outcome.merge(number::judge(self, given, path));
                    outcome.matches += 1;
                }
                Value::Array(items) => {
                    self.judge_items(items, path, previous, &mut outcome);
                    outcome.matches += 2;
                }
                _ => {}
            }
        }
        judge_enumeration(&self.rules, value, path, &mut outcome);
        if !value.is_null() {
            outcome.matches += 2;
        }
        if let Value::Object(fields) = value {
            self.judge_fields(fields, path, previous, &mut outcome);
            outcome.matches += 1;
        }
        outcome
    }

    fn judge_items(
        &self,
        items: &[Value],
        path: &Path<'_>,
        previous: Option<Previous<'_>>,
        outcome: &mut Outcome,
    ) {
        if let Some(schema) = &self.items {
            let former = previous.map_or_else(Items::default, Previous::items);
            for (index, item) in items.iter().enumerate() {
                let below = path.index(index);
                outcome.merge(match former.of(item) {
                    Some(previous) => schema.judge_update(item, &below, previous),
                    None => schema.judge(item, &below, None),
                });
            }
        }
        let rules = &self.rules;
        if let Some(min) = rules.min_items.filter(|min| is_less(items.len(), *min)) {
            let detail = format!("{path} in body should have at least {min} items");
            outcome.push(FieldError::invalid(path.to_field(), items.len(), detail));
        }
        if let Some(max) = rules.max_items.filter(|max| is_more(items.len(), *max)) {
            outcome.push(FieldError::too_many(path.to_field(), items.len(), max));
        }
        if rules.unique_items && has_duplicates(items) {
            let detail = format!("{path} in body shouldn't contain duplicates");
            outcome.push(FieldError::invalid(path.to_field(), "", detail));
        }
    }

    fn judge_fields(
        &self,
        fields: &Map<String, Value>,
        path: &Path<'_>,
        previous: Option<Previous<'_>>,
        outcome: &mut Outcome,
    ) {
        let rules = &self.rules;
        if let Some(min) = rules
            .min_properties
            .filter(|min| is_less(fields.len(), *min))
        {
            let detail = format!("{path} in body should have at least {min} properties");
            outcome.push(FieldError::invalid(path.to_field(), fields.len(), detail));
        }
        if let Some(max) = rules
            .max_properties
            .filter(|max| is_more(fields.len(), *max))
        {
            outcome.push(FieldError::too_many(path.to_field(), fields.len(), max));
        }
        for (name, value) in fields {
            let schema = match (self.properties.get(name), &self.additional) {
                (Some(property), _) => property,
                (None, Additional::Schema(below)) => below,
                (None, Additional::Any | Additional::Unspecified) => continue,
            };
            let below = path.field(name);
            outcome.merge(
                match previous.and_then(|previous| previous.field(name, path)) {
                    Some(previous) => schema.judge_update(value, &below, previous),
                    None => schema.judge(value, &below, None),
                },
            );
        }
        for name in rules
            .required
            .iter()
            .filter(|name| !fields.contains_key(*name))
        {
            outcome.push(FieldError::required(path.field(name).to_field(), ""));
        }
    }

    fn judge_text(&self, text: &str, path: &Path<'_>, outcome: &mut Outcome) {
        outcome.matches += 1;
        if let Some(error) = self.text_error(text, path) {
            outcome.push(error);
        }
        let Some(format) = &self.rules.format else {
            return;
        };
        if let FormatKind::Text(kind) = format.kind {
            outcome.matches += 1;
            if !kind.admits(text) {
                let quoted = fieldmanager::go::quote(text);
                let detail = format!("{path} in body must be of type {}: {quoted}", format.name);
                outcome.push(FieldError::type_invalid(path.to_field(), text, detail));
            }
        }
    }

    /// Returns the first error of a text; only that is reported.
    fn text_error(&self, text: &str, path: &Path<'_>) -> Option<FieldError> {
        let rules = &self.rules;
        let invalid = |detail| Some(FieldError::invalid(path.to_field(), text, detail));
        if rules.max_length.is_some() || rules.min_length.is_some() {
            let length = text.chars().count();
            if let Some(max) = rules.max_length.filter(|max| is_more(length, *max)) {
                return Some(FieldError::too_long(path.to_field(), max));
            }
            if let Some(min) = rules.min_length.filter(|min| is_less(length, *min)) {
                return invalid(format!(
                    "{path} in body should be at least {min} chars long"
                ));
            }
        }
        match &rules.pattern {
            Some(pattern) if !pattern.is_match(text) => {
                invalid(format!("{path} in body should match '{pattern}'"))
            }
            _ => None,
        }
    }

    fn judge_type(&self, value: &Value, path: &Path<'_>, outcome: &mut Outcome) {
        if self.types == Types::Any && self.rules.format.is_none() {
            return;
        }
        if !value.is_null() {
            outcome.matches += 1;
        }
        match self.type_error(value) {
            Some((wanted, found)) => {
                let detail = format!("{path} in body must be of type {wanted}: \"{found}\"");
                outcome.push(FieldError::type_invalid(path.to_field(), found, detail));
            }
            None => outcome.matches += 1,
        }
    }

    /// Returns the type that was wanted and the one that was found.
    fn type_error(&self, value: &Value) -> Option<(String, &'static str)> {
        if value.is_null() {
            let refused = self.types != Types::Any && !self.nullable;
            return refused.then(|| (self.types.name().to_owned(), "null"));
        }
        let found = type_of(value);
        if self.types.admit(value) {
            return None;
        }
        let Some(format) = &self.rules.format else {
            return Some((self.types.name().to_owned(), found));
        };
        match value {
            // A string or list is left to the rule of the format unless a number is wanted; the
            // kube-apiserver has no other check then.
            Value::String(_) | Value::Array(_) if !self.types.numeric() => None,
            Value::String(_) | Value::Array(_) => Some((self.types.name().to_owned(), found)),
            // What was found is told as the format that Go gives the value.
            Value::Number(number) => {
                let found = if number.is_i64() { "int64" } else { "float64" };
                Some((format.name.clone(), found))
            }
            _ => Some((format.name.clone(), "")),
        }
    }
}

fn judge_enumeration(rules: &Rules, value: &Value, path: &Path<'_>, outcome: &mut Outcome) {
    // A null is never in an enumeration, not even in one that lists it.
    let listed = || {
        rules
            .enumeration
            .iter()
            .any(|item| !value.is_null() && is_equal(item, value))
    };
    if rules.enumeration.is_empty() || listed() {
        return;
    }
    let supported: Vec<String> = rules
        .enumeration
        .iter()
        .map(|item| {
            item.as_str()
                .map_or_else(|| json(item, Flavour::Standard), str::to_owned)
        })
        .collect();
    outcome.push(FieldError::not_supported(
        path.to_field(),
        value.clone(),
        &supported,
    ));
}

fn is_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || left.as_f64() == right.as_f64()
        }
        _ => left == right,
    }
}

/// Returns whether a list has equal items. They are found by their text, which for maps has sorted
/// keys.
fn has_duplicates(items: &[Value]) -> bool {
    let mut seen = std::collections::HashSet::new();
    !items.iter().all(|item| seen.insert(item.to_string()))
}

fn is_less(length: usize, min: i64) -> bool {
    i64::try_from(length).is_ok_and(|length| length < min)
}

fn is_more(length: usize, max: i64) -> bool {
    i64::try_from(length).is_ok_and(|length| length > max)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

impl Types {
    fn admit(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any, _)
            | (Self::One(Type::Object), Value::Object(_))
            | (Self::One(Type::Array), Value::Array(_))
            | (Self::One(Type::String) | Self::IntOrString, Value::String(_))
            | (Self::One(Type::Number), Value::Number(_))
            | (Self::One(Type::Boolean), Value::Bool(_)) => true,
            (Self::One(Type::Integer) | Self::IntOrString, Value::Number(number)) => {
                number.is_i64() || number.as_f64().is_some_and(number::is_nearly_whole)
            }
            _ => false,
        }
    }

    fn numeric(self) -> bool {
        matches!(
            self,
            Self::IntOrString | Self::One(Type::Integer | Type::Number)
        )
    }

    fn name(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::IntOrString => "integer,string",
            Self::One(Type::Object) => "object",
            Self::One(Type::Array) => "array",
            Self::One(Type::String) => "string",
            Self::One(Type::Integer) => "integer",
            Self::One(Type::Number) => "number",
            Self::One(Type::Boolean) => "boolean",
        }
    }
}
