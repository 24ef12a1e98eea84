//! Union, intersection and differences.

use std::collections::BTreeMap;

use super::FieldSet;
use crate::path::PathElement;

impl FieldSet {
    /// Returns the members of either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut children = self.children.clone();
        for (element, theirs) in &other.children {
            match children.get_mut(element) {
                Some(ours) => *ours = ours.union(theirs),
                None => {
                    children.insert(element.clone(), theirs.clone());
                }
            }
        }
        Self {
            members: self.members.union(&other.members).cloned().collect(),
            children,
        }
    }

    /// Returns the members of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: self.children_where(|element, ours| {
                let theirs = other.children.get(element)?;
                Some(ours.intersection(theirs))
            }),
        }
    }

    /// Returns the members of this set that are not in the other. A parent stays without its
    /// children, a child without its parent.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: self.children_where(|element, ours| {
                Some(match other.children.get(element) {
                    Some(theirs) => ours.difference(theirs),
                    None => ours.clone(),
                })
            }),
        }
    }

    /// Returns the members of this set that are neither in the other nor below a member of the
    /// other.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: self.children_where(|element, ours| {
                if other.members.contains(element) {
                    return None;
                }
                Some(match other.children.get(element) {
                    Some(theirs) => ours.recursive_difference(theirs),
                    None => ours.clone(),
                })
            }),
        }
    }

    /// Returns the members that have no member below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        Self {
            members: self
                .members
                .iter()
                .filter(|member| !self.children.contains_key(member))
                .cloned()
                .collect(),
            children: self.children_where(|_, ours| Some(ours.leaves())),
        }
    }

    fn children_where(
        &self,
        change: impl Fn(&PathElement, &Self) -> Option<Self>,
    ) -> BTreeMap<PathElement, Self> {
        self.children
            .iter()
            .filter_map(|(element, child)| {
                let changed = change(element, child)?;
                (!changed.is_empty()).then(|| (element.clone(), changed))
            })
            .collect()
    }
}
