//! What the layers below refuse, as the Status that the client gets.

use apimachinery::error::ApiError;
use apimachinery::status::Status;
use apimachinery::status::StatusCause;
use apimachinery::status::reason;
use fieldmanager::{ApplyError, Cause, Conflicts};
use storage::cache::SnapshotError;
use storage::store::{ReadError, StoreError};

use super::options::causes;
use super::scope::Scope;
use crate::registry::RegistryError;

/// A refusal of the registry.
#[must_use]
pub fn registry(scope: &Scope, name: &str, error: RegistryError) -> ApiError {
    let definition = &scope.definition;
    let (group, plural, kind) = (&definition.group, &definition.plural, &definition.kind);
    match error {
        RegistryError::BadRequest(message) => ApiError::bad_request(message),
        RegistryError::NotFound => scope.not_found(name),
        RegistryError::Conflict { names_kind, detail } => {
            let resource = if names_kind { kind } else { plural };
            ApiError::conflict(group, resource, name, &detail)
        }
        RegistryError::TooLarge(what) => ApiError::request_entity_too_large(&what),
        RegistryError::Invalid(errors) => ApiError::invalid(group, kind, name, causes(&errors)),
        RegistryError::InvalidType {
            group,
            kind,
            errors,
        } => ApiError::invalid(&group, &kind, name, causes(&errors)),
        RegistryError::UpdateWithoutVersion(error) => {
            ApiError::invalid(group, plural, name, causes(&[error]))
        }
        RegistryError::PatchFailed(reason) => {
            tracing::debug!(request_id = %scope.ctx.request_id, reason, "patch does not apply");
            ApiError::patch_not_applicable()
        }
        RegistryError::PatchResult(error) => ApiError::invalid("", "", "", causes(&[error])),
        RegistryError::Internal(message) => unknown(message),
    }
}

/// A 500 without a reason: how the kube-apiserver answers with an error of its storage that it has
/// no Status for.
#[must_use]
pub fn unknown(message: impl Into<String>) -> ApiError {
    Status::failure(500, "", message).into()
}

/// A refusal of the field manager.
#[must_use]
pub fn apply(error: ApplyError) -> ApiError {
    match error {
        ApplyError::Conflicts(conflicts) => owned_by_others(&conflicts),
        ApplyError::BadRequest(message) => ApiError::bad_request(message),
        ApplyError::Internal(message) => unknown(message),
    }
}

/// 409 with a cause for each field that somebody else owns.
fn owned_by_others(conflicts: &Conflicts) -> ApiError {
    let error: ApiError = Status::failure(409, reason::CONFLICT, conflicts.to_string()).into();
    let causes = conflicts.causes().into_iter();
    causes.fold(error, |error, Cause { message, field }| {
        error.with_cause(StatusCause::new(Cause::REASON, field, message))
    })
}

/// A refusal of the store.
#[must_use]
pub fn store(error: &StoreError) -> ApiError {
    let seconds = error.retry_after().map_or(1, |pause| {
        u32::try_from(pause.as_secs()).unwrap_or(u32::MAX).max(1)
    });
    let message = error.to_string();
    match error {
        StoreError::Overloaded { .. } => ApiError::too_many_requests(message, seconds),
        StoreError::Unavailable { .. } => ApiError::service_unavailable(message, seconds),
        StoreError::Refused(_) => conflict(message),
        StoreError::Invalid { .. } => ApiError::bad_request(message),
        StoreError::UnknownResource(_) | StoreError::Mismatch { .. } => ApiError::internal(message),
    }
}

/// 409 about no object in particular.
fn conflict(message: String) -> ApiError {
    Status::failure(409, reason::CONFLICT, message).into()
}

/// A version that was not reached in time.
#[must_use]
pub fn too_large(error: ReadError) -> ApiError {
    ApiError::too_large_resource_version(error.requested, error.current)
}

/// A state of the past that is not to be had.
#[must_use]
pub fn snapshot(error: SnapshotError, requested: u64) -> ApiError {
    match error {
        SnapshotError::Expired { .. } => {
            ApiError::expired("The resourceVersion for the provided list is too old.")
        }
        SnapshotError::Future { current } => {
            ApiError::too_large_resource_version(requested, current)
        }
        SnapshotError::Log(error) => ApiError::service_unavailable(error.to_string(), 1),
    }
}
