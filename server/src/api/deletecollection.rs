//! `deletecollection`: all objects of a list, one by one. The answer comes when all are done: the
//! namespace controller lists right afterwards and expects nothing.

use apimachinery::error::ApiError;
use axum::response::Response;

use super::options::{DeleteOptions, ListOptions};
use super::scope::Scope;
use super::view::View;
use super::{Api, list};
use crate::http::negotiation::Offer;

/// Answers a deletecollection with the list of what was found.
///
/// # Errors
/// The refusals of the options, and the first failure of a deletion; earlier deletions stay then.
pub async fn deletecollection(
    api: &Api,
    scope: &Scope,
    bytes: &[u8],
) -> Result<Response, ApiError> {
    let view = View::new(scope, scope.ctx.accept(Offer::Objects)?, true)?;
    let selection = ListOptions::parse(&scope.ctx.info, scope.definition.namespaced)?;
    let options = DeleteOptions::read(&scope.ctx, bytes)?;
    let (page, meta) = list::read(api, scope, &selection).await?;
    let found = page.objects.iter().map(|object| object.key.clone());
    scope
        .collection(api)
        .delete_all(found.collect(), &options)
        .await?;
    view.respond_list(page.objects, &meta)
}
