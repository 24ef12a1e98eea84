//! The ways to install and to uninstall, each with its own tool.

mod disorder;
mod helm;

pub(super) use disorder::delete_crd;

use std::path::{Path, PathBuf};
use std::time::Duration;

use testcluster::{Cluster, Process};
use tokio::time::Instant;

use super::error::MatrixError;
use super::pages::{self, Passage, Reader};
use super::{argocd, flux, olm};
use crate::takeover::{CRD, OPERATOR_NAMESPACE};

/// Name of the chart, of its release, and of the operator's Deployment.
const NAME: &str = "reports-server-operator";

/// A way of installing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// `kubectl apply -f install.yaml`.
    Manifest,
    /// `kubectl apply -k`.
    Kustomize,
    /// The chart, by the program at this path.
    Helm(PathBuf),
    /// The example for Flux, by the controller in this folder.
    Flux(PathBuf),
    /// The example for Argo CD, by the programs in this folder.
    ArgoCd(PathBuf),
    /// Bundle and catalog, by the parts of OLM v0 in this folder.
    Olm(PathBuf),
}

impl Way {
    /// Returns the name by which the way is chosen.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Kustomize => "kustomize",
            Self::Helm(_) => "helm",
            Self::Flux(_) => "flux",
            Self::ArgoCd(_) => "argocd",
            Self::Olm(_) => "olm0",
        }
    }

    /// Returns whether the way goes back to the revision before. OLM does not.
    #[must_use]
    pub fn goes_back(&self) -> bool {
        !matches!(self, Self::Olm(_))
    }

    /// Starts what the way needs beside the cluster; it ends when it is dropped.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn begin(&self, cluster: &Cluster) -> Result<Vec<Process>, MatrixError> {
        match self {
            Self::Flux(parts) => flux::begin(cluster, parts).await,
            Self::ArgoCd(parts) => argocd::begin(cluster, parts).await,
            Self::Olm(parts) => olm::begin(cluster, parts).await,
            Self::Manifest | Self::Kustomize | Self::Helm(_) => Ok(Vec::new()),
        }
    }

    /// Returns whether removing the operator deletes the CRD, and each `ReportsServer` with it.
    #[must_use]
    pub fn deletes_crd(&self) -> bool {
        matches!(self, Self::Manifest | Self::Kustomize)
    }

    /// Installs the operator out of a release's `manifests`, by the commands of docs/install.md
    /// where these are all; waits until it runs.
    ///
    /// # Errors
    /// If the tool fails or the operator does not run.
    pub async fn install(&self, cluster: &Cluster, manifests: &Path) -> Result<(), MatrixError> {
        let reader = self.reader(cluster, manifests);
        match self {
            Self::Manifest => reader.follows(&pages::BY_MANIFEST).await.map(drop)?,
            Self::Kustomize => reader.follows(&pages::BY_KUSTOMIZE).await.map(drop)?,
            Self::Helm(_) => {
                reader.follows(&pages::BY_HELM).await?;
                reader.follows(&pages::CLOSE_NAMESPACE).await?;
            }
            Self::Flux(_) => flux::sync(cluster, manifests).await?,
            Self::ArgoCd(_) => argocd::sync(cluster, manifests).await?,
            Self::Olm(parts) => olm::sync(cluster, parts, manifests).await?,
        }
        is_rolled_out(cluster).await
    }

    /// Takes the operator to another release, by the commands of docs/upgrade.md where these are
    /// all; waits until it runs.
    ///
    /// # Errors
    /// If the tool fails or the operator does not run.
    pub async fn upgrade(&self, cluster: &Cluster, manifests: &Path) -> Result<(), MatrixError> {
        let passage = match self {
            Self::Manifest => pages::UPGRADE_MANIFEST,
            Self::Kustomize => pages::UPGRADE_KUSTOMIZE,
            Self::Helm(_) => pages::UPGRADE_HELM,
            // They are told the release, and do what is needed.
            Self::Flux(_) | Self::ArgoCd(_) | Self::Olm(_) => {
                return self.install(cluster, manifests).await;
            }
        };
        self.reader(cluster, manifests).follows(&passage).await?;
        is_rolled_out(cluster).await
    }

    /// Returns somebody who reads the pages, and has a release's `manifests`.
    fn reader<'a>(&'a self, cluster: &'a Cluster, manifests: &'a Path) -> Reader<'a> {
        let helm = match self {
            Self::Helm(program) => Some(program.as_path()),
            _ => None,
        };
        Reader {
            cluster,
            manifests,
            helm,
        }
    }

    /// Waits until the operator has asked to be left as it is, which OLM can be asked, or no longer
    /// asks.
    ///
    /// # Errors
    /// If it does not.
    pub async fn asks_to_wait(&self, cluster: &Cluster, asks: bool) -> Result<(), MatrixError> {
        match self {
            Self::Olm(_) => olm::is_told(cluster, !asks).await,
            _ => Ok(()),
        }
    }

    /// Waits until the tool does not write the CRD any more, which OLM does for some time after an
    /// installation.
    ///
    /// # Errors
    /// If the CRD cannot be read.
    pub async fn leaves_crd_alone(&self, cluster: &Cluster) -> Result<(), MatrixError> {
        match self {
            Self::Olm(_) => olm::leaves_crd_alone(cluster).await,
            _ => Ok(()),
        }
    }

    /// Goes to the revision before: Helm by itself, the others by the manifests of that release, if
    /// there is another one.
    ///
    /// # Errors
    /// If that fails.
    pub async fn roll_back(
        &self,
        cluster: &Cluster,
        manifests: Option<&Path>,
    ) -> Result<(), MatrixError> {
        match (self, manifests) {
            (Self::Helm(_), manifests) => {
                // Helm has them.
                let manifests = manifests.unwrap_or(cluster.directory());
                let reader = self.reader(cluster, manifests);
                reader.follows(&pages::ROLL_BACK).await.map(drop)
            }
            (_, Some(manifests)) => self.upgrade(cluster, manifests).await,
            (_, None) => Ok(()),
        }
    }

    /// Deletes the `ReportsServer` as the page says, and makes sure that nothing is left then by
    /// the page's own question.
    ///
    /// # Errors
    /// If the reports do not go back, or something is left.
    pub async fn gives_back(&self, cluster: &Cluster, manifests: &Path) -> Result<(), MatrixError> {
        let reader = self.reader(cluster, manifests);
        reader.follows(&pages::GIVE_BACK).await?;
        let begun = Instant::now();
        loop {
            // grep fails where it finds nothing.
            let left = reader.asks(&pages::IS_ANYTHING_LEFT).await?;
            if left.trim().is_empty() {
                return Ok(());
            }
            // Kubernetes deletes what belonged to it a moment later.
            if begun.elapsed() > COLLECTION_LIMIT {
                return Err(MatrixError::Left(left));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Uninstalls the operator by the page's commands for the way.
    ///
    /// # Errors
    /// If the tool refuses.
    pub async fn uninstall(&self, cluster: &Cluster, manifests: &Path) -> Result<(), MatrixError> {
        let passage = self.removal();
        let reader = self.reader(cluster, manifests);
        reader.follows(&passage).await.map(drop)
    }

    /// Deletes what the way leaves, as the page says, and makes sure that CRD and namespace are
    /// gone.
    ///
    /// # Errors
    /// If one of them cannot be deleted, or stays.
    pub async fn removes_rest(
        &self,
        cluster: &Cluster,
        manifests: &Path,
    ) -> Result<(), MatrixError> {
        let mut commands = pages::REMOVE_REST.commands()?;
        match self {
            Self::Manifest | Self::Kustomize => commands.clear(),
            Self::Helm(_) => {}
            // The namespace goes with the example, or with what stands beside the bundle.
            Self::Flux(_) | Self::ArgoCd(_) | Self::Olm(_) => commands.truncate(1),
        }
        self.reader(cluster, manifests).runs(&commands).await?;
        let gone = ["wait", "--for=delete", CRD, "--timeout=60s"];
        cluster.kubectl(gone).await?;
        namespace_is_gone(cluster).await
    }

    /// Returns the page's commands that remove the operator.
    fn removal(&self) -> Passage {
        match self {
            Self::Manifest => pages::REMOVE_MANIFEST,
            Self::Kustomize => pages::REMOVE_KUSTOMIZE,
            Self::Helm(_) => pages::REMOVE_HELM,
            Self::Flux(_) => pages::REMOVE_FLUX,
            Self::ArgoCd(_) => pages::REMOVE_ARGOCD,
            Self::Olm(_) => pages::REMOVE_OLM,
        }
    }
}

/// Waits until the present operators are rolled out.
async fn is_rolled_out(cluster: &Cluster) -> Result<(), MatrixError> {
    let deployment = format!("deployment/{NAME}");
    let rollout = ["rollout", "status", &deployment, "--timeout=180s"];
    let arguments = [&["-n", OPERATOR_NAMESPACE][..], &rollout].concat();
    cluster.kubectl(arguments).await?;
    Ok(())
}

/// Waits until two operators are available, for as long as an option of kubectl says.
pub(super) async fn has_two_operators(cluster: &Cluster, limit: &str) -> Result<(), MatrixError> {
    let reached = "--for=jsonpath={.status.availableReplicas}=2";
    let deployment = format!("deployment/{NAME}");
    let wait = ["wait", reached, &deployment, limit];
    let arguments = [&["-n", OPERATOR_NAMESPACE][..], &wait].concat();
    cluster.kubectl(arguments).await?;
    Ok(())
}

/// Waits until the operator's namespace is gone: nothing can be created in one that is being
/// deleted.
async fn namespace_is_gone(cluster: &Cluster) -> Result<(), MatrixError> {
    let namespace = format!("namespace/{OPERATOR_NAMESPACE}");
    let gone = ["wait", "--for=delete", &namespace, "--timeout=180s"];
    cluster.kubectl(gone).await?;
    Ok(())
}

/// Pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest time until Kubernetes has collected what belonged to a `ReportsServer`.
const COLLECTION_LIMIT: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_the_crd_and_the_namespace() {
        let commands = pages::REMOVE_REST.commands().unwrap();
        let [crd, namespace] = <[_; 2]>::try_from(commands).unwrap();
        let name = CRD.strip_prefix("crd/").unwrap();
        assert!(crd.ends_with(name), "{crd}");
        assert!(namespace.ends_with(OPERATOR_NAMESPACE), "{namespace}");
    }
}
