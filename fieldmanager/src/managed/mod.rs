//! `metadata.managedFields`.

mod cap;
mod entry;
mod manager;
mod timestamps;
mod versioned_set;

use std::collections::BTreeMap;

use jiff::Timestamp;

pub use entry::ManagedFieldsError;
pub(crate) use entry::{has_entries, remove_entries};
pub use manager::{Manager, Operation};
pub use timestamps::keep_timestamps;
pub use versioned_set::{Managers, VersionedSet};

/// All managers with the times of their last changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    /// The fields that they own.
    pub managers: Managers,
    /// The time of the last change of these fields, in whole seconds.
    pub times: BTreeMap<Manager, Timestamp>,
}

/// Most entries of writes other than apply that an object may have.
pub const MAX_UPDATE_MANAGERS: usize = 10;

#[cfg(test)]
mod tests;
