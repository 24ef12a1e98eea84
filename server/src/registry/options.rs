//! Options of the verbs that write, as they were read from a request.

use super::strategy::delete::{Preconditions, Propagation};

/// What is done about unknown and duplicate fields.
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
    /// Do everything but store the outcome.
    pub dry_run: bool,
    /// What is done about unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// Who is to own what the request writes; empty where the client does not say, which only
    /// apply does not allow.
    pub field_manager: String,
    /// Whether an apply takes fields from others that own them with other values.
    pub force: bool,
}

/// Options of a delete or deletecollection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Do everything but delete.
    pub dry_run: bool,
    /// What must be true of the object.
    pub preconditions: Preconditions,
    /// What becomes of dependents; `None` when the client left it open.
    pub propagation: Option<Propagation>,
    /// True when the client said `orphanDependents: false`: an object that waits for finalizers is
    /// then answered with 202.
    pub accepted_when_waiting: bool,
}
