//! Merging applied values into live ones.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::error::{Findings, INVALID_ATOM, ValidationErrors};
use super::items::path_element;
use super::validate::scalar_of;
use crate::path::PathElement;
use crate::schema::{Atom, Candidates, List, ListRelation, MapType, Scalar, Shape, TypeRef};

pub(super) fn merge(live: &Value, config: &Value, of: &TypeRef) -> Result<Value, ValidationErrors> {
    let mut findings = Findings::default();
    let sides = Sides {
        live: Some(live),
        config: Some(config),
    };
    let merged = visit(sides, of, &mut findings);
    findings.into_result(merged.unwrap_or(Value::Null))
}

/// The live value and the applied value; one may be absent.
#[derive(Clone, Copy)]
struct Sides<'a> {
    live: Option<&'a Value>,
    config: Option<&'a Value>,
}

impl Sides<'_> {
    /// Returns the applied value, else the live one.
    fn newest(self) -> Option<Value> {
        self.config.or(self.live).cloned()
    }
}

fn visit(sides: Sides<'_>, of: &TypeRef, findings: &mut Findings) -> Option<Value> {
    let atom = of.resolve();
    let live = atom.candidates(sides.live);
    let config = atom.candidates(sides.config);
    if sides.config.is_none() {
        return visit_as(atom, live, sides, findings);
    }
    if sides.live.is_some() && !atom.same(live, config) {
        // The type changes: both are checked, what is applied is taken.
        visit_as(atom, live, sides, findings);
    }
    visit_as(atom, config, sides, findings)
}

fn visit_as(
    atom: &Atom,
    candidates: Candidates,
    sides: Sides<'_>,
    findings: &mut Findings,
) -> Option<Value> {
    match atom.shape(candidates) {
        None => {
            findings.add(INVALID_ATOM);
            None
        }
        Some(Shape::Scalar(scalar)) => visit_scalar(scalar, sides, findings),
        Some(Shape::List(list)) => visit_list(list, sides, findings),
        Some(Shape::Map(map)) => visit_map(map, sides, findings),
    }
}

fn visit_scalar(scalar: Scalar, sides: Sides<'_>, findings: &mut Findings) -> Option<Value> {
    let checked = (
        scalar_of(scalar, sides.live),
        scalar_of(scalar, sides.config),
    );
    if let (Err(live), Err(config)) = checked {
        findings.add(format!("lhs: {live}"));
        findings.add(format!("rhs: {config}"));
        return None;
    }
    sides.newest()
}

fn visit_map(map: &MapType, sides: Sides<'_>, findings: &mut Findings) -> Option<Value> {
    let live = sides.live.and_then(Value::as_object);
    let config = sides.config.and_then(Value::as_object);
    let is_empty = live.is_none_or(Map::is_empty) && config.is_none_or(Map::is_empty);
    if map.atomic || is_empty {
        return sides.newest();
    }
    let keys: BTreeSet<&String> = [live, config]
        .into_iter()
        .flatten()
        .flat_map(Map::keys)
        .collect();
    let mut merged = Map::new();
    for key in keys {
        let below = Sides {
            live: live.and_then(|entries| entries.get(key)),
            config: config.and_then(|entries| entries.get(key)),
        };
        let mut found = Findings::default();
        let value = visit(below, map.type_of(key), &mut found);
        findings.add_below(|| PathElement::field(key.as_str()), found);
        merged.extend(value.map(|value| (key.clone(), value)));
    }
    (!merged.is_empty()).then_some(Value::Object(merged))
}

fn visit_list(list: &List, sides: Sides<'_>, findings: &mut Findings) -> Option<Value> {
    let live = sides.live.and_then(Value::as_array).map(Vec::as_slice);
    let config = sides.config.and_then(Value::as_array).map(Vec::as_slice);
    let (live, config) = (live.unwrap_or_default(), config.unwrap_or_default());
    if list.relation == ListRelation::Atomic || (live.is_empty() && config.is_empty()) {
        return sides.newest();
    }
    let mut found = Findings::default();
    let config = Index::of(list, config, false, &mut found);
    let live = Index::of(list, live, true, &mut found);
    if !found.is_empty() {
        findings.append(found);
        return None;
    }
    let merged = ListMerge::new(list, &live, &config).run();
    (!merged.is_empty()).then_some(Value::Array(merged))
}

