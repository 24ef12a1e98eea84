//! The objects of one resource as a request meets them, and the parts that all verbs that write
//! share.

use std::sync::Arc;

use apimachinery::definition::{ResourceDefinition, VersionDefinition};
use apimachinery::error::ApiError;
use apimachinery::mutation::{Mutation, broken};
use apimachinery::schema::Malformed;
use bytes::Bytes;
use fieldmanager::{FieldManager, name_of_user_agent};
use serde_json::Value;
use storage::cache::{Event, Resource};
use storage::model::{ObjectKey, StoredObject};
use storage::store::{Store, Write, WriteError};
use tokio::time::Instant;
use tracing::Instrument as _;
use tracing::field::Empty;

use super::strategy::lifecycle::{self, Refusal};
use super::strategy::{Object, into_fields};
use super::{RegistryError, Warnings, WriteOptions, gate, store_error};
use crate::cluster::NamespaceLookup;

/// Most attempts of a write that does not depend on the version it meets. Each attempt that fails
/// means that somebody else has written, and this many writers at the same time do not occur. The
/// kube-apiserver goes on until the request times out.
pub(super) const MAX_ATTEMPTS: usize = 100;

/// The objects of one resource, in the version and the namespace of a request. The verbs take and
/// return objects in that version.
pub struct Collection<'a> {
    /// The store of the objects.
    pub store: &'a Store,
    /// Knows which namespaces exist.
    pub namespaces: &'a dyn NamespaceLookup,
    /// The objects in memory.
    pub resource: &'a Resource,
    /// The resource.
    pub definition: &'a ResourceDefinition,
    /// The requested version of it.
    pub version: &'a VersionDefinition,
    /// The manager of field ownership in this version.
    pub field_manager: &'a FieldManager,
    /// The namespace of the request; empty for cluster-scoped resources.
    pub namespace: &'a str,
    /// The user agent: the owner of fields where the options name none.
    pub user_agent: &'a str,
    /// The time until which a write may wait for a held gate.
    pub patience: Instant,
    /// The warnings for the client.
    pub warnings: &'a Warnings,
}

/// The outcome of a write.
#[derive(Debug)]
pub struct Outcome {
    /// True when there was no object of this name before.
    pub created: bool,
    /// The object.
    pub object: Form,
}

/// An object after a write.
#[derive(Debug)]
pub enum Form {
    /// The object as it is stored now.
    Stored(Arc<StoredObject>),
    /// An object in the requested version that is not stored like this: of a dry run, of a write
    /// that changes nothing, or the last object before its deletion.
    Unstored(Object),
}

/// The reason why a write was not made.
#[derive(Debug)]
pub(super) enum CommitError {
    /// The store's answer.
    Write(WriteError),
    /// The gate closed, or was held for too long.
    Gate(ApiError),
}

