//! Options of the verbs that write, as they were read from a request.

use super::strategy::delete::{Preconditions, Propagation};

/// The treatment of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped in silence.
    Ignore,
    /// They are dropped, each with a `Warning` header. The default.
    Warn,
    /// The request is refused.
    Strict,
}

/// Options of a create, update or patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// True when everything is done but the outcome is not stored.
    pub dry_run: bool,
    /// The treatment of unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// The owner of the fields that the request writes; empty where the client names none, which
    /// only apply does not allow.
    pub field_manager: String,
    /// True when an apply takes fields from others that own them with other values.
    pub force: bool,
}

/// Options of a delete or deletecollection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// True when everything is done but nothing is deleted.
    pub dry_run: bool,
    /// The conditions on the object.
    pub preconditions: Preconditions,
    /// The treatment of dependents; `None` when the client left it open.
    pub propagation: Option<Propagation>,
    /// True when the client said `orphanDependents: false`: an object that waits for finalizers is
    /// then answered with 202.
    pub accepted_when_waiting: bool,
}