/// A list with its items by path element.
struct Index<'a> {
    items: Vec<(PathElement, &'a Value)>,
    by_element: BTreeMap<PathElement, &'a Value>,
}

impl<'a> Index<'a> {
    /// Returns the index of a list. An item that is there several times is not merged: null stands
    /// for it.
    fn of(list: &List, items: &'a [Value], repeats: bool, findings: &mut Findings) -> Self {
        let mut index = Self {
            items: Vec::with_capacity(items.len()),
            by_element: BTreeMap::new(),
        };
        for (place, item) in items.iter().enumerate() {
            let element = match path_element(list, item) {
                Ok(element) => element,
                Err(message) => {
                    findings.add(format!("element {place}: {message}"));
                    continue;
                }
            };
            let is_repeated = index.by_element.contains_key(&element);
            if is_repeated && !repeats {
                findings.add(format!("duplicate entries for key {element}"));
                continue;
            }
            let known = if is_repeated { &Value::Null } else { item };
            index.by_element.insert(element.clone(), known);
            index.items.push((element, item));
        }
        index
    }

    fn get(&self, element: &PathElement) -> Option<&'a Value> {
        self.by_element.get(element).copied()
    }
}

/// Items of both lists in one order: that of the applied list for the items in it, with the items
/// that only the live list has as near as possible to their former places.
struct ListMerge<'a> {
    list: &'a List,
    live: &'a Index<'a>,
    config: &'a Index<'a>,
    /// Items of both lists that are still to come, in the order of the applied list.
    shared: std::vec::IntoIter<&'a PathElement>,
    next_shared: Option<&'a PathElement>,
    done: BTreeSet<&'a PathElement>,
    merged: Vec<Value>,
}

impl<'a> ListMerge<'a> {
    fn new(list: &'a List, live: &'a Index<'a>, config: &'a Index<'a>) -> Self {
        let shared: Vec<&PathElement> = config
            .items
            .iter()
            .map(|(element, _)| element)
            .filter(|element| live.by_element.contains_key(element))
            .collect();
        let mut shared = shared.into_iter();
        Self {
            list,
            live,
            config,
            next_shared: shared.next(),
            shared,
            done: BTreeSet::new(),
            merged: Vec::new(),
        }
    }

    fn run(mut self) -> Vec<Value> {
        let (live, config) = (&self.live.items, &self.config.items);
        let (mut at_live, mut at_config) = (0, 0);
        loop {
            match (live.get(at_live), config.get(at_config)) {
                (None, None) => return self.merged,
                (Some((left, _)), Some((right, _))) if left == right => {
                    self.take_config(right);
                    self.next_shared = self.shared.next();
                    at_live += 1;
                    at_config += 1;
                    continue;
                }
                (Some((left, _)), Some(_)) if self.is_out_of_turn(left) => {
                    at_live += 1;
                    continue;
                }
                _ => {}
            }
            if let Some((left, item)) = live.get(at_live) {
                if self.config.get(left).is_none() {
                    self.take(Sides {
                        live: Some(item),
                        config: None,
                    });
                    at_live += 1;
                    continue;
                }
                if self.done.contains(left) {
                    at_live += 1;
                }
            }
            if let Some((right, _)) = config.get(at_config) {
                self.take_config(right);
                at_config += 1;
                if self.next_shared == Some(right) {
                    self.next_shared = self.shared.next();
                }
            }
        }
    }

    /// Returns whether an item of the live list is applied too, but not as the next one.
    fn is_out_of_turn(&self, element: &PathElement) -> bool {
        self.config.get(element).is_some() && self.next_shared.is_some_and(|next| next != element)
    }

    fn take_config(&mut self, element: &'a PathElement) {
        self.done.insert(element);
        self.take(Sides {
            live: self.live.get(element),
            config: self.config.get(element),
        });
    }

    /// Takes an item. The faults in items have been found before, by the check of both values.
    fn take(&mut self, sides: Sides<'_>) {
        let mut found = Findings::default();
        self.merged
            .extend(visit(sides, &self.list.items, &mut found));
    }
}
