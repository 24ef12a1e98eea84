//! Errors of options.

use apimachinery::error::ApiError;
use apimachinery::schema::FieldError;

use crate::registry::causes;

/// Group of the options kinds in a 422.
const META_GROUP: &str = "meta.k8s.io";

/// Returns a 422 about an options kind, unless there are no errors.
pub(super) fn check(kind: &str, errors: &[FieldError]) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(META_GROUP, kind, "", causes(errors)))
}
