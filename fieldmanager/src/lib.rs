//! Server-side apply and field ownership, as the kube-apiserver has them for custom resources.
//!
//! The measure is Kubernetes 1.36 with structured-merge-diff 6.3: the same objects, the same
//! `metadata.managedFields`, the same words in errors. Nothing here does I/O.
//!
//! - [`FieldManager`] is the interface for a server: [`FieldManager::update`] on every create,
//!   update and patch, [`FieldManager::apply`] on an apply patch, and then [`keep_timestamps`].
//! - [`Schema`] is read from a CRD's structural schema; [`Versions`] holds one for each version of
//!   a kind. Conversion between versions changes `apiVersion` alone.
//! - [`Typed`] is an object with its schema: the fields it mentions, its difference from another,
//!   both merged, parts taken out.
//! - [`FieldSet`] is a set of [`Path`]s, with its algebra and its form in `fieldsV1`.
//! - [`Managed`] is `metadata.managedFields`.
//! - [`go`] prints as Go does, where texts are compared or stored.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
// So that tables can hold literals.
#![cfg_attr(test, allow(clippy::needless_pass_by_value))]

pub mod go;

mod managed;
mod manager;
mod path;
mod schema;
mod set;
#[cfg(test)]
mod testing;
mod typed;
mod updater;
mod value;

pub use managed::{
    MAX_UPDATE_MANAGERS, Managed, ManagedFieldsError, Manager, Managers, Operation, VersionedSet,
    keep_timestamps,
};
pub use manager::{
    ApplyError, FieldManager, MAX_NAME_LENGTH, NameError, check_name, name_of_user_agent,
};
pub use path::{Path, PathElement, PathElementError};
pub use schema::{Schema, SchemaError};
pub use set::{FieldSet, FieldsError};
pub use typed::{Comparison, Duplicates, Typed, ValidationError, ValidationErrors};
pub use updater::{Cause, Conflict, Conflicts, UpdateError, Version, Versions};
pub use value::FieldValue;
