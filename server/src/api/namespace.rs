//! Admission of a write by its namespace.

use apimachinery::error::ApiError;

use super::Api;
use super::scope::Scope;
use crate::registry::lifecycle::{self, Refusal, Write};

/// Asks whether the namespace of the request takes the write. `name` is for the message.
///
/// # Errors
/// 404 for a missing namespace, 403 for one that is being deleted, 503 when it cannot be looked up.
pub async fn admit(api: &Api, scope: &Scope, write: Write, name: &str) -> Result<(), ApiError> {
    let Some(namespace) = scope.namespace() else {
        return Ok(());
    };
    let phase = api
        .namespaces
        .phase(namespace)
        .await
        .map_err(|error| ApiError::service_unavailable(error.to_string(), 1))?;
    let (group, plural) = (&scope.definition.group, &scope.definition.plural);
    lifecycle::admit(write, phase).map_err(|refusal| match refusal {
        Refusal::Missing => ApiError::not_found("", "namespaces", namespace),
        Refusal::Terminating => {
            let name = if name.is_empty() { "Unknown" } else { name };
            ApiError::namespace_terminating(group, plural, name, namespace)
        }
    })
}
