//! Uniqueness in lists of the types `set` and `map`.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::structural::{Additional, ListType};
use super::super::{FieldError, Structural};
use super::is_full;
use super::path::Path;

/// Returns the errors of all lists in an object.
pub(super) fn errors(schema: &Structural, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, object, &Path::root(), &mut errors);
    errors
}

fn walk(schema: &Structural, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !schema.needs.unique_items {
        return;
    }
    if is_full(errors) {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name) {
                    walk(property, value, &path.field(name), errors);
                }
                if let Additional::Schema(below) = &schema.additional {
                    walk(below, value, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            match &schema.list_type {
                ListType::Atomic => {}
                ListType::Set => duplicates(items.clone(), path, errors),
                ListType::Map(keys) => map_errors(items, keys, path, errors),
            }
            if let Some(below) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    walk(below, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn map_errors(items: &[Value], keys: &[String], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let stranger = items
        .iter()
        .enumerate()
        .find(|(_, item)| !item.is_object() && !item.is_null());
    if let Some((index, item)) = stranger {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(
            path.index(index).to_field(),
            item.clone(),
            detail,
        ));
        return;
    }
    let key_of = |item: &Value| {
        let given = keys
            .iter()
            .filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(given.collect::<Map<_, _>>())
    };
    duplicates(items.iter().map(key_of).collect(), path, errors);
}

/// Adds an error for each value that occurs more than once, at its second place.
fn duplicates(values: Vec<Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, value) in values.into_iter().enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 && !is_full(errors) {
            errors.push(FieldError::duplicate(path.index(index).to_field(), value));
        }
    }
}
