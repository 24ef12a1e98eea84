//! The refusals of the registry, and the Status that a client gets for each.

use apimachinery::definition::ResourceDefinition;
use apimachinery::error::ApiError;
use apimachinery::schema::FieldError;
use apimachinery::status::{Status, StatusCause, reason};
use fieldmanager::{ApplyError, Cause, Conflicts};
use storage::model::BodyError;
use storage::store::{StoreError, WriteError};

/// The reason why an object cannot be stored, changed or deleted as asked.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum RegistryError {
    /// 400: the request contradicts itself or cannot be read.
    #[error("{0}")]
    BadRequest(String),
    /// 409: another write came first, or a precondition does not hold. The text follows
    /// `Operation cannot be fulfilled on …:`.
    #[error("{detail}")]
    Conflict {
        /// True when the message names the kind in place of the plural, as kube does for the
        /// preconditions of a delete.
        names_kind: bool,
        /// The detail of the conflict.
        detail: String,
    },
    /// 413: the request is larger than the server accepts.
    #[error("{0}")]
    TooLarge(String),
    /// 422: fields of the object are invalid.
    #[error("invalid object")]
    Invalid(Vec<FieldError>),
    /// 422: the object is of another kind, which the message names, or of another version.
    #[error("invalid type")]
    InvalidType {
        /// API group of the object.
        group: String,
        /// Kind of the object.
        kind: String,
        /// The field errors.
        errors: Vec<FieldError>,
    },
    /// 422 naming the plural in place of the kind: no resourceVersion in an update.
    #[error("{0}")]
    UpdateWithoutVersion(FieldError),
    /// 422: a JSON patch cannot be applied to the object.
    #[error("{0}")]
    PatchFailed(String),
    /// 422 about the field `patch`: the outcome of the patch is no object of this kind.
    #[error("{0}")]
    PatchResult(FieldError),
    /// 500 with this text.
    #[error("{0}")]
    Internal(String),
}

impl RegistryError {
    /// Returns the conflict of a stale resourceVersion.
    #[must_use]
    pub fn modified() -> Self {
        Self::Conflict {
            names_kind: false,
            detail: "the object has been modified; please apply your changes to the latest \
                     version and try again"
                .to_owned(),
        }
    }

    /// Returns the Status about the object `name` of a resource.
    #[must_use]
    pub fn into_api(self, definition: &ResourceDefinition, name: &str) -> ApiError {
        let (group, plural, kind) = (&definition.group, &definition.plural, &definition.kind);
        match self {
            Self::BadRequest(message) => ApiError::bad_request(message),
            Self::Conflict { names_kind, detail } => {
                let resource = if names_kind { kind } else { plural };
                ApiError::conflict(group, resource, name, &detail)
            }
            Self::TooLarge(what) => ApiError::request_entity_too_large(&what),
            Self::Invalid(errors) => ApiError::invalid(group, kind, name, causes(&errors)),
            Self::InvalidType {
                group,
                kind,
                errors,
            } => ApiError::invalid(&group, &kind, name, causes(&errors)),
            Self::UpdateWithoutVersion(error) => {
                ApiError::invalid(group, plural, name, causes(&[error]))
            }
            Self::PatchFailed(reason) => {
                tracing::debug!(reason, "patch does not apply");
                ApiError::patch_not_applicable()
            }
            Self::PatchResult(error) => ApiError::invalid("", "", "", causes(&[error])),
            Self::Internal(message) => unknown_error(message),
        }
    }
}

/// Returns field errors as causes of a Status.
#[must_use]
pub fn causes(errors: &[FieldError]) -> Vec<StatusCause> {
    errors
        .iter()
        .map(|error| StatusCause::new(error.kind.reason(), error.field.clone(), error.message()))
        .collect()
}

/// Returns a 500 without a reason: the answer of the kube-apiserver for an error of its storage
/// that it has no Status for.
#[must_use]
pub fn unknown_error(message: impl Into<String>) -> ApiError {
    Status::failure(500, "", message).into()
}

/// Returns the Status for a refusal of the field manager.
pub(super) fn apply_error(error: ApplyError) -> ApiError {
    match error {
        ApplyError::Conflicts(conflicts) => owned_by_others(&conflicts),
        ApplyError::BadRequest(message) => ApiError::bad_request(message),
        ApplyError::Internal(message) => unknown_error(message),
    }
}

/// Returns a 409 with a cause for each field that somebody else owns.
fn owned_by_others(conflicts: &Conflicts) -> ApiError {
    let error: ApiError = Status::failure(409, reason::CONFLICT, conflicts.to_string()).into();
    let causes = conflicts.causes().into_iter();
    causes.fold(error, |error, Cause { message, field }| {
        error.with_cause(StatusCause::new(Cause::REASON, field, message))
    })
}

/// Returns the Status for a write to the object `name` that the store refuses.
pub(super) fn write_error(
    definition: &ResourceDefinition,
    name: &str,
    error: WriteError,
) -> ApiError {
    let (group, plural) = (&definition.group, &definition.plural);
    match error {
        WriteError::AlreadyExists(_) => ApiError::already_exists(group, plural, name),
        WriteError::NotFound(_) => ApiError::not_found(group, plural, name),
        WriteError::Conflict { .. } => ApiError::modified(group, plural, name),
        WriteError::Gate(_) => {
            ApiError::service_unavailable("the resource is being moved, try again", 1)
        }
        WriteError::Body(error @ BodyError::Label) => ApiError::bad_request(error.to_string()),
        WriteError::Body(error) => ApiError::internal(error),
        WriteError::Store(error) => store_error(&error),
    }
}

/// Returns the Status for a refusal of the store.
#[must_use]
pub fn store_error(error: &StoreError) -> ApiError {
    let seconds = error.retry_after().map_or(1, |pause| {
        u32::try_from(pause.as_secs()).unwrap_or(u32::MAX).max(1)
    });
    let message = error.to_string();
    match error {
        StoreError::Overloaded { .. } => ApiError::too_many_requests(message, seconds),
        StoreError::Unavailable { .. } => ApiError::service_unavailable(message, seconds),
        StoreError::Refused(_) => Status::failure(409, reason::CONFLICT, message).into(),
        StoreError::Invalid { .. } => ApiError::bad_request(message),
        StoreError::UnknownResource(_) | StoreError::Mismatch { .. } => ApiError::internal(message),
    }
}
