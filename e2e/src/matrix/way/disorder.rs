//! Removal in a wrong order: the operator, its namespace, the CRD, or everything at once.

use std::path::Path;

use testcluster::Cluster;

use super::{Way, is_rolled_out, namespace_is_gone};
use crate::matrix::argocd;
use crate::matrix::error::MatrixError;
use crate::matrix::gitops::Tool;
use crate::takeover::{CRD, NAME as SERVER, OPERATOR_NAMESPACE};

/// Longest time until an operator has given all reports back.
const GIVEN_BACK: &str = "--timeout=10m";

impl Way {
    /// Makes sure that the `ReportsServer` outlives the operator where that goes first: with Helm
    /// for another way, with the others in the wrong order. The operator is installed again. Where
    /// the CRD would go, too, nothing is done.
    ///
    /// # Errors
    /// If a tool fails, or the `ReportsServer` does not stay.
    pub async fn outlives_operator(
        &self,
        cluster: &Cluster,
        manifests: &Path,
    ) -> Result<(), MatrixError> {
        match self {
            Self::Manifest | Self::Kustomize => Ok(()),
            Self::Helm(_) => self.changes_and_returns(cluster, manifests).await,
            Self::Flux(_) | Self::ArgoCd(_) | Self::Olm(_) => {
                self.uninstall(cluster, manifests).await?;
                namespace_is_gone(cluster).await?;
                is_kept(cluster).await?;
                self.install(cluster, manifests).await
            }
        }
    }

    /// Makes sure that the `ReportsServer` outlives the operator's namespace; installs again.
    ///
    /// # Errors
    /// If the `ReportsServer` does not stay, or the operator cannot be installed.
    pub async fn outlives_namespace(
        &self,
        cluster: &Cluster,
        manifests: &Path,
    ) -> Result<(), MatrixError> {
        let delete = ["delete", "namespace", OPERATOR_NAMESPACE, "--timeout=180s"];
        cluster.kubectl(delete).await?;
        is_kept(cluster).await?;
        // For both, nothing of what they apply has changed.
        let tool = match self {
            Self::Flux(parts) => Tool::Flux(parts.clone()),
            Self::ArgoCd(parts) => {
                argocd::terminate_operation(cluster).await?;
                Tool::ArgoCd(parts.clone())
            }
            _ => return self.install(cluster, manifests).await,
        };
        tool.apply_again(&cluster.client().await?).await?;
        is_rolled_out(cluster).await
    }

    /// Removes the operator, whose CRD is gone, and installs it again.
    ///
    /// # Errors
    /// If a tool fails, or the operator does not run.
    pub async fn installs_anew(
        &self,
        cluster: &Cluster,
        manifests: &Path,
    ) -> Result<(), MatrixError> {
        if self.deletes_crd() {
            // The page's command fails where the CRD is gone.
            let delete = ["delete", "--ignore-not-found"];
            self.kubectl(cluster, manifests, &delete).await?;
        } else {
            self.uninstall(cluster, manifests).await?;
        }
        if !matches!(self, Self::Helm(_)) {
            namespace_is_gone(cluster).await?;
        }
        self.install(cluster, manifests).await
    }

    /// Deletes everything at once, in the wrong order, and installs again, by the manifest or by
    /// kustomize: the operator gives the reports back, and then the `ReportsServer` and the CRD go.
    ///
    /// # Errors
    /// If something does not stay until then, or does not go.
    pub async fn returns_after_all(
        &self,
        cluster: &Cluster,
        manifests: &Path,
    ) -> Result<(), MatrixError> {
        // It would wait for the CRD, as whoever interrupts it has found.
        let delete = ["delete", "--wait=false"];
        self.kubectl(cluster, manifests, &delete).await?;
        namespace_is_gone(cluster).await?;
        // Both are there, and wait for an operator.
        let server = format!("reportsserver/{SERVER}");
        cluster.kubectl(["get", CRD, &server]).await?;
        self.kubectl(cluster, manifests, &["apply"]).await?;
        cluster
            .kubectl(["wait", "--for=delete", CRD, GIVEN_BACK])
            .await?;
        Ok(())
    }

    /// Has kubectl do something with the manifest, or with the base for kustomize.
    async fn kubectl(
        &self,
        cluster: &Cluster,
        manifests: &Path,
        what: &[&str],
    ) -> Result<(), MatrixError> {
        let (option, path) = if let Self::Kustomize = self {
            ("-k", manifests.join("kustomize/base"))
        } else {
            ("-f", manifests.join("install.yaml"))
        };
        let path = path.to_string_lossy().into_owned();
        let arguments = [what, &[option, &path]].concat();
        cluster.kubectl(arguments).await?;
        Ok(())
    }
}

/// Deletes the CRD while the operator runs; ends when the reports are back, and the CRD is gone.
pub(in crate::matrix) async fn delete_crd(cluster: &Cluster) -> Result<(), MatrixError> {
    let delete = ["delete", CRD, "--wait=true", GIVEN_BACK];
    cluster.kubectl(delete).await?;
    Ok(())
}

/// Makes sure that neither the `ReportsServer` nor its CRD is being deleted.
pub(super) async fn is_kept(cluster: &Cluster) -> Result<(), MatrixError> {
    let server = format!("reportsserver/{SERVER}");
    let deletion = "--output=jsonpath={.items[*].metadata.deletionTimestamp}";
    let deletion = cluster.kubectl(["get", CRD, &server, deletion]).await?;
    match deletion.trim() {
        "" => Ok(()),
        since => Err(MatrixError::NotKept(since.to_owned())),
    }
}
