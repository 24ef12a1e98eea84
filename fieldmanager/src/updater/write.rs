//! Writes other than apply, and the fields that every write takes from other managers.

use std::collections::BTreeMap;

use super::{Conflict, Conflicts, Manager, Managers, Object, UpdateError, VersionedSet, Versions};
use crate::path::PathElement;
use crate::set::FieldSet;
use crate::typed::Comparison;

impl Versions {
    /// Returns the owners after `new` took the place of `live` by a create, an update or a patch:
    /// added and modified fields belong to `manager` alone, removed ones to nobody.
    pub(crate) fn update(
        &self,
        live: &Object<'_>,
        new: &Object<'_>,
        managers: &Managers,
        manager: &Manager,
    ) -> Result<Managers, UpdateError> {
        let mut managers = self.reconcile(live, managers)?;
        let version = new.api_version.clone();
        let comparison = self.take(live, new, &version, &mut managers, manager, true)?;
        let before = managers.remove(manager).map(|owned| owned.set);
        let set = before
            .unwrap_or_default()
            .difference(&comparison.removed)
            .union(&comparison.modified)
            .union(&comparison.added);
        let set = self.owned(&set, &version)?;
        if !set.is_empty() {
            let owned = VersionedSet {
                set,
                api_version: version,
                applied: false,
            };
            managers.insert(manager.clone(), owned);
        }
        Ok(managers)
    }

    /// Returns whether all managers own after [`Versions::update`] what they own before it, where
    /// `object` takes the place of its equal. Where it is not certain, the answer is no.
    pub(crate) fn keeps(&self, object: &Object<'_>, managers: &Managers) -> bool {
        let is_kept = |owned: &VersionedSet| !owned.set.is_empty() && !owns_entries(&owned.set);
        let reconciled = self.reconcile(object, managers);
        reconciled.is_ok_and(|reconciled| reconciled == *managers) && managers.values().all(is_kept)
    }

    /// Takes from all managers but `manager` the fields that `new` changes. Without `force`, a
    /// change of a field that others own is a conflict.
    pub(super) fn take(
        &self,
        live: &Object<'_>,
        new: &Object<'_>,
        version: &str,
        managers: &mut Managers,
        manager: &Manager,
        force: bool,
    ) -> Result<Comparison, UpdateError> {
        let compared = self.compare(live, new, version)?;
        let mut comparisons = BTreeMap::from([(version.to_owned(), compared.clone())]);
        let mut conflicts: BTreeMap<Manager, FieldSet> = BTreeMap::new();
        for (other, owned) in managers.iter().filter(|(other, _)| *other != manager) {
            if !comparisons.contains_key(&owned.api_version) {
                let comparison = self.compare(live, new, &owned.api_version)?;
                comparisons.insert(owned.api_version.clone(), comparison);
            }
            if let Some(comparison) = comparisons.get(&owned.api_version) {
                let changed = comparison.modified.union(&comparison.added);
                let taken = owned.set.intersection(&changed);
                if !taken.is_empty() {
                    conflicts.insert(other.clone(), taken);
                }
            }
        }
        if !force && !conflicts.is_empty() {
            return Err(UpdateError::Conflicts(in_order(conflicts)));
        }
        for (other, owned) in managers.iter_mut().filter(|(other, _)| *other != manager) {
            if let Some(taken) = conflicts.get(other) {
                owned.set = owned.set.difference(taken);
            }
            if let Some(comparison) = comparisons.get(&owned.api_version) {
                owned.set = owned.set.difference(&comparison.removed);
            }
        }
        managers.retain(|_, owned| !owned.set.is_empty());
        Ok(compared)
    }
}

/// Returns whether a set has a part of the managed fields, which a new object does not have yet
/// when it is compared.
fn owns_entries(set: &FieldSet) -> bool {
    let Some(of_metadata) = set.below(&PathElement::field("metadata")) else {
        return false;
    };
    let entries = PathElement::field("managedFields");
    of_metadata.members().contains(&entries) || of_metadata.below(&entries).is_some()
}

fn in_order(conflicts: BTreeMap<Manager, FieldSet>) -> Conflicts {
    let conflicts = conflicts.into_iter().flat_map(|(manager, set)| {
        set.paths().into_iter().map(move |path| Conflict {
            manager: manager.clone(),
            path,
        })
    });
    Conflicts(conflicts.collect())
}
