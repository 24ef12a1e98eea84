//! Notes and deletions of a major upgrade that no child's definition says.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::error::Error;
use crate::controller::build::Note;
use crate::controller::upgrade::{self, list};
use crate::controller::validate::Validated;

/// Writes a note on a volume.
///
/// # Errors
/// If it cannot be written.
pub async fn note(client: &Client, namespace: &str, note: &Note) -> Result<(), Error> {
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    let patch = Patch::Merge(json!({"metadata": note.metadata}));
    let params = PatchParams::default();
    let patched = claims.patch_metadata(&note.claim, &params, &patch).await;
    patched.map_err(upgrade::Error::of("write a note on a volume", namespace))?;
    Ok(())
}

/// Deletes the Jobs of upgrades, which are over or not wanted any more.
///
/// # Errors
/// If one cannot be deleted; that it is gone already is as good.
pub async fn clear(client: &Client, spec: &Validated) -> Result<(), Error> {
    let namespace = &spec.namespace;
    let labels = spec.names.upgrade_labels();
    let jobs = list::<Job>(client, namespace, &labels, "list the Jobs of upgrades").await?;
    let api = Api::<Job>::namespaced(client.clone(), namespace);
    for job in jobs {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: job.uid(),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        match api.delete(&job.name_any(), &params).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            deleted => {
                deleted.map_err(upgrade::Error::of("delete a Job of an upgrade", namespace))?;
            }
        }
    }
    Ok(())
}
