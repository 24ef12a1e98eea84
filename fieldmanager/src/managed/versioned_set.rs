//! The fields of managers.

use std::collections::BTreeMap;

use super::Manager;
use crate::set::FieldSet;

/// What one manager owns, and in which version of the API it said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedSet {
    /// The fields.
    pub set: FieldSet,
    /// The `apiVersion` in which the paths are meant.
    pub api_version: String,
    /// Whether they were applied, and not written otherwise.
    pub applied: bool,
}

/// All managers of an object.
pub type Managers = BTreeMap<Manager, VersionedSet>;
