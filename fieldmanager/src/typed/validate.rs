//! The check that a value conforms to its type.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Duplicates;
use super::error::{Findings, INVALID_ATOM, ValidationErrors};
use super::items::path_element;
use crate::go;
use crate::path::PathElement;
use crate::schema::{List, ListRelation, MapType, Scalar, Shape, TypeRef};

pub(super) fn validate(
    value: &Value,
    of: &TypeRef,
    duplicates: Duplicates,
) -> Result<(), ValidationErrors> {
    walk(value, of, duplicates).into_result(())
}

fn walk(value: &Value, of: &TypeRef, duplicates: Duplicates) -> Findings {
    let mut findings = Findings::default();
    let atom = of.resolve();
    match (atom.shape(atom.candidates(Some(value))), value) {
        (None, _) => findings.add(INVALID_ATOM),
        (Some(Shape::Scalar(scalar)), _) => {
            if let Err(message) = scalar_of(scalar, Some(value)) {
                findings.add(message);
            }
        }
        (Some(Shape::List(_) | Shape::Map(_)), Value::Null) => {}
        (Some(Shape::List(list)), Value::Array(items)) => {
            return walk_list(list, items, duplicates);
        }
        (Some(Shape::Map(map)), Value::Object(entries)) => {
            return walk_map(map, entries, duplicates);
        }
        (Some(Shape::List(_)), other) => {
            findings.add(format!("expected list, got &{{{}}}", go::plain(other)));
        }
        (Some(Shape::Map(_)), other) => {
            findings.add(format!("expected map, got &{{{}}}", go::plain(other)));
        }
    }
    findings
}

fn walk_list(list: &List, items: &[Value], duplicates: Duplicates) -> Findings {
    let mut findings = Findings::default();
    let mut seen = BTreeSet::new();
    for (index, item) in (0..).zip(items) {
        if list.relation == ListRelation::Atomic {
            let below = walk(item, &list.items, duplicates);
            findings.add_below(|| PathElement::Index(index), below);
            continue;
        }
        let element = match path_element(list, item) {
            Ok(element) => element,
            Err(message) => {
                findings.add(format!("element {index}: {message}"));
                return findings;
            }
        };
        if duplicates == Duplicates::Refused && seen.contains(&element) {
            findings.add(format!("duplicate entries for key {element}"));
        }
        let below = walk(item, &list.items, duplicates);
        findings.add_below(|| &element, below);
        seen.insert(element);
    }
    findings
}

fn walk_map(map: &MapType, entries: &Map<String, Value>, duplicates: Duplicates) -> Findings {
    let mut findings = Findings::default();
    for (key, entry) in entries {
        let element = || PathElement::field(key.as_str());
        let of = map.type_of(key);
        if of.is_undeclared() {
            let mut below = Findings::default();
            below.add("field not declared in schema");
            findings.add_below(element, below);
            break;
        }
        findings.add_below(element, walk(entry, of, duplicates));
    }
    findings
}

/// Checks that a scalar has its type. An absent value and null have every type.
pub(super) fn scalar_of(scalar: Scalar, value: Option<&Value>) -> Result<(), String> {
    let value = match value {
        None | Some(Value::Null) => return Ok(()),
        Some(value) => value,
    };
    match scalar {
        Scalar::Numeric if !value.is_number() => Err(format!(
            "expected numeric (int or float), got {}",
            type_name(value)
        )),
        Scalar::String if !value.is_string() => Err(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            go::go_syntax(value)
        )),
        Scalar::Boolean if !value.is_boolean() => {
            Err(format!("expected boolean, got &{{{}}}", go::plain(value)))
        }
        Scalar::Untyped if value.is_array() || value.is_object() => Err(format!(
            "expected any scalar, got &{{{}}}",
            go::plain(value)
        )),
        _ => Ok(()),
    }
}

/// Returns `%T` of the Go value.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
