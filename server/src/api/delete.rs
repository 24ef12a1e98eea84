//! `delete`: one object removed, or marked while finalizers hold it.

use std::sync::Arc;

use apimachinery::error::ApiError;
use apimachinery::status::Status;
use axum::response::Response;
use http::StatusCode;
use serde_json::Value;
use storage::model::{ObjectKey, StoredObject};
use storage::store::{Write, WriteError};

use super::options::DeleteOptions;
use super::scope::Scope;
use super::view::View;
use super::{Api, failure, write};
use crate::http::negotiation::Offer;
use crate::http::response;
use crate::registry::RegistryError;
use crate::registry::delete::{self, Plan};

/// What became of an object.
#[derive(Debug)]
pub enum Outcome {
    /// It is gone; this was its uid.
    Removed(Box<str>),
    /// It is there until its finalizers are taken away.
    Waiting(Arc<StoredObject>),
    /// As `Waiting`, but nothing was written.
    WouldWait(Value),
}

/// Answers a delete.
///
/// # Errors
/// 404, 409 for preconditions, and what the options and the store refuse.
pub async fn delete(api: &Api, scope: &Scope, bytes: &[u8]) -> Result<Response, ApiError> {
    let name = scope.object_name()?;
    let accepted = scope.ctx.accept(Offer::Objects)?;
    let view = View::new(scope, accepted, false)?;
    let options = DeleteOptions::read(&scope.ctx, bytes)?;
    api.caught_up().await?;
    let code = if options.accepted_when_waiting {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };
    match one(api, scope, &scope.key(name), &options).await? {
        Outcome::Removed(uid) => {
            let definition = &scope.definition;
            let status = Status::deleted(&definition.group, &definition.plural, name, &uid);
            response::object(StatusCode::OK, accepted, &status)
        }
        Outcome::Waiting(object) => view.respond(code, &object),
        Outcome::WouldWait(object) => view.respond_value(code, object),
    }
}

/// Deletes one object.
///
/// # Errors
/// As [`delete`].
pub async fn one(
    api: &Api,
    scope: &Scope,
    key: &ObjectKey,
    options: &DeleteOptions,
) -> Result<Outcome, ApiError> {
    let name = key.name();
    for _ in 0..write::MAX_ATTEMPTS {
        let stored = scope
            .resource
            .get(key)
            .ok_or_else(|| scope.not_found(name))?;
        if let Some(outcome) = attempt(api, scope, &stored, options).await? {
            return Ok(outcome);
        }
    }
    Err(failure::registry(scope, name, RegistryError::modified()))
}

/// One attempt; `None` when the object was changed in the meantime.
async fn attempt(
    api: &Api,
    scope: &Scope,
    stored: &Arc<StoredObject>,
    options: &DeleteOptions,
) -> Result<Option<Outcome>, ApiError> {
    let key = stored.key.clone();
    let name = stored.key.name();
    let object = write::requested_form(scope, stored)?;
    let precondition = options.preconditions.check(&object);
    precondition.map_err(|error| failure::registry(scope, name, error))?;
    let (write, removed) = match delete::plan(&object, options.propagation, jiff::Timestamp::now())
    {
        Plan::Remove if options.dry_run => {
            return Ok(Some(Outcome::Removed(stored.uid.clone())));
        }
        Plan::Mark(marked) if options.dry_run => {
            return Ok(Some(Outcome::WouldWait(Value::Object(marked))));
        }
        Plan::Mark(marked) if marked == object => {
            return Ok(Some(Outcome::Waiting(Arc::clone(stored))));
        }
        Plan::Remove => {
            let last = write::stored_form(scope, object);
            let write = Write::Delete {
                key,
                expected_uid: None,
                expected_rv: Some(stored.rv),
                last,
            };
            (write, true)
        }
        Plan::Mark(marked) => {
            let object = write::stored_form(scope, marked);
            (
                Write::Update {
                    key,
                    expected_rv: Some(stored.rv),
                    object,
                },
                false,
            )
        }
    };
    match write::commit(api, scope, write).await {
        Ok(_) if removed => Ok(Some(Outcome::Removed(stored.uid.clone()))),
        Ok(written) => Ok(Some(Outcome::Waiting(Arc::clone(&written.event.object)))),
        Err(write::Failure::Write(WriteError::Conflict { .. })) => Ok(None),
        Err(other) => Err(other.into_api(scope, name)),
    }
}
