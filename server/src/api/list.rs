//! `list`: objects in pages, at the version that is asked for.

use apimachinery::error::ApiError;
use apimachinery::mutation::{Mutation, broken};
use axum::response::Response;
use storage::cache::{Snapshot, SnapshotError};

use super::options::ListOptions;
use super::read::{self, Plan, Version};
use super::scope::Scope;
use super::select::{self, Page, Part};
use super::token::Continue;
use super::view::{ListMeta, View};
use super::{Api, compressed, failure};
use crate::http::negotiation::Offer;

/// Message of a 410 for a page whose version is gone, with a token that goes on anyway.
const INCONSISTENT: &str = "The provided continue parameter is too old to display a consistent \
    list result. You can start a new list without the continue parameter, or use the continue \
    token in this response to retrieve the remainder of the results. Continuing with the provided \
    token results in an inconsistent list - objects that were created, modified, or deleted \
    between the time the first chunk was returned and now may show up in the list.";

/// Answers a list.
///
/// # Errors
/// 400 and 422 for the options, 410 for a version that is gone, 504 for one that is not reached.
pub async fn list(api: &Api, scope: &Scope) -> Result<Response, ApiError> {
    let accepted = scope.ctx.accept(Offer::Objects)?;
    let view = View::new(scope, accepted, true)?;
    let options = ListOptions::parse(&scope.ctx.info, scope.definition.namespaced)?;
    let (page, meta) = read(api, scope, &options).await?;
    if compressed::applies(scope, &view, &page.objects) {
        return compressed::respond(scope, view, &api.pieces, page.objects, &meta);
    }
    view.respond_list(page.objects, &meta)
}

/// Reads one page.
///
/// # Errors
/// As [`list`].
pub async fn read(
    api: &Api,
    scope: &Scope,
    options: &ListOptions,
) -> Result<(Page, ListMeta), ApiError> {
    let one = select::is_of_one(scope.namespace(), scope.definition.namespaced, options);
    let plan = read::plan(options, one)?;
    let snapshot = snapshot(api, scope, &plan).await?;
    let (list, from) = (name(scope), plan.from.as_ref());
    let part = Part {
        limit: plan.limit,
        from,
        left: from.and_then(|from| from.left_of(&list)),
    };
    let page = select::page(&snapshot, scope.namespace(), options, part);
    let continue_token = page.last.as_deref().map(|last| {
        Continue::after(Some(snapshot.rv), last)
            .with_left(list, page.remaining)
            .encode()
    });
    let meta = ListMeta {
        rv: snapshot.rv,
        continue_token: continue_token.unwrap_or_default(),
        remaining: page.remaining,
    };
    Ok((page, meta))
}

/// Returns the name of a list in its tokens: a token leads to the same place of another list, where
/// other objects are left.
fn name(scope: &Scope) -> String {
    let resource = &scope.resource.def().resource;
    format!("{resource}/{}", scope.namespace().unwrap_or_default())
}

async fn snapshot(api: &Api, scope: &Scope, plan: &Plan) -> Result<Snapshot, ApiError> {
    let resource = &scope.resource;
    match plan.version {
        Version::Any => {}
        Version::Newest => api.caught_up().await?,
        Version::NotOlderThan(rv) => {
            api.store
                .wait_for_rv(resource, rv)
                .await
                .map_err(failure::too_large)?;
        }
        Version::Exactly(rv) => {
            api.store
                .wait_for_rv(resource, rv)
                .await
                .map_err(failure::too_large)?;
            if plan.from.is_some() && broken(Mutation::PagesMixed) {
                return Ok(resource.snapshot());
            }
            return resource
                .snapshot_at(rv)
                .await
                .map_err(|error| match (error, &plan.from) {
                    (SnapshotError::Expired { .. }, Some(from)) => {
                        let newest = Continue {
                            rv: None,
                            start: from.start.clone(),
                            left: None,
                        };
                        ApiError::expired_continue(INCONSISTENT, newest.encode())
                    }
                    (error, _) => failure::snapshot(error, rv),
                });
        }
    }
    Ok(resource.snapshot())
}
