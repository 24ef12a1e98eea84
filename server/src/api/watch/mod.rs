//! `watch`: a stream of changes, from a version on or beginning with the objects that are there.

mod frame;
mod framing;
mod onward;
mod schedule;
mod stream;
mod transition;

use std::sync::Arc;

use apimachinery::error::ApiError;
use apimachinery::schema::FieldError;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryFutureExt};
use http::StatusCode;
use storage::cache::{Cursor, Resource, Snapshot};
use tokio::time::Instant;

use self::onward::{Onward, is_onward};
use self::schedule::Schedule;
use self::stream::Watch;
use super::options::{ListOptions, parse_uint};
use super::scope::Scope;
use super::view::View;
use super::{Api, failure, gate, select};
use crate::http::negotiation::{Offer, Transform};
use crate::http::response;
use crate::registry::gate::RETRY_AFTER;
use crate::registry::unknown_error;

/// The place where a watch begins.
enum Start {
    /// At the objects that are there; `marked` when a bookmark ends them.
    Objects { at_least: Option<u64>, marked: bool },
    /// Behind a version; `None` for now.
    Version(Option<u64>),
}

/// Answers a watch. While the resource is being moved, the answer begins at once and its events
/// wait: clients such as Kyverno take a watch that is not open for one that is lost.
///
/// # Errors
/// 400 and 422 for the options, 503 while the gate is closed. A wrong version is reported by an
/// `ERROR` event, as watches of the kube-apiserver do.
pub async fn watch(api: &Api, scope: &Arc<Scope>) -> Result<Response, ApiError> {
    if is_onward(scope) {
        let why = "the CRD does not answer for this resource here";
        return Err(ApiError::service_unavailable(why, RETRY_AFTER));
    }
    let options = ListOptions::parse(&scope.ctx.info, scope.definition.namespaced);
    let resumes = options.as_ref().is_ok_and(resumes);
    let served = resumes && gate::serves_the_past(scope);
    let waits = !served && gate::makes_wait(&api.attachments, scope);
    if !served && !waits {
        gate::admit(&api.attachments, scope).await?;
    }
    let accepted = scope.ctx.accept(Offer::Watch)?;
    let options = options?;
    if let Transform::PartialObjectMetadataList(_) = accepted.transform {
        // No event is a list: as at a kube-apiserver the stream ends where the first would be.
        let content_type = accepted.content_type();
        return Ok(response::bytes(StatusCode::OK, content_type, Body::empty()));
    }
    let view = View::new(scope, accepted, false)?;
    let start = start(&options)?;
    let content_type = accepted.content_type();
    let body = if waits {
        let lines = once_admitted(api.clone(), Arc::clone(scope), start, options, view);
        Body::from_stream(lines.try_flatten_stream())
    } else {
        match begin(api, scope, start).await {
            Ok(begun) => {
                Body::from_stream(begun.into_watch(api, scope, options, view).into_stream())
            }
            Err(error) if is_passing(&error) => return Err(error),
            Err(error) => Body::from(frame::error(&view, &error)?),
        }
    };
    Ok(response::bytes(StatusCode::OK, content_type, body))
}

/// Returns the lines of a watch that is open, from when the resource is served here on. They end at
/// once when the resource becomes served elsewhere: the client has missed nothing and asks again.
async fn once_admitted(
    api: Api,
    scope: Arc<Scope>,
    start: Start,
    options: ListOptions,
    view: View,
) -> Result<BoxStream<'static, Result<Bytes, ApiError>>, ApiError> {
    let begun = tokio::select! {
        () = scope.ctx.shutdown.cancelled() => return Ok(futures::stream::empty().boxed()),
        begun = async {
            gate::admit(&api.attachments, &scope).await?;
            begin(&api, &scope, start).await
        } => begun,
    };
    match begun {
        Ok(begun) => Ok(begun
            .into_watch(&api, &scope, options, view)
            .into_stream()
            .boxed()),
        Err(error) if is_passing(&error) => Ok(futures::stream::empty().boxed()),
        Err(error) => {
            let line = frame::error(&view, &error)?;
            Ok(futures::stream::once(async { Ok(line) }).boxed())
        }
    }
}

