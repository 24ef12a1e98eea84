//! The difference of two values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::error::{Findings, INVALID_ATOM, ValidationErrors};
use super::items::path_element;
use super::validate::scalar_of;
use crate::path::PathElement;
use crate::schema::{Atom, Candidates, List, ListRelation, MapType, Scalar, Shape, TypeRef};
use crate::set::FieldSet;
use crate::value::equal;

/// The difference of two values; no field is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields in the newer value only.
    pub added: FieldSet,
    /// Fields in both, with different values.
    pub modified: FieldSet,
    /// Fields in the older value only.
    pub removed: FieldSet,
}

impl Comparison {
    /// Returns whether nothing differs.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Returns the difference without these fields and all below them.
    #[must_use]
    pub fn without(self, fields: &FieldSet) -> Self {
        if fields.is_empty() {
            return self;
        }
        Self {
            added: self.added.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            removed: self.removed.recursive_difference(fields),
        }
    }
}

pub(super) fn compare(
    old: &Value,
    new: &Value,
    of: &TypeRef,
) -> Result<Comparison, ValidationErrors> {
    let mut walk = Walk::default();
    let findings = walk.visit(Pair::of(Some(old), Some(new)), of);
    findings.into_result(walk.comparison)
}

/// The two sides; one may be absent.
#[derive(Clone, Copy)]
struct Pair<'a> {
    old: Option<&'a Value>,
    new: Option<&'a Value>,
}

impl<'a> Pair<'a> {
    fn of(old: Option<&'a Value>, new: Option<&'a Value>) -> Self {
        Self { old, new }
    }
}

#[derive(Default)]
struct Walk {
    path: Vec<PathElement>,
    comparison: Comparison,
}

impl Walk {
    fn visit(&mut self, pair: Pair<'_>, of: &TypeRef) -> Findings {
        let atom = of.resolve();
        let (old, new) = (atom.candidates(pair.old), atom.candidates(pair.new));
        let mut findings = Findings::default();
        let is_leaf = if pair.new.is_none() {
            self.visit_as(atom, old, pair, &mut findings)
        } else if pair.old.is_none() || atom.same(old, new) {
            self.visit_as(atom, new, pair, &mut findings)
        } else {
            self.visit_as(atom, old, pair, &mut findings);
            self.visit_as(atom, new, pair, &mut findings)
        };
        if !is_leaf {
            if pair.old.is_none() {
                self.comparison.added.insert(&self.path);
            } else if pair.new.is_none() {
                self.comparison.removed.insert(&self.path);
            }
        }
        findings
    }

    /// Compares as one kind of type; returns whether the value was compared as a whole.
    fn visit_as(
        &mut self,
        atom: &Atom,
        candidates: Candidates,
        pair: Pair<'_>,
        findings: &mut Findings,
    ) -> bool {
        match atom.shape(candidates) {
            None => {
                findings.add(INVALID_ATOM);
                false
            }
            Some(Shape::Scalar(scalar)) => self.visit_scalar(scalar, pair, findings),
            Some(Shape::List(list)) => self.visit_list(list, pair, findings),
            Some(Shape::Map(map)) => self.visit_map(map, pair, findings),
        }
    }

    fn leaf(&mut self, pair: Pair<'_>) -> bool {
        match (pair.old, pair.new) {
            (None, _) => self.comparison.added.insert(&self.path),
            (_, None) => self.comparison.removed.insert(&self.path),
            (Some(old), Some(new)) => {
                if !equal(old, new) {
                    self.comparison.modified.insert(&self.path);
                }
            }
        }
        true
    }

    fn visit_scalar(&mut self, scalar: Scalar, pair: Pair<'_>, findings: &mut Findings) -> bool {
        let sides = (scalar_of(scalar, pair.old), scalar_of(scalar, pair.new));
        if let (Err(old), Err(new)) = sides {
            findings.add(format!("lhs: {old}"));
            findings.add(format!("rhs: {new}"));
            return false;
        }
        self.leaf(pair)
    }

    fn visit_list(&mut self, list: &List, pair: Pair<'_>, findings: &mut Findings) -> bool {
        let old = pair.old.and_then(Value::as_array).map(Vec::as_slice);
        let new = pair.new.and_then(Value::as_array).map(Vec::as_slice);
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        if list.relation == ListRelation::Atomic || (old.is_empty() && new.is_empty()) {
            return self.leaf(pair);
        }
        let (old, new) = (index(list, old, findings), index(list, new, findings));
        let elements: BTreeSet<&PathElement> = old.keys().chain(new.keys()).collect();
        for element in elements {
            let old = old.get(element).map_or(&[][..], Vec::as_slice);
            let new = new.get(element).map_or(&[][..], Vec::as_slice);
            self.visit_item(list, element, old, new, findings);
        }
        false
    }

    /// Compares all items of one path element. Items that are there several times are taken
    /// together for one value.
    fn visit_item(
        &mut self,
        list: &List,
        element: &PathElement,
        old: &[&Value],
        new: &[&Value],
        findings: &mut Findings,
    ) {
        let pair = match (old, new) {
            ([] | [_], [] | [_]) => Pair::of(old.first().copied(), new.first().copied()),
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len() && old.iter().zip(new).all(|(o, n)| equal(o, n));
                if !same {
                    self.mark(element, |comparison| &mut comparison.modified);
                }
                return;
            }
            ([_, _, ..], _) => {
                self.mark(element, |comparison| &mut comparison.removed);
                Pair::of(None, new.first().copied())
            }
            (_, [_, _, ..]) => {
                self.mark(element, |comparison| &mut comparison.added);
                Pair::of(old.first().copied(), None)
            }
        };
        if pair.old.is_some() || pair.new.is_some() {
            self.descend(element.clone(), pair, &list.items, findings);
        }
    }

    fn mark(&mut self, element: &PathElement, set: impl Fn(&mut Comparison) -> &mut FieldSet) {
        self.path.push(element.clone());
        set(&mut self.comparison).insert(&self.path);
        self.path.pop();
    }

    fn visit_map(&mut self, map: &MapType, pair: Pair<'_>, findings: &mut Findings) -> bool {
        let old = pair.old.and_then(Value::as_object);
        let new = pair.new.and_then(Value::as_object);
        if map.atomic || (old.is_none_or(Map::is_empty) && new.is_none_or(Map::is_empty)) {
            return self.leaf(pair);
        }
        let keys: BTreeSet<&String> = [old, new]
            .into_iter()
            .flatten()
            .flat_map(Map::keys)
            .collect();
        for key in keys {
            let below = Pair::of(
                old.and_then(|entries| entries.get(key)),
                new.and_then(|entries| entries.get(key)),
            );
            let element = PathElement::field(key.as_str());
            self.descend(element, below, map.type_of(key), findings);
        }
        false
    }

    fn descend(
        &mut self,
        element: PathElement,
        pair: Pair<'_>,
        of: &TypeRef,
        findings: &mut Findings,
    ) {
        self.path.push(element);
        let below = self.visit(pair, of);
        if let Some(element) = self.path.pop() {
            findings.add_below(|| element, below);
        }
    }
}

fn index<'a>(
    list: &List,
    items: &'a [Value],
    findings: &mut Findings,
) -> BTreeMap<PathElement, Vec<&'a Value>> {
    let mut indexed: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
    for (place, item) in items.iter().enumerate() {
        match path_element(list, item) {
            Ok(element) => indexed.entry(element).or_default().push(item),
            Err(message) => findings.add(format!("element {place}: {message}")),
        }
    }
    indexed
}
