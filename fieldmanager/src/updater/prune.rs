//! Removing fields that a manager no longer applies.

use std::collections::BTreeMap;

use super::{Managers, Object, UpdateError, VersionedSet, Versions};
use crate::set::FieldSet;

impl Versions {
    /// Removes fields and items that the manager applied the last time (`last`), but not this time,
    /// and that nobody else owns.
    pub(super) fn prune(
        &self,
        merged: Object<'static>,
        managers: &Managers,
        last: Option<&VersionedSet>,
    ) -> Result<Object<'static>, UpdateError> {
        let Some(last) = last.filter(|last| !last.set.is_empty()) else {
            return Ok(merged);
        };
        let version = merged.api_version.clone();
        let merged = self
            .convert(&merged, &last.api_version)
            .map_err(UpdateError::at(
                "failed to convert merged object to last applied version",
            ))?;
        let remembered = merged.typed.with_named_fields(&last.set);
        let pruned = Object {
            typed: merged.typed.remove_items(&remembered),
            api_version: last.api_version.clone(),
        };
        let pruned = self
            .add_back_owned(&merged, pruned, managers)
            .map_err(UpdateError::at("failed add back owned items"))?;
        let pruned = self
            .add_back_dangling(&merged, &pruned, &remembered)
            .map_err(UpdateError::at("failed add back dangling items"))?;
        Ok(self.convert(&pruned, &version)?.into_owned())
    }

    /// Adds back fields that anybody owns, also those that the manager itself applies now.
    fn add_back_owned(
        &self,
        merged: &Object<'_>,
        mut pruned: Object<'static>,
        managers: &Managers,
    ) -> Result<Object<'static>, UpdateError> {
        let mut by_version: BTreeMap<&str, FieldSet> = BTreeMap::new();
        for owned in managers.values() {
            let set = by_version.entry(&owned.api_version).or_default();
            *set = set.union(&owned.set);
        }
        // The version at hand first, so that what conversions need is there.
        let at_hand = by_version.remove_entry(merged.api_version.as_str());
        for (version, owned) in at_hand.into_iter().chain(by_version) {
            let merged = self
                .convert(merged, version)
                .map_err(UpdateError::at(format!(
                    "failed to convert merged object at version {version}"
                )))?;
            pruned = {
                let pruned = self
                    .convert(&pruned, version)
                    .map_err(UpdateError::at(format!(
                        "failed to convert pruned object at version {version}"
                    )))?;
                let before = named_fields(&merged)?;
                let left = named_fields(&pruned)?;
                let owned = merged.typed.with_named_fields(&owned);
                let removed = before.difference(&left.union(&owned));
                Object {
                    typed: merged.typed.remove_items(&removed),
                    api_version: version.to_owned(),
                }
            };
        }
        Ok(pruned)
    }

    /// Adds back fields that were removed only because they were below a removed one: the manager
    /// did not own them.
    fn add_back_dangling(
        &self,
        merged: &Object<'_>,
        pruned: &Object<'_>,
        remembered: &FieldSet,
    ) -> Result<Object<'static>, UpdateError> {
        let pruned = self.convert(pruned, &merged.api_version)?;
        let left = pruned
            .typed
            .with_named_fields(&pruned.typed.to_field_set()?);
        let before = merged
            .typed
            .with_named_fields(&merged.typed.to_field_set()?);
        let removed = before.difference(&left).intersection(remembered);
        Ok(Object {
            typed: merged.typed.remove_items(&removed),
            api_version: merged.api_version.clone(),
        })
    }
}

/// Returns all fields of an object, with the named ones on the way to them.
fn named_fields(object: &Object<'_>) -> Result<FieldSet, UpdateError> {
    Ok(object
        .typed
        .with_named_fields(&object.typed.to_field_set()?))
}
