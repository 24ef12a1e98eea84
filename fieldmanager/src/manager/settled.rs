//! Objects whose owners a write without effect leaves alone.

use serde_json::Value;

use super::{FieldManager, has_uid};
use crate::managed::{MAX_UPDATE_MANAGERS, Managed};
use crate::typed::Duplicates;

impl FieldManager {
    /// Returns whether [`FieldManager::update`] and [`crate::keep_timestamps`] leave the managed
    /// fields of `object` as they are where its equal takes its place, by whichever manager. Where
    /// it is not certain, the answer is no.
    #[must_use]
    pub fn is_settled(&self, object: &Value) -> bool {
        let Some(entries) = object.pointer("/metadata/managedFields") else {
            // An object that had managers once and has none now is not tracked until it is applied.
            return has_uid(object);
        };
        let Ok(managed) = Managed::decode(object) else {
            return false;
        };
        let updaters = managed.managers.values().filter(|owned| !owned.applied);
        let is_read_and_written_alike = !managed.managers.is_empty()
            && updaters.count() <= MAX_UPDATE_MANAGERS
            && managed.encode() == *entries;
        is_read_and_written_alike
            && self
                .typed(object, Duplicates::Allowed)
                .is_ok_and(|typed| self.versions.keeps(&typed, &managed.managers))
    }
}
