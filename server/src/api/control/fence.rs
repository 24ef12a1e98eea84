//! `fence`: the fencing token of the client that moves a resource.

use apimachinery::error::ApiError;
use axum::response::Response;
use crds::control::{API_VERSION, Fence, FenceStatus};
use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::output;
use super::target::{named, refused};
use crate::api::Api;
use crate::http::RequestContext;

const KIND: &str = "Fence";

/// Returns the newest token.
///
/// # Errors
/// 404.
pub fn get(api: &Api, ctx: &RequestContext) -> Result<Response, ApiError> {
    let token = named(api, ctx)?.record().gate.fence;
    output::plain(ctx, StatusCode::OK, &describe(ctx, token))
}

/// Takes a new token and answers with it. A client with an older token is refused from then on.
///
/// # Errors
/// The refusals of the store.
pub async fn create(api: &Api, ctx: &RequestContext) -> Result<Response, ApiError> {
    let resource = named(api, ctx)?;
    let name = &resource.def().resource;
    let token = api
        .store
        .take_fence(name)
        .await
        .map_err(|error| refused(ctx, KIND, error))?;
    let user = ctx.user.username.as_str();
    tracing::info!(resource = %name, token, user, request_id = %ctx.request_id, "fence taken");
    output::plain(ctx, StatusCode::CREATED, &describe(ctx, token))
}

fn describe(ctx: &RequestContext, token: u64) -> Fence {
    Fence {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        metadata: ObjectMeta {
            name: Some(ctx.info.name.clone()),
            ..ObjectMeta::default()
        },
        status: FenceStatus { token },
    }
}
