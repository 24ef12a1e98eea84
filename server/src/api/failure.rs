//! Why a read fails, as the Status that the client gets.

use apimachinery::error::ApiError;
use storage::cache::SnapshotError;
use storage::store::ReadError;

/// Returns a version that was not reached in time.
#[must_use]
pub fn too_large(error: ReadError) -> ApiError {
    ApiError::too_large_resource_version(error.requested, error.current)
}

/// Returns a state of the past that is not to be had.
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
