//! Persistent volumes on the node: a directory for each claim, made when a pod that uses
//! the claim is scheduled, removed when the claim is deleted. The volumes are of type
//! `local`, with the owner and mode of a new disk: a pod that is not root needs an
//! `fsGroup`, as with real disks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

/// Name of the provisioner, as in `StorageClass.provisioner`.
pub const NAME: &str = "reports-server.io/e2e-local";

/// Annotation of claims by the volume controller: the provisioner of the volume.
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// Annotation of claims by the scheduler: the node where the pod will run.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation of volumes by their provisioner.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

const RETRY: Duration = Duration::from_secs(1);

/// The reason why a volume could not be made or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kube-apiserver refused or did not answer.
    #[error("kube-apiserver: {0}")]
    Kube(#[from] kube::Error),
    /// The directory.
    #[error("{path}: {source}", path = path.display())]
    Directory {
        /// The path of the directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The volume is not an object of its kind.
    #[error("own object: {0}")]
    Json(#[from] serde_json::Error),
}

struct Context {
    client: Client,
    directory: PathBuf,
}

/// Provides volumes below `directory` until the process ends.
///
/// # Errors
/// If the directory cannot be made.
pub async fn run(client: Client, directory: PathBuf) -> Result<(), Error> {
    fs::create_dir_all(&directory).map_err(|source| Error::Directory {
        path: directory.clone(),
        source,
    })?;
    let claims = Controller::new(
        Api::<PersistentVolumeClaim>::all(client.clone()),
        watcher::Config::default(),
    );
    let volumes = Controller::new(
        Api::<PersistentVolume>::all(client.clone()),
        watcher::Config::default(),
    );
    let context = Arc::new(Context { client, directory });
    let claims = claims
        .run(provide, |_, error, _| retry(error), context.clone())
        .map(|result| result.map(drop).map_err(|error| error.to_string()));
    let volumes = volumes
        .run(reclaim, |_, error, _| retry(error), context)
        .map(|result| result.map(drop).map_err(|error| error.to_string()));
    stream::select(claims, volumes)
        .for_each(|result| async move {
            if let Err(error) = result {
                eprintln!("provisioner: {error}");
            }
        })
        .await;
    Ok(())
}

fn retry(error: &Error) -> Action {
    eprintln!("provisioner: {error}; trying again");
    Action::requeue(RETRY)
}

async fn provide(
    claim: Arc<PersistentVolumeClaim>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    if !wants_volume(&claim) {
        return Ok(Action::await_change());
    }
    let name = format!("pvc-{}", claim.uid().unwrap_or_default());
    let path = context.directory.join(&name);
    fs::create_dir_all(&path).map_err(|source| Error::Directory {
        path: path.clone(),
        source,
    })?;
    let volume = volume(&name, &path, &claim)?;
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    match volumes.create(&PostParams::default(), &volume).await {
        Ok(_) => eprintln!("provisioner: made {name} for {}", claim.name_any()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(Action::await_change())
}

/// Returns whether a claim waits for a volume from us and the scheduler has chosen the node.
fn wants_volume(claim: &PersistentVolumeClaim) -> bool {
    let bound = claim
        .spec
        .as_ref()
        .is_some_and(|spec| spec.volume_name.is_some());
    let deleted = claim.metadata.deletion_timestamp.is_some();
    let annotations = claim.annotations();
    !bound
        && !deleted
        && annotations
            .get(PROVISIONER)
            .is_some_and(|provisioner| provisioner == NAME)
        && annotations.contains_key(SELECTED_NODE)
}

fn volume(
    name: &str,
    path: &Path,
    claim: &PersistentVolumeClaim,
) -> Result<PersistentVolume, serde_json::Error> {
    let spec = claim.spec.clone().unwrap_or_default();
    let storage = spec
        .resources
        .and_then(|resources| resources.requests)
        .and_then(|requests| requests.get("storage").cloned());
    serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: NAME}},
        "spec": {
            "capacity": {"storage": storage},
            "accessModes": spec.access_modes,
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec.storage_class_name,
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace(),
                "name": claim.name_any(),
                "uid": claim.uid(),
            },
            "local": {"path": path},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{
                "key": "kubernetes.io/hostname",
                "operator": "In",
                "values": [claim.annotations().get(SELECTED_NODE)],
            }]}]}},
        },
    }))
}

async fn reclaim(volume: Arc<PersistentVolume>, context: Arc<Context>) -> Result<Action, Error> {
    if !is_released(&volume) {
        return Ok(Action::await_change());
    }
    let name = volume.name_any();
    let path = context.directory.join(&name);
    match fs::remove_dir_all(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            return Err(Error::Directory { path, source });
        }
        _ => {}
    }
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    let same = Preconditions {
        uid: volume.uid(),
        resource_version: None,
    };
    let params = DeleteParams {
        preconditions: Some(same),
        ..DeleteParams::default()
    };
    match volumes.delete(&name, &params).await {
        Ok(_) => eprintln!("provisioner: removed {name}"),
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(Action::await_change())
}

/// Returns whether a volume of ours has lost its claim and is to be removed with it.
fn is_released(volume: &PersistentVolume) -> bool {
    let policy = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    let phase = volume
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    volume
        .annotations()
        .get(PROVISIONED_BY)
        .is_some_and(|provisioner| provisioner == NAME)
        && policy == Some("Delete")
        && phase == Some("Released")
        && volume.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(annotations: &serde_json::Value, volume: Option<&str>) -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "data", "namespace": "ns", "uid": "u1", "annotations": annotations},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "standard",
                "volumeName": volume,
            },
        }))
        .unwrap()
    }

    #[test]
    fn only_own_claims_with_a_node_get_a_volume() {
        let ours = json!({PROVISIONER: NAME, SELECTED_NODE: "node"});
        assert!(wants_volume(&claim(&ours, None)));
        assert!(
            !wants_volume(&claim(&ours, Some("pvc-u1"))),
            "bound already"
        );
        assert!(
            !wants_volume(&claim(&json!({PROVISIONER: NAME}), None)),
            "no node chosen"
        );
        let foreign = json!({PROVISIONER: "example.com/x", SELECTED_NODE: "node"});
        assert!(!wants_volume(&claim(&foreign, None)));
    }

    #[test]
    fn a_volume_is_bound_to_its_claim_and_node() {
        let claim = claim(&json!({SELECTED_NODE: "node"}), None);
        let volume = volume("pvc-u1", Path::new("/v/pvc-u1"), &claim).unwrap();
        let spec = volume.spec.unwrap();
        assert_eq!(spec.claim_ref.unwrap().uid.as_deref(), Some("u1"));
        assert_eq!(spec.capacity.unwrap()["storage"].0, "1Gi");
        assert_eq!(spec.local.unwrap().path, "/v/pvc-u1");
        assert!(spec.node_affinity.is_some());
    }

    #[test]
    fn only_released_volumes_of_ours_are_removed() {
        let volume = |by: &str, phase: &str, policy: &str| -> PersistentVolume {
            serde_json::from_value(json!({
                "metadata": {"name": "v", "annotations": {PROVISIONED_BY: by}},
                "spec": {"persistentVolumeReclaimPolicy": policy},
                "status": {"phase": phase},
            }))
            .unwrap()
        };
        assert!(is_released(&volume(NAME, "Released", "Delete")));
        assert!(!is_released(&volume(NAME, "Bound", "Delete")));
        assert!(!is_released(&volume(NAME, "Released", "Retain")));
        assert!(!is_released(&volume("example.com/x", "Released", "Delete")));
    }
}
