//! Options of requests: query parameters and `DeleteOptions` bodies, read and validated as the
//! kube-apiserver does (`apimachinery/pkg/apis/meta/{v1,internalversion}/validation`).
//!
//! A value that cannot be read is a 400, a value that breaks a rule a 422 about the options kind;
//! unknown parameters are ignored.

mod delete;
mod list;
mod param;
mod write;

pub use delete::DeleteOptions;
pub use list::{ListOptions, VersionMatch, get_version};
pub use param::{boolean, int64, parse_uint};
pub use write::{FieldValidation, WriteKind, WriteOptions};

use crate::http::{ApiError, StatusCause};
use crate::schema::FieldError;

/// Group of the options kinds in a 422.
const META_GROUP: &str = "meta.k8s.io";

/// A 422 about an options kind, unless there are no errors.
fn check(kind: &str, errors: &[FieldError]) -> Result<(), ApiError> {
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
