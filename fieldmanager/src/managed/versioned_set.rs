//! The fields of managers.

use std::collections::BTreeMap;

use super::Manager;
use crate::set::FieldSet;

/// The fields that one manager owns, and the version of the API in which it wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedSet {
    /// The fields.
    pub set: FieldSet,
    /// The `apiVersion` of the paths.
    pub api_version: String,
    /// True when they were applied, and not written otherwise.
    pub applied: bool,
}

/// All managers of an object.
pub type Managers = BTreeMap<Manager, VersionedSet>;
