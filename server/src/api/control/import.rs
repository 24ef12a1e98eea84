//! `import`: takes over objects and events of etcd.

use apimachinery::error::ApiError;
use axum::response::Response;
use crds::control::{ImportBatch, MAX_IMPORT_ITEMS};
use http::StatusCode;

use super::target::{named, refused};
use super::{body, output};
use crate::api::Api;
use crate::http::RequestContext;

const KIND: &str = "ImportBatch";

/// Imports a batch; the answer comes when it is durable.
///
/// # Errors
/// 413 for more than [`MAX_IMPORT_ITEMS`] items, 422 naming an item that is not usable, 409 where
/// the mode does not fit the gate.
pub async fn create(api: &Api, ctx: &RequestContext, bytes: &[u8]) -> Result<Response, ApiError> {
    let resource = named(api, ctx)?;
    let batch: ImportBatch = body::read(ctx, bytes, KIND)?;
    if batch.items.len() > MAX_IMPORT_ITEMS {
        return Err(ApiError::request_entity_too_large(&format!(
            "a batch holds at most {MAX_IMPORT_ITEMS} items, got {}",
            batch.items.len()
        )));
    }
    let result = api
        .store
        .import(&resource.def().resource, batch)
        .await
        .map_err(|error| refused(ctx, KIND, error))?;
    output::plain(ctx, StatusCode::CREATED, &result)
}
