//! `update`: an object replaced by what the client sends.

use apimachinery::error::ApiError;
use apimachinery::mutation::{Mutation, broken};
use axum::response::Response;
use http::StatusCode;
use serde_json::Value;
use storage::model::StoredObject;
use storage::store::{Write, WriteError};

use super::options::{WriteKind, WriteOptions};
use super::scope::Scope;
use super::view::View;
use super::{Api, body, failure, field_managers, namespace, write};
use crate::http::negotiation::Offer;
use crate::registry::create::{self, Dedup};
use crate::registry::{Object, RegistryError, lifecycle, meta, update, validate};

/// Answers an update.
///
/// # Errors
/// Whatever the kube-apiserver refuses; see the modules that each step calls.
pub async fn update(api: &Api, scope: &Scope, bytes: &[u8]) -> Result<Response, ApiError> {
    let name = scope.object_name()?;
    let accepted = scope.ctx.accept(Offer::Objects)?;
    let view = View::new(scope, accepted, false)?;
    let options = WriteOptions::parse(&scope.ctx.info.query, WriteKind::Update)?;
    let encoding = body::encoding(scope)?;
    let mut object = body::read(scope, bytes, encoding, options.field_validation)?;
    let refuse = |error| failure::registry(scope, name, error);
    create::ensure_namespace(&mut object, scope.namespace()).map_err(refuse)?;
    body::check_name(scope, &object)?;
    api.caught_up().await?;
    let stored = scope
        .resource
        .get(&scope.key(name))
        .ok_or_else(|| scope.not_found(name))?;
    let old = write::live_form(scope, &stored)?;
    update::check_uid(&object, &old, &storage_key(scope, name, options.dry_run)).map_err(refuse)?;
    let deduplicated = create::dedup_owner_references(&mut object, Dedup::Received);
    scope.notes.add(deduplicated);
    let (old, new) = field_managers::of_changed(scope, &options, old, object);
    namespace::admit(api, scope, lifecycle::Write::Update, name).await?;
    let change = Change {
        new,
        old,
        stored: &stored,
        dry_run: options.dry_run,
        applied: false,
    };
    let response = store(api, scope, &view, change).await?;
    response.ok_or_else(|| refuse(RegistryError::modified()))
}

/// What the kube-apiserver's storage calls the object; part of an error text. A dry run does not get
/// as far as etcd, where keys have a prefix.
fn storage_key(scope: &Scope, name: &str, dry_run: bool) -> String {
    let definition = &scope.definition;
    let key = scope.key(name);
    let prefix = if dry_run { "" } else { "/registry" };
    format!("{prefix}/{}/{}/{key}", definition.group, definition.plural)
}

/// A stored object and what it is to become, both in the requested version.
pub struct Change<'a> {
    /// What it is to become.
    pub new: Object,
    /// What it is.
    pub old: Object,
    /// What it is, as stored.
    pub stored: &'a StoredObject,
    /// Do everything but write.
    pub dry_run: bool,
    /// Whether what it is to become was applied: it then has not the shape of its schema yet.
    pub applied: bool,
}

/// Checks, prepares and writes a change, of an update or of a patch; `None` when the object was
/// changed by somebody else in the meantime. A change that changes nothing is not written; one that
/// takes the last finalizer of a deleted object removes it.
///
/// # Errors
/// 409, 422 and what the store refuses.
pub async fn store(
    api: &Api,
    scope: &Scope,
    view: &View,
    change: Change<'_>,
) -> Result<Option<Response>, ApiError> {
    let Change {
        mut new,
        old,
        stored,
        dry_run,
        applied,
    } = change;
    let name = stored.key.name();
    let refuse = |error| failure::registry(scope, name, error);
    update::check_version(&new, &old).map_err(refuse)?;
    meta::set_text(
        &mut new,
        "resourceVersion",
        meta::text(&old, "resourceVersion"),
    );
    scope.notes.add(update::prepare(&mut new, &old));
    if !dry_run {
        // The storage's to do, which a dry run does not reach.
        meta::set_text(&mut new, "selfLink", "");
    }
    let (mut new, old) = check(scope, new, old).map_err(refuse)?;
    let finalizers = validate::finalizer_warnings(&new, Some(&old));
    scope.notes.add(finalizers);
    if applied {
        new = body::shaped(scope, new)?;
    }
    let key = stored.key.clone();
    if update::completes_deletion(&new, &old) {
        let response = view.respond_value(StatusCode::OK, Value::Object(new))?;
        let write = Write::Delete {
            key,
            expected_uid: None,
            expected_rv: Some(stored.rv),
            last: write::stored_form(scope, old),
        };
        return finish(api, scope, name, (!dry_run).then_some(write), response).await;
    }
    let writes_anyway = broken(Mutation::NoOpWrites);
    if dry_run || !writes_anyway && is_stored(scope, &new, &old, stored)? {
        return view
            .respond_value(StatusCode::OK, Value::Object(new))
            .map(Some);
    }
    let write = Write::Update {
        key,
        expected_rv: Some(stored.rv),
        object: write::stored_form(scope, new),
    };
    match write::commit(api, scope, write).await {
        Ok(written) => view
            .respond(StatusCode::OK, &written.event.object)
            .map(Some),
        Err(write::Failure::Write(WriteError::Conflict { .. })) => Ok(None),
        Err(other) => Err(other.into_api(scope, name)),
    }
}

/// Whether a write would change nothing. What is stored may be of an older schema than `old`, the
/// form in which it was read.
fn is_stored(
    scope: &Scope,
    new: &Object,
    old: &Object,
    stored: &StoredObject,
) -> Result<bool, ApiError> {
    if new != old {
        return Ok(false);
    }
    let stored = stored.value().map_err(ApiError::internal)?;
    Ok(write::stored_form(scope, new.clone()) == stored)
}

async fn finish(
    api: &Api,
    scope: &Scope,
    name: &str,
    write: Option<Write>,
    response: Response,
) -> Result<Option<Response>, ApiError> {
    let Some(write) = write else {
        return Ok(Some(response));
    };
    match write::commit(api, scope, write).await {
        // Somebody else took the last finalizer at the same time.
        Ok(_) | Err(write::Failure::Write(WriteError::NotFound(_))) => Ok(Some(response)),
        Err(write::Failure::Write(WriteError::Conflict { .. })) => Ok(None),
        Err(other) => Err(other.into_api(scope, name)),
    }
}

/// Validates the object as it would be stored; gives both back.
fn check(scope: &Scope, new: Object, old: Object) -> Result<(Object, Object), RegistryError> {
    body::check_type(scope, &new)?;
    let definition = &scope.definition;
    let mut errors =
        validate::object_meta(&new, definition.namespaced, validate::NameRule::PathSegment);
    // Twice, as in the kube-apiserver: once for any resource, once for custom resources.
    errors.extend(validate::object_meta_update(&new, &old));
    errors.extend(validate::object_meta_update(&new, &old));
    let (mut new, old) = (Value::Object(new), Value::Object(old));
    fieldmanager::keep_timestamps(&old, &mut new);
    errors.extend(scope.version.schema.validate_update(&new, &old));
    if errors.is_empty() {
        Ok((body::into_fields(new), body::into_fields(old)))
    } else {
        Err(RegistryError::Invalid(errors))
    }
}
