//! The fields that a value mentions.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::error::{Findings, INVALID_ATOM, ValidationErrors};
use super::items::path_element;
use crate::path::PathElement;
use crate::schema::{List, ListRelation, MapType, Shape, TypeRef};
use crate::set::FieldSet;

pub(super) fn to_field_set(value: &Value, of: &TypeRef) -> Result<FieldSet, ValidationErrors> {
    let mut walk = Walk::default();
    walk.visit(value, of);
    walk.findings.into_result(walk.set)
}

#[derive(Default)]
struct Walk {
    path: Vec<PathElement>,
    set: FieldSet,
    findings: Findings,
}

impl Walk {
    fn visit(&mut self, value: &Value, of: &TypeRef) {
        let atom = of.resolve();
        match (atom.shape(atom.candidates(Some(value))), value) {
            (None, _) => self.findings.add(INVALID_ATOM),
            (Some(Shape::Scalar(_)), _) => self.insert(),
            (Some(Shape::List(list)), _) if list.relation == ListRelation::Atomic => self.insert(),
            (Some(Shape::Map(map)), _) if map.atomic => self.insert(),
            (Some(Shape::List(list)), Value::Array(items)) => self.visit_list(list, items),
            (Some(Shape::Map(map)), Value::Object(entries)) => self.visit_map(map, entries),
            (Some(Shape::List(_) | Shape::Map(_)), _) => {}
        }
    }

    /// Visits a list. An item that is there several times is owned as one, without the fields in
    /// it.
    fn visit_list(&mut self, list: &List, items: &[Value]) {
        let mut seen = BTreeSet::new();
        let mut repeated = BTreeSet::new();
        let items: Vec<(PathElement, &Value)> = items
            .iter()
            .filter_map(|item| Some((path_element(list, item).ok()?, item)))
            .collect();
        for (element, _) in &items {
            if !seen.insert(element) {
                repeated.insert(element);
            }
        }
        for (element, item) in &items {
            let is_repeated = repeated.contains(element);
            self.path.push(element.clone());
            if !is_repeated {
                self.visit(item, &list.items);
            }
            self.insert();
            self.path.pop();
        }
    }

    fn visit_map(&mut self, map: &MapType, entries: &Map<String, Value>) {
        for (key, entry) in entries {
            self.path.push(PathElement::field(key.as_str()));
            self.visit(entry, map.type_of(key));
            let is_empty = match entry {
                Value::Null => true,
                Value::Object(below) => below.is_empty(),
                _ => false,
            };
            if is_empty || !map.fields.contains_key(key) {
                self.insert();
            }
            self.path.pop();
        }
    }

    fn insert(&mut self) {
        self.set.insert(&self.path);
    }
}
