//! Sets of fields that were recorded under an older schema.

use std::collections::BTreeSet;

use super::error::{Findings, INVALID_ATOM, ValidationErrors};
use crate::path::PathElement;
use crate::schema::{List, ListRelation, MapType, Shape, TypeRef};
use crate::set::FieldSet;

pub(super) fn reconcile(
    set: &FieldSet,
    of: &TypeRef,
) -> Result<Option<FieldSet>, ValidationErrors> {
    let mut walk = Walk::default();
    let findings = walk.visit(Some(set), false, of);
    let atomic = findings.into_result(walk.atomic)?;
    if atomic.is_empty() {
        return Ok(None);
    }
    Ok(Some(set.recursive_difference(&atomic).union(&atomic)))
}

#[derive(Default)]
struct Walk {
    path: Vec<PathElement>,
    /// The fields that have become atomic since.
    atomic: FieldSet,
}

impl Walk {
    /// Visits a value. `below` are the fields owned below the path; `is_whole` tells that it is
    /// owned as a whole.
    fn visit(&mut self, below: Option<&FieldSet>, is_whole: bool, of: &TypeRef) -> Findings {
        let atom = of.resolve();
        let mut findings = Findings::default();
        match atom.shape(atom.candidates(None)) {
            None => findings.add(INVALID_ATOM),
            Some(Shape::Scalar(_)) => {}
            Some(Shape::List(list)) => {
                if !is_whole && list.relation == ListRelation::Atomic {
                    self.atomic.insert(&self.path);
                } else if let Some(below) = below {
                    return self.visit_items(list, below);
                }
            }
            Some(Shape::Map(map)) if map.is_free() => {}
            Some(Shape::Map(map)) => {
                if !is_whole && map.atomic {
                    if below.is_some_and(|below| !below.is_empty()) {
                        self.atomic.insert(&self.path);
                    }
                } else if let Some(below) = below {
                    return self.visit_entries(map, below);
                }
            }
        }
        findings
    }

    fn visit_items(&mut self, list: &List, set: &FieldSet) -> Findings {
        let mut findings = Findings::default();
        for element in elements(set) {
            findings.append(self.descend(element, set, &list.items));
        }
        findings
    }

    fn visit_entries(&mut self, map: &MapType, set: &FieldSet) -> Findings {
        let mut findings = Findings::default();
        for element in elements(set) {
            let of = match element {
                PathElement::Field(name) => map.type_of(name),
                _ => &map.additional,
            };
            if !of.is_undeclared() {
                findings.append(self.descend(element, set, of));
            }
        }
        findings
    }

    fn descend(&mut self, element: &PathElement, set: &FieldSet, of: &TypeRef) -> Findings {
        let below = set.below(element);
        let is_whole = set.members().contains(element) && below.is_none();
        self.path.push(element.clone());
        let findings = self.visit(below, is_whole, of);
        self.path.pop();
        findings
    }
}

fn elements(set: &FieldSet) -> BTreeSet<&PathElement> {
    set.members().iter().chain(set.children().keys()).collect()
}
