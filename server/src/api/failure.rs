//! The Status that the client gets for a read that fails.

use apimachinery::error::ApiError;
use storage::cache::SnapshotError;
use storage::store::ReadError;

/// Returns the error for a version that was not reached in time.
#[must_use]
pub fn too_large(error: ReadError) -> ApiError {
    ApiError::too_large_resource_version(error.requested, error.current)
}

/// Returns the error for a past state that is not available.
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