impl Collection<'_> {
    /// Returns the key of `name` in the namespace of the request.
    pub(super) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.namespace, name)
    }

    /// Makes sure that later reads are not older than any write that was answered.
    pub(super) async fn caught_up(&self) -> Result<(), ApiError> {
        let caught_up = self.store.consistent().await;
        caught_up.map_err(|error| store_error(&error))
    }

    /// Makes sure that the namespace of the request takes the write. `name` is for the message.
    ///
    /// # Errors
    /// 404 for a missing namespace, 403 for one that is being deleted, 503 when it cannot be looked
    /// up.
    pub(super) async fn admit(
        &self,
        operation: lifecycle::Operation,
        name: &str,
    ) -> Result<(), ApiError> {
        let namespace = self.namespace;
        if namespace.is_empty() {
            return Ok(());
        }
        let phase = self
            .namespaces
            .phase(namespace)
            .await
            .map_err(|error| ApiError::service_unavailable(error.to_string(), 1))?;
        let (group, plural) = (&self.definition.group, &self.definition.plural);
        lifecycle::admit(operation, phase).map_err(|refusal| match refusal {
            Refusal::Missing => ApiError::not_found("", "namespaces", namespace),
            Refusal::Terminating => {
                let name = if name.is_empty() { "Unknown" } else { name };
                ApiError::namespace_terminating(group, plural, name, namespace)
            }
        })
    }

    /// Returns the outcome of a write other than an apply on `live`, with the changed fields in the
    /// name of the writer; and `live` itself, untouched.
    pub(super) fn tracked(
        &self,
        options: &WriteOptions,
        live: Option<Object>,
        new: Object,
    ) -> (Object, Object) {
        if broken(Mutation::OwnersLost) {
            return (live.unwrap_or_default(), new);
        }
        let manager = match options.field_manager.as_str() {
            "" => name_of_user_agent(self.user_agent),
            name => name.to_owned(),
        };
        let now = jiff::Timestamp::now();
        let live = live.map(Value::Object);
        let new = self
            .field_manager
            .update(live.as_ref(), Value::Object(new), &manager, now);
        (into_fields(live.unwrap_or_default()), into_fields(new))
    }

    /// Returns a stored object as a write meets it: in the requested version, in the shape of that
    /// version's schema, with its defaults; and the text from which it was read.
    ///
    /// # Errors
    /// 500 when its text cannot be read.
    pub(super) fn live(&self, object: &StoredObject) -> Result<(Object, Bytes), ApiError> {
        let schema = &self.version.schema;
        let text = object.json().map_err(ApiError::internal)?;
        let value = serde_json::from_slice(&text).map_err(ApiError::internal)?;
        let mut value = Value::Object(self.requested_form(value));
        // Malformed metadata is dropped, never refused, so this cannot fail.
        schema
            .coerce(&mut value, Malformed::Drop)
            .map_err(ApiError::internal)?;
        schema.default_values(&mut value);
        Ok((into_fields(value), text))
    }

    /// Returns a stored object in the requested version.
    pub(super) fn requested_form(&self, stored: Value) -> Object {
        let mut object = into_fields(stored);
        let api_version = self.definition.api_version(&self.version.name);
        object.insert("apiVersion".to_owned(), Value::from(api_version));
        object
    }

    /// Returns the object as it is stored: in the storage version.
    pub(super) fn stored_form(&self, mut object: Object) -> Value {
        let definition = self.definition;
        let version = definition.storage_version().unwrap_or(self.version);
        let api_version = definition.api_version(&version.name);
        object.insert("apiVersion".to_owned(), Value::from(api_version));
        Value::Object(object)
    }

    /// Makes a write, as the span `commit`: from its way into the queue until it is durable.
    async fn write(&self, write: &Write) -> Result<Arc<Event>, WriteError> {
        let span = tracing::info_span!(
            target: traces::TARGET,
            "commit",
            otel.status_code = Empty,
            reports_server.write = kind(write),
        );
        let resource = &self.resource.def().resource;
        let written = self.store.write(resource, write);
        let written = written.instrument(span.clone()).await;
        if let Err(WriteError::Store(_)) = &written {
            span.record("otel.status_code", "ERROR");
        }
        written
    }

    /// Makes a write. A write that meets a held gate waits for it as the request would have at its
    /// beginning, and is made if nothing has changed by then.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub(super) async fn commit(&self, write: Write) -> Result<Arc<Event>, CommitError> {
        loop {
            match self.write(&write).await {
                Err(WriteError::Gate(_)) => {
                    let passed = gate::pass(self.resource, None, self.patience).await;
                    passed.map_err(CommitError::Gate)?;
                }
                other => return other.map_err(CommitError::Write),
            }
        }
    }

    /// Returns the Status for a write that was not made.
    pub(super) fn not_committed(&self, name: &str, error: CommitError) -> ApiError {
        match error {
            CommitError::Gate(error) => error,
            CommitError::Write(error) => super::error::write_error(self.definition, name, error),
        }
    }

    /// Returns the Status for a refusal about the object of this name.
    pub(super) fn refuse(&self, name: &str, error: RegistryError) -> ApiError {
        error.into_api(self.definition, name)
    }

    /// Returns the Status for an object that has changed since the client has seen it.
    pub(super) fn modified(&self, name: &str) -> ApiError {
        self.refuse(name, RegistryError::modified())
    }

    /// Returns the 404 about an object.
    pub(super) fn not_found(&self, name: &str) -> ApiError {
        ApiError::not_found(&self.definition.group, &self.definition.plural, name)
    }
}

/// Returns the name of a kind of write.
fn kind(write: &Write) -> &'static str {
    match write {
        Write::Create { .. } => "create",
        Write::Update { .. } => "update",
        Write::Delete { .. } => "delete",
    }
}

impl Form {
    /// Returns the object that a write has stored.
    pub(super) fn of(event: &Event) -> Self {
        Self::Stored(Arc::clone(&event.object))
    }
}

impl Outcome {
    /// Returns the outcome of a write that made a new object.
    pub(super) const fn created(object: Form) -> Self {
        let created = true;
        Self { created, object }
    }

    /// Returns the outcome of a write to an object that was there.
    pub(super) const fn changed(object: Form) -> Self {
        let created = false;
        Self { created, object }
    }
}
