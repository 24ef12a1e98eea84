//! What the registry refuses. The `api` turns each of these into a Status.

use apimachinery::schema::FieldError;

/// Why an object cannot be stored, changed or deleted as asked.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum RegistryError {
    /// 400: the request contradicts itself or cannot be read.
    #[error("{0}")]
    BadRequest(String),
    /// 404: there is no object of this name.
    #[error("not found")]
    NotFound,
    /// 409: another write came first, or a precondition does not hold. The text follows
    /// `Operation cannot be fulfilled on …:`.
    #[error("{detail}")]
    Conflict {
        /// Whether the message names the kind in place of the plural, as kube does for the
        /// preconditions of a delete.
        names_kind: bool,
        /// What does not fit.
        detail: String,
    },
    /// 413: more than the server works on.
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
        /// What is wrong.
        errors: Vec<FieldError>,
    },
    /// 422 naming the plural in place of the kind: no resourceVersion in an update.
    #[error("{0}")]
    UpdateWithoutVersion(FieldError),
    /// 422: a JSON patch cannot be applied to the object.
    #[error("{0}")]
    PatchFailed(String),
    /// 422 about the field `patch`: the patch gives something that is no object of this kind.
    #[error("{0}")]
    PatchResult(FieldError),
    /// 500 with this text.
    #[error("{0}")]
    Internal(String),
}

impl RegistryError {
    /// The conflict of a stale resourceVersion.
    #[must_use]
    pub fn modified() -> Self {
        Self::Conflict {
            names_kind: false,
            detail: "the object has been modified; please apply your changes to the latest \
                     version and try again"
                .to_owned(),
        }
    }
}
