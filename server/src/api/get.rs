//! `get`: one object.

use axum::response::Response;
use http::StatusCode;

use super::options::get_version;
use super::scope::Scope;
use super::view::View;
use super::{Api, failure};
use crate::http::ApiError;
use crate::http::negotiation::Offer;

/// Answers a get.
///
/// # Errors
/// 404, and what the version asks for and cannot have.
pub async fn get(api: &Api, scope: &Scope) -> Result<Response, ApiError> {
    let accepted = scope.ctx.accept(Offer::Objects)?;
    let view = View::new(scope, accepted, false)?;
    let name = scope.object_name()?;
    match get_version(&scope.ctx.info.query)? {
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
