//! `deletecollection`: all objects of a list, one by one. The answer comes when all are done: the
//! namespace controller lists right afterwards and expects nothing.

use apimachinery::error::ApiError;
use axum::response::Response;
use futures::{StreamExt, TryStreamExt, stream};
use storage::model::ObjectKey;

use super::options::{DeleteOptions, ListOptions};
use super::scope::Scope;
use super::view::View;
use super::{Api, delete, list};
use crate::http::negotiation::Offer;

/// Deletions under way at a time; together they make one batch of the committer.
const CONCURRENCY: usize = 64;

/// Answers a deletecollection with the list of what was found.
///
/// # Errors
/// What the options refuse, and the first failure of a deletion; earlier deletions stay then.
pub async fn deletecollection(
    api: &Api,
    scope: &Scope,
    bytes: &[u8],
) -> Result<Response, ApiError> {
    let accepted = scope.ctx.accept(Offer::Objects)?;
    let view = View::new(scope, accepted, true)?;
    let selection = ListOptions::parse(&scope.ctx.info, scope.definition.namespaced)?;
    let options = DeleteOptions::read(&scope.ctx, bytes)?;
    let (page, meta) = list::read(api, scope, &selection).await?;
    let keys: Vec<ObjectKey> = page
        .objects
        .iter()
        .map(|object| object.key.clone())
        .collect();
    stream::iter(keys)
        .map(|key| ignore_missing(api, scope, key, &options))
        .buffer_unordered(CONCURRENCY)
        .try_collect::<()>()
        .await?;
    view.respond_list(page.objects, &meta)
}

/// Somebody else may have deleted it since it was listed.
async fn ignore_missing(
    api: &Api,
    scope: &Scope,
    key: ObjectKey,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    match delete::one(api, scope, &key, options).await {
        Err(error) if error.code() == 404 => Ok(()),
        other => other.map(drop),
    }
}
