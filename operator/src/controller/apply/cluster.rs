//! The `Cluster` of `CloudNativePG`.

use kube::Client;
use kube::api::{DynamicObject, PatchParams};
use tracing::debug;

use super::error::Error;
use super::untyped;
use crate::database::cloudnativepg;

/// Applies it, unless it is somebody else's. `CloudNativePG` has to admit each write, and cannot
/// while it does not run, as during its own update: a `Cluster` that is as wanted does not hold up
/// the other children then.
///
/// # Errors
/// If it is somebody else's, or is refused.
pub(super) async fn apply(
    client: &Client,
    cluster: &DynamicObject,
    params: &PatchParams,
) -> Result<(), Error> {
    let resource = cloudnativepg::resource();
    let Err(error) = untyped::apply(client, &resource, cluster, params).await else {
        return Ok(());
    };
    if !error.is_unanswered_webhook() {
        return Err(error);
    }
    let found = untyped::find(client, &resource, cluster).await?;
    if found.is_some_and(|found| cloudnativepg::is_as_wanted(&found, cluster)) {
        debug!(%error, "the Cluster is as wanted: it is applied when CloudNativePG answers again");
        return Ok(());
    }
    Err(error)
}
