//! `get`: one object.

use apimachinery::error::ApiError;
use axum::response::Response;
use http::StatusCode;

use super::options::{boolean, get_version};
use super::scope::Scope;
use super::view::View;
use super::{Api, failure};
use crate::http::negotiation::Offer;

/// Answers a get.
///
/// # Errors
/// 404, and the refusals of the requested version.
pub async fn get(api: &Api, scope: &Scope) -> Result<Response, ApiError> {
    let accepted = scope.ctx.accept(Offer::Objects)?;
    let view = View::new(scope, accepted, false)?;
    let query = &scope.ctx.info.query;
    let export = query.get("export").unwrap_or_default();
    if !export.is_empty() && boolean(query, "export") == Some(true) {
        return Err(ApiError::bad_request(
            "the export parameter, deprecated since v1.14, is no longer supported",
        ));
    }
    let name = scope.object_name()?;
    match get_version(query)? {
        None => api.caught_up().await?,
        Some(0) => {}
        Some(rv) => {
            api.store
                .wait_for_rv(&scope.resource, rv)
                .await
                .map_err(failure::too_large)?;
        }
    }
    let object = scope
        .resource
        .get(&scope.key(name))
        .ok_or_else(|| scope.not_found(name))?;
    view.respond(StatusCode::OK, &object)
}