/// Returns whether the same request may succeed soon.
fn is_passing(error: &ApiError) -> bool {
    matches!(error.code(), 429 | 503)
}

/// Returns whether the client goes on from the state it has seen.
fn resumes(options: &ListOptions) -> bool {
    matches!(start(options), Ok(Start::Version(Some(_))))
}

fn start(options: &ListOptions) -> Result<Start, ApiError> {
    let given = options.resource_version.as_str();
    let rv = match given {
        "" | "0" => None,
        text => Some(parse_uint(text).map_err(|error| {
            let error = FieldError::invalid("resourceVersion", text, error);
            unknown_error(error.to_string())
        })?),
    };
    let marked = options.allow_watch_bookmarks;
    Ok(match (options.send_initial_events, rv) {
        (Some(true), at_least) => Start::Objects { at_least, marked },
        // Without a version a watch has always begun with what is there, though nothing marked
        // the end of it.
        (None, None) => Start::Objects {
            at_least: None,
            marked: false,
        },
        (Some(false) | None, rv) => Start::Version(rv),
    })
}

/// A watch whose place in the events is found.
struct Begun {
    cursor: Cursor,
    initial: Option<Snapshot>,
    marked: bool,
}

/// Waits until a version is reached. One from the future is no place in our history: silence until
/// it is reached would hide every event up to then, so the client is sent back to list.
///
/// # Errors
/// 410 for a version that does not exist, and 503 while that is not known: another server may have
/// served it, and this one be behind because its database cannot be reached.
async fn reached(api: &Api, resource: &Resource, rv: u64) -> Result<(), ApiError> {
    if api.store.wait_for_rv(resource, rv).await.is_ok() {
        return Ok(());
    }
    api.caught_up().await?;
    let current = resource.current_rv();
    if current < rv {
        return Err(ApiError::expired(format!(
            "too large resource version: {rv}, current: {current}"
        )));
    }
    Ok(())
}

async fn begin(api: &Api, scope: &Scope, start: Start) -> Result<Begun, ApiError> {
    let resource = &scope.resource;
    let too_old = |error: storage::cache::TooOld| {
        ApiError::too_old_resource_version(error.requested, error.oldest)
    };
    match start {
        Start::Objects { at_least, marked } => {
            api.caught_up().await?;
            if let Some(rv) = at_least {
                api.store
                    .wait_for_rv(resource, rv)
                    .await
                    .map_err(failure::too_large)?;
            }
            let snapshot = resource.snapshot();
            let cursor = resource.events_from(snapshot.rv).map_err(too_old)?;
            Ok(Begun {
                cursor,
                initial: Some(snapshot),
                marked,
            })
        }
        Start::Version(Some(rv)) => {
            reached(api, resource, rv).await?;
            let cursor = resource.events_from(rv).map_err(too_old)?;
            Ok(Begun {
                cursor,
                initial: None,
                marked: false,
            })
        }
        Start::Version(None) => {
            api.caught_up().await?;
            let cursor = resource
                .events_from(resource.current_rv())
                .map_err(too_old)?;
            Ok(Begun {
                cursor,
                initial: None,
                marked: false,
            })
        }
    }
}

impl Begun {
    fn into_watch(self, api: &Api, scope: &Scope, options: ListOptions, view: View) -> Watch {
        let now = Instant::now();
        let schedule = Schedule::new(now, options.timeout);
        let namespace = scope.namespace();
        let initial = self
            .initial
            .as_ref()
            .map(|snapshot| {
                let all = select::Part::default();
                select::page(snapshot, namespace, &options, all).objects
            })
            .unwrap_or_default();
        Watch {
            namespace: namespace.map(str::to_owned),
            initial: initial.into_iter(),
            initial_end: self
                .initial
                .filter(|_| self.marked)
                .map(|snapshot| snapshot.rv),
            cursor: self.cursor,
            next_bookmark: schedule.next_bookmark(now),
            schedule,
            shutdown: scope.ctx.shutdown.clone(),
            described: false,
            by_uid: scope.ctx.user.collects_garbage(),
            onward: Onward::of(api, scope, view.accepted),
            view,
            options,
        }
    }
}
