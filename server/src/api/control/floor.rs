//! `floor`: raises the counter of resource versions.

use apimachinery::error::ApiError;
use axum::response::Response;
use crds::control::{API_VERSION, Floor, FloorSpec};
use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::target::{named, refused};
use super::{body, output};
use crate::api::Api;
use crate::api::control::body::invalid;
use crate::api::options::parse_uint;
use crate::http::RequestContext;

const KIND: &str = "Floor";

/// Highest floor: half of the range of etcd and clients, who count in 64 signed bits. A floor
/// cannot be taken back, so a typing error must not use the numbers up.
const MAX_FLOOR: u64 = 1 << 62;

/// Returns the counter in force.
///
/// # Errors
/// 404.
pub fn get(api: &Api, ctx: &RequestContext) -> Result<Response, ApiError> {
    named(api, ctx)?;
    output::plain(ctx, StatusCode::OK, &describe(ctx, api.store.counter()))
}

/// Raises the counter and answers with the one in force.
///
/// # Errors
/// 422 for a text that is no version or a version that is too high, and the refusals of the store.
pub async fn update(api: &Api, ctx: &RequestContext, bytes: &[u8]) -> Result<Response, ApiError> {
    named(api, ctx)?;
    let wanted: Floor = body::read(ctx, bytes, KIND)?;
    let text = &wanted.spec.resource_version;
    let refuse = |reason: &str| invalid(ctx, KIND, "spec.resourceVersion", reason);
    let floor = parse_uint(text).map_err(|error| refuse(&error))?;
    if floor > MAX_FLOOR {
        return Err(refuse(&format!(
            "{floor} is above {MAX_FLOOR}, the highest possible floor"
        )));
    }
    let counter = api
        .store
        .raise_floor(floor)
        .await
        .map_err(|error| refused(ctx, KIND, error))?;
    if floor > 0 {
        tracing::info!(floor, counter, request_id = %ctx.request_id, "floor raised");
    }
    output::plain(ctx, StatusCode::OK, &describe(ctx, counter))
}

fn describe(ctx: &RequestContext, counter: u64) -> Floor {
    Floor {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        metadata: ObjectMeta {
            name: Some(ctx.info.name.clone()),
            ..ObjectMeta::default()
        },
        spec: FloorSpec {
            resource_version: counter.to_string(),
        },
    }
}
