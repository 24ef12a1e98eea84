//! The control API ([`crds::control`]), by which the operator controls the store.
//!
//! It is authorized like everything else, by RBAC on `storedresources`, its subresources and
//! `databases`. The gate of a resource does not apply here: the control API moves it.

mod body;
mod copy;
mod database;
mod digest;
mod fence;
mod floor;
mod gate;
mod import;
mod output;
mod stored;
mod target;

use apimachinery::error::ApiError;
use axum::response::Response;
use crds::control::{COPY, DATABASES, GROUP, PLURAL, VERSION};

use super::Api;
use crate::http::RequestContext;

/// Returns whether a request is for the control API.
#[must_use]
pub fn is_addressed(ctx: &RequestContext) -> bool {
    ctx.info.api_group == GROUP
}

/// Answers a request for the control API.
///
/// # Errors
/// 404 for a resource that does not exist, 405 for verbs that do not apply, and the refusals of
/// each subresource.
pub async fn dispatch(api: &Api, ctx: &RequestContext, body: &[u8]) -> Result<Response, ApiError> {
    let info = &ctx.info;
    let placed = info.version == VERSION && info.namespace.is_empty() && info.parts.len() <= 3;
    match info.resource.as_str() {
        PLURAL if placed => {}
        DATABASES if placed && info.subresource == COPY => return copy::dispatch(api, ctx).await,
        DATABASES if placed => return database::dispatch(api, ctx),
        _ => return Err(ApiError::PageNotFound),
    }
    // Whoever decides by what is read here may have written at another server a moment ago.
    if matches!(info.verb.as_str(), "get" | "list") {
        api.caught_up().await?;
    }
    match (info.subresource.as_str(), info.verb.as_str()) {
        ("", "list") => stored::list(api, ctx),
        ("", "get") => stored::get(api, ctx),
        ("import", "create") => import::create(api, ctx, body).await,
        ("digest", "get") => digest::get(api, ctx).await,
        ("gate", "get") => gate::get(api, ctx),
        ("gate", "update") => gate::update(api, ctx, body).await,
        ("fence", "get") => fence::get(api, ctx),
        ("fence", "create") => fence::create(api, ctx).await,
        ("floor", "get") => floor::get(api, ctx),
        ("floor", "update") => floor::update(api, ctx, body).await,
        ("" | "import" | "digest" | "gate" | "fence" | "floor", verb) => {
            Err(ApiError::method_not_allowed(GROUP, PLURAL, verb))
        }
        _ => Err(target::not_found(&info.name)),
    }
}
