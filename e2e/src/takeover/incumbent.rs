//! The incumbent on a node, as its own manifests install it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::TakeoverError;
use super::database::{POSTGRES_ARCHIVE, postgres_image};
use crate::incumbent::{Manifests, NAME, serving};
use testcluster::Cluster;

/// The archive of its image, and the file with its image's name, in the folder of its parts.
const ARCHIVE: &str = "image.tar";
const IMAGE: &str = "image.name";
const ROLLOUT: &str = "--timeout=300s";

/// Returns the paths of its image and of that of its database.
pub fn archives(parts: &Path, images: &Path) -> [PathBuf; 2] {
    [parts.join(ARCHIVE), images.join(POSTGRES_ARCHIVE)]
}

/// Returns the member by which a `ReportsServer` names it.
pub fn from() -> Value {
    json!({"server": {"namespace": NAME, "name": NAME}})
}

/// Installs it, and waits until it serves.
pub async fn install(cluster: &Cluster, parts: &Path, images: &Path) -> Result<(), TakeoverError> {
    let path = parts.join(IMAGE);
    let image = std::fs::read_to_string(&path).map_err(|_| TakeoverError::Missing {
        path,
        hint: "`hack/cluster parts incumbent` makes it",
    })?;
    let manifests = Manifests::read(parts)?.with_images(image.trim(), &postgres_image(images)?)?;
    let apply = ["apply", "-f", "-"];
    cluster
        .kubectl_with_input(apply, &manifests.list().to_string())
        .await?;
    for workload in [
        "statefulset/reports-server-postgresql",
        "deployment/reports-server",
    ] {
        let rollout = ["-n", NAME, "rollout", "status", workload, ROLLOUT];
        cluster.kubectl(rollout).await?;
    }
    Ok(serving(cluster).await?)
}

/// Ends its pods.
pub async fn end(cluster: &Cluster) -> Result<(), TakeoverError> {
    let scale = [
        "-n",
        NAME,
        "scale",
        "deployment/reports-server",
        "--replicas=0",
    ];
    cluster.kubectl(scale).await?;
    let pods = "app.kubernetes.io/name=reports-server";
    let gone = [
        "-n",
        NAME,
        "wait",
        "--for=delete",
        "pod",
        "-l",
        pods,
        "--timeout=120s",
    ];
    cluster.kubectl(gone).await?;
    Ok(())
}
