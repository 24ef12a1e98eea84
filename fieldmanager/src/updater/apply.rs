//! Apply.

use super::{Manager, Managers, Object, UpdateError, VersionedSet, Versions};
use crate::value::equal;

impl Versions {
    /// Returns the object after `config` was applied, or `None` if it stays as it is, and its
    /// owners.
    ///
    /// `manager` owns the fields that it applied and no others; fields that it owned before and
    /// does not apply any more are removed unless somebody else owns them. Without `force`, a field
    /// that somebody else owns and that gets another value is a conflict.
    pub(crate) fn apply(
        &self,
        live: &Object<'_>,
        config: &Object<'_>,
        managers: &Managers,
        manager: &Manager,
        force: bool,
    ) -> Result<(Option<Object<'static>>, Managers), UpdateError> {
        let mut managers = self.reconcile(live, managers)?;
        let version = config.api_version.clone();
        let merged = live
            .typed
            .merge(&config.typed)
            .map_err(UpdateError::at("failed to merge config"))?;
        let set = config
            .typed
            .to_field_set()
            .map_err(UpdateError::at("failed to get field set"))?;
        let owned = VersionedSet {
            set: self.owned(&set, &version)?,
            api_version: version.clone(),
            applied: true,
        };
        let last = managers.insert(manager.clone(), owned);
        let merged = Object {
            typed: merged,
            api_version: version.clone(),
        };
        let new = self
            .prune(merged, &managers, last.as_ref())
            .map_err(UpdateError::at("failed to prune fields"))?;
        self.take(live, &new, &version, &mut managers, manager, force)?;
        let is_same = equal(live.typed.value(), new.typed.value());
        Ok(((!is_same).then_some(new), managers))
    }
}
