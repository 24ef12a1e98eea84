//! `databases/database/copy`: an embedded database as it is now, for backups.

use apimachinery::error::ApiError;
use axum::response::Response;
use crds::control::{DATABASE_NAME, DATABASES, GROUP};
use storage::store::StoreError;

use crate::api::Api;
use crate::http::RequestContext;
use crate::registry::store_error;

/// Answers a request for a copy.
///
/// # Errors
/// 404 for another name, 405 for other verbs, and the refusals of
/// [`Copies::answer`](crate::api::Copies::answer).
pub async fn dispatch(api: &Api, ctx: &RequestContext) -> Result<Response, ApiError> {
    let info = &ctx.info;
    if info.name != DATABASE_NAME {
        return Err(ApiError::not_found(GROUP, DATABASES, &info.name));
    }
    if info.verb != "get" {
        return Err(ApiError::method_not_allowed(GROUP, DATABASES, &info.verb));
    }
    let Some(copies) = &api.copies else {
        let why = "the server was started without --copy-dir, a directory for copies";
        return Err(store_error(&StoreError::Refused(why.to_owned())));
    };
    copies.answer(&api.store).await
}
