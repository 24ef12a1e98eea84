//! The finalizer that keeps a `ReportsServer` while API groups depend on its server.

use crds::names::FINALIZER;
use crds::v1alpha1::ReportsServer;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use crate::said::said;

/// The error of changing the finalizer.
#[derive(Debug, thiserror::Error)]
#[error("cannot change the finalizer: {}", said(.0))]
pub struct Error(#[from] pub kube::Error);

/// Returns whether `object` carries it.
#[must_use]
pub fn is_set(object: &ReportsServer) -> bool {
    object
        .finalizers()
        .iter()
        .any(|finalizer| finalizer == FINALIZER)
}

/// Sets or removes it; nothing is written when it is so already. The patch carries the
/// resourceVersion that was read, so that finalizers of others are never lost.
///
/// # Errors
/// If the object has changed since it was read (409), or the patch is refused.
pub async fn set(client: &Client, object: &ReportsServer, wanted: bool) -> Result<(), Error> {
    if is_set(object) == wanted {
        return Ok(());
    }
    let mut finalizers: Vec<&str> = object.finalizers().iter().map(String::as_str).collect();
    if wanted {
        finalizers.push(FINALIZER);
    } else {
        finalizers.retain(|finalizer| *finalizer != FINALIZER);
    }
    let patch = json!({"metadata": {
        "resourceVersion": object.meta().resource_version,
        "uid": object.meta().uid,
        "finalizers": finalizers,
    }});
    let api = Api::<ReportsServer>::all(client.clone());
    match api
        .patch(
            &object.name_any(),
            &PatchParams::default(),
            &Patch::Merge(&patch),
        )
        .await
    {
        Ok(_) => Ok(()),
        // Gone already: nothing is left to remove.
        Err(kube::Error::Api(status)) if status.code == 404 && !wanted => Ok(()),
        Err(error) => Err(error.into()),
    }
}
