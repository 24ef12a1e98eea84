//! Errors of options.

use apimachinery::error::ApiError;
use apimachinery::schema::FieldError;
use apimachinery::status::StatusCause;

/// Group of the options kinds in a 422.
const META_GROUP: &str = "meta.k8s.io";

/// A 422 about an options kind, unless there are no errors.
pub(super) fn check(kind: &str, errors: &[FieldError]) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(META_GROUP, kind, "", causes(errors)))
}

/// Field errors as causes of a Status.
#[must_use]
pub fn causes(errors: &[FieldError]) -> Vec<StatusCause> {
    errors
        .iter()
        .map(|error| StatusCause::new(error.kind.reason(), error.field.clone(), error.message()))
        .collect()
}
