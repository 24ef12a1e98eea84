//! The `Certificate` of cert-manager.

use kube::Client;
use kube::api::{DynamicObject, PatchParams};

use super::error::Error;
use super::untyped;
use crate::cert_manager;
use crate::controller::validate::Validated;

/// Applies it, where one is asked for.
///
/// # Errors
/// If it is somebody else's, or is refused.
pub(super) async fn apply(
    client: &Client,
    certificate: Option<&DynamicObject>,
    params: &PatchParams,
) -> Result<(), Error> {
    match certificate {
        Some(certificate) => {
            untyped::apply(client, &cert_manager::resource(), certificate, params).await
        }
        None => Ok(()),
    }
}

/// Deletes it, where none is asked for and there is one of ours. Returns what is gone. Its Secret is
/// cert-manager's.
///
/// # Errors
/// If it cannot be read or deleted.
pub async fn remove_unasked(client: &Client, spec: &Validated) -> Result<Option<String>, Error> {
    if spec.origin.plan().is_some() {
        return Ok(None);
    }
    let resource = cert_manager::resource();
    let name = spec.names.certificate();
    let gone = untyped::remove(client, spec, &resource, &name).await?;
    Ok(gone.then(|| format!("{} {name}", resource.kind)))
}
