//! Writing the status.

use crds::names::STATUS_FIELD_MANAGER;
use crds::v1alpha1::{ReportsServer, ReportsServerStatus};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use crate::crd_check::Installed;
use crate::said::said;

/// The error of writing the status.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the status: {}", said(.0))]
pub struct Error(#[from] pub kube::Error);

/// The result of writing a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is as it was.
    Unchanged,
    /// It was written.
    Changed,
    /// The object is gone.
    Gone,
}

/// Writes the status if it differs from the one that was read, without what the CRD in the cluster
/// lacks: the kube-apiserver would refuse all of it.
///
/// # Errors
/// If the kube-apiserver refuses it.
pub async fn write(
    client: &Client,
    object: &ReportsServer,
    status: &ReportsServerStatus,
    installed: &Installed,
) -> Result<Written, Error> {
    if object.status.as_ref() == Some(status) {
        return Ok(Written::Unchanged);
    }
    let status = installed.taken(json!(status));
    if json!(object.status) == status {
        return Ok(Written::Unchanged);
    }
    // The uid keeps this from reaching a new object of the same name.
    let body = json!({
        "apiVersion": ReportsServer::api_version(&()),
        "kind": ReportsServer::kind(&()),
        "metadata": {"name": object.name_any(), "uid": object.meta().uid},
        "status": status,
    });
    let params = PatchParams::apply(STATUS_FIELD_MANAGER).force();
    let api = Api::<ReportsServer>::all(client.clone());
    let name = object.name_any();
    match api.patch_status(&name, &params, &Patch::Apply(&body)).await {
        Ok(_) => Ok(Written::Changed),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Written::Gone),
        Err(error) => Err(error.into()),
    }
}
