//! Taking fields and items out of a value.

use serde_json::{Map, Value};

use super::items::path_element;
use crate::path::PathElement;
use crate::schema::{List, ListRelation, MapType, Shape, TypeRef};
use crate::set::FieldSet;

/// Returns the value without these items. A list or map of which nothing is left is null.
pub(super) fn remove(value: &Value, items: &FieldSet, of: &TypeRef) -> Value {
    walk(value, items, of, Mode::Remove)
}

/// Returns only these items of the value.
pub(super) fn extract(value: &Value, items: &FieldSet, of: &TypeRef) -> Value {
    walk(value, items, of, Mode::Extract)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Remove,
    Extract,
}

fn walk(value: &Value, items: &FieldSet, of: &TypeRef, mode: Mode) -> Value {
    let atom = of.resolve();
    // What is not walked, because it is atomic or empty, belongs to what is extracted.
    let whole = || match mode {
        Mode::Extract => value.clone(),
        Mode::Remove => Value::Null,
    };
    match (atom.shape(atom.candidates(Some(value))), value) {
        (Some(Shape::Scalar(_)), _) => value.clone(),
        (Some(Shape::List(list)), Value::Array(entries)) => {
            if entries.is_empty() || list.relation == ListRelation::Atomic {
                whole()
            } else {
                walk_list(list, entries, items, mode)
            }
        }
        (Some(Shape::Map(map)), Value::Object(entries)) => {
            if entries.is_empty() || map.atomic {
                whole()
            } else {
                walk_map(map, entries, items, mode)
            }
        }
        _ => Value::Null,
    }
}

fn walk_list(list: &List, entries: &[Value], items: &FieldSet, mode: Mode) -> Value {
    let mut kept = Vec::new();
    for entry in entries {
        let Ok(element) = path_element(list, entry) else {
            kept.push(entry.clone());
            continue;
        };
        let is_named = items.members().contains(&element);
        let below = items.below(&element);
        let is_kept = match mode {
            Mode::Remove => !is_named,
            Mode::Extract => is_named || below.is_some(),
        };
        if is_kept {
            kept.push(match below {
                Some(below) => walk(entry, below, &list.items, mode),
                None => entry.clone(),
            });
        }
    }
    if kept.is_empty() {
        Value::Null
    } else {
        Value::Array(kept)
    }
}

fn walk_map(map: &MapType, entries: &Map<String, Value>, items: &FieldSet, mode: Mode) -> Value {
    let mut kept = Map::new();
    for (key, entry) in entries {
        let element = PathElement::field(key.as_str());
        let of = map.type_of(key);
        let is_named = items.members().contains(&element);
        let left = match (mode, is_named, items.below(&element)) {
            (Mode::Remove, true, _) | (Mode::Extract, false, None) => continue,
            (Mode::Extract, true, _) => walk(entry, items, of, mode),
            (_, false, Some(below)) => walk(entry, below, of, mode),
            (Mode::Remove, false, None) => entry.clone(),
        };
        kept.insert(key.clone(), left);
    }
    if kept.is_empty() {
        Value::Null
    } else {
        Value::Object(kept)
    }
}
