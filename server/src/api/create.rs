//! `create`: a new object, under a given or a generated name.

use apimachinery::error::ApiError;
use axum::response::Response;
use http::StatusCode;
use serde_json::Value;
use storage::store::{Write, WriteError};

use super::options::{WriteKind, WriteOptions};
use super::scope::Scope;
use super::view::View;
use super::{Api, body, failure, field_managers, namespace, write};
use crate::http::negotiation::Offer;
use crate::registry::create::{self, Dedup, MAX_NAME_ATTEMPTS};
use crate::registry::{Object, RegistryError, lifecycle, meta, validate};

/// Answers a create.
///
/// # Errors
/// Whatever the kube-apiserver refuses; see the modules that each step calls.
pub async fn create(api: &Api, scope: &Scope, bytes: &[u8]) -> Result<Response, ApiError> {
    let accepted = scope.ctx.accept(Offer::Objects)?;
    let view = View::new(scope, accepted, false)?;
    let encoding = body::encoding(scope)?;
    let options = WriteOptions::parse(&scope.ctx.info.query, WriteKind::Create)?;
    let mut object = body::read(scope, bytes, encoding, options.field_validation)?;
    create::ensure_namespace(&mut object, scope.namespace())
        .map_err(|error| failure::registry(scope, "", error))?;
    let name = match meta::text(&object, "name") {
        "" => meta::text(&object, "generateName"),
        name => name,
    };
    namespace::admit(api, scope, lifecycle::Write::Create, name).await?;
    create::wipe(&mut object);
    let deduplicated = create::dedup_owner_references(&mut object, Dedup::Received);
    scope.notes.add(deduplicated);
    let mut object = field_managers::of_new(scope, &options, object);
    create::assign(&mut object, jiff::Timestamp::now());
    let attempts = if create::needs_name(&object) {
        MAX_NAME_ATTEMPTS
    } else {
        1
    };
    store(api, scope, &view, object, attempts, options.dry_run).await
}

/// Stores the object, each time under a new name where it has none of its own.
async fn store(
    api: &Api,
    scope: &Scope,
    view: &View,
    mut template: Object,
    attempts: usize,
    dry_run: bool,
) -> Result<Response, ApiError> {
    let generated = create::needs_name(&template);
    let has_generate_name = !meta::text(&template, "generateName").is_empty();
    let mut attempt = 1;
    loop {
        let mut object = if attempt < attempts {
            template.clone()
        } else {
            std::mem::take(&mut template)
        };
        if generated {
            create::generate_name(&mut object);
        }
        let name = meta::text(&object, "name").to_owned();
        let object = check(scope, object).map_err(|e| failure::registry(scope, &name, e))?;
        scope.notes.add(validate::finalizer_warnings(&object, None));
        match once(api, scope, view, &name, object, dry_run).await? {
            Some(response) => return Ok(response),
            None if attempt < attempts => attempt += 1,
            None => return Err(taken(scope, has_generate_name, &name)),
        }
    }
}

/// Validates the object as it would be stored.
///
/// # Errors
/// 422.
pub fn check(scope: &Scope, object: Object) -> Result<Object, RegistryError> {
    body::check_type(scope, &object)?;
    let namespaced = scope.definition.namespaced;
    let mut errors = validate::object_meta(&object, namespaced, validate::NameRule::Subdomain);
    let value = Value::Object(object);
    errors.extend(scope.version.schema.validate(&value));
    if errors.is_empty() {
        Ok(body::into_fields(value))
    } else {
        Err(RegistryError::Invalid(errors))
    }
}

/// One attempt; `None` when the name is taken.
///
/// # Errors
/// 500 for an object with a resourceVersion, and what the store refuses.
pub async fn once(
    api: &Api,
    scope: &Scope,
    view: &View,
    name: &str,
    mut object: Object,
    dry_run: bool,
) -> Result<Option<Response>, ApiError> {
    let key = scope.key(name);
    if dry_run {
        if scope.resource.get(&key).is_some() {
            return Ok(None);
        }
        return view
            .respond_value(StatusCode::CREATED, Value::Object(object))
            .map(Some);
    }
    // Like the existence of the name this is the storage's to say, which a dry run does not ask.
    create::take_resource_version(&mut object)
        .map_err(|error| failure::registry(scope, name, error))?;
    let write = Write::Create {
        key,
        object: write::stored_form(scope, object),
    };
    match write::commit(api, scope, write).await {
        Ok(written) => view
            .respond(StatusCode::CREATED, &written.event.object)
            .map(Some),
        Err(write::Failure::Write(WriteError::AlreadyExists(_))) => Ok(None),
        Err(other) => Err(other.into_api(scope, name)),
    }
}

/// 409 for a name that is taken.
fn taken(scope: &Scope, has_generate_name: bool, name: &str) -> ApiError {
    let (group, plural) = (&scope.definition.group, &scope.definition.plural);
    if has_generate_name {
        return ApiError::generate_name_conflict(group, plural, name);
    }
    let deleting = scope
        .resource
        .get(&scope.key(name))
        .and_then(|object| object.value().ok())
        .is_some_and(|object| meta::has_deletion_timestamp(&body::into_fields(object)));
    if deleting {
        ApiError::already_exists_terminating(group, plural, name)
    } else {
        ApiError::already_exists(group, plural, name)
    }
}
