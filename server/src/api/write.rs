//! What all writes share: the form in which objects are stored, and how a write ends.

use apimachinery::error::ApiError;
use apimachinery::schema::Malformed;
use serde_json::Value;
use storage::model::{BodyError, StoredObject};
use storage::store::{Write, WriteError, Written};

use super::scope::Scope;
use super::{Api, body, failure, gate};
use crate::registry::Object;

/// Most attempts of a write that does not depend on the version it meets. Each that fails means that
/// somebody else has written, so as many at the same time do not occur. The kube-apiserver goes on
/// until the request times out.
pub const MAX_ATTEMPTS: usize = 100;

/// Why a write was not made.
#[derive(Debug)]
pub enum Failure {
    /// The store's answer.
    Write(WriteError),
    /// The gate closed, or was held for too long.
    Gate(ApiError),
}

impl Failure {
    /// The Status for the client.
    #[must_use]
    pub fn into_api(self, scope: &Scope, name: &str) -> ApiError {
        let (group, plural) = (&scope.definition.group, &scope.definition.plural);
        match self {
            Self::Gate(error) => error,
            Self::Write(WriteError::AlreadyExists(_)) => {
                ApiError::already_exists(group, plural, name)
            }
            Self::Write(WriteError::NotFound(_)) => scope.not_found(name),
            Self::Write(WriteError::Conflict { .. }) => ApiError::modified(group, plural, name),
            Self::Write(WriteError::Gate(_)) => {
                ApiError::service_unavailable("the resource is being moved, try again", 1)
            }
            Self::Write(WriteError::Body(error @ BodyError::Label)) => {
                ApiError::bad_request(error.to_string())
            }
            Self::Write(WriteError::Body(error)) => ApiError::internal(error),
            Self::Write(WriteError::Store(error)) => failure::store(&error),
        }
    }
}

/// The object as it is stored: in the storage version.
#[must_use]
pub fn stored_form(scope: &Scope, mut object: Object) -> Value {
    object.insert(
        "apiVersion".to_owned(),
        Value::from(scope.storage_api_version()),
    );
    Value::Object(object)
}

/// A stored object in the requested version, with its resourceVersion.
///
/// # Errors
/// 500 when its text cannot be read.
pub fn requested_form(scope: &Scope, object: &StoredObject) -> Result<Object, ApiError> {
    let value = object.value().map_err(ApiError::internal)?;
    let mut object = body::into_fields(value);
    let api_version = scope.definition.api_version(&scope.version.name);
    object.insert("apiVersion".to_owned(), Value::from(api_version));
    Ok(object)
}

/// A stored object as a write in the requested version meets it: in the shape of that version's
/// schema, with its defaults.
///
/// # Errors
/// 500 when its text cannot be read.
pub fn live_form(scope: &Scope, object: &StoredObject) -> Result<Object, ApiError> {
    let schema = &scope.version.schema;
    let mut value = Value::Object(requested_form(scope, object)?);
    // Malformed metadata is dropped, never refused, so this cannot fail.
    schema
        .coerce(&mut value, Malformed::Drop)
        .map_err(ApiError::internal)?;
    schema.default_values(&mut value);
    Ok(body::into_fields(value))
}

/// Makes a write. One that meets a held gate waits for it as the request would have at its
/// beginning, and is made if nothing has changed by then.
///
/// # Errors
/// See [`Failure`].
pub async fn commit(api: &Api, scope: &Scope, write: Write) -> Result<Written, Failure> {
    loop {
        match api.store.write(scope.name(), &write).await {
            Err(WriteError::Gate(_)) => {
                gate::pass(scope).await.map_err(Failure::Gate)?;
            }
            other => return other.map_err(Failure::Write),
        }
    }
}
