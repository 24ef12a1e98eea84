//! The ways to install and to uninstall, each with its own tool.

use std::path::{Path, PathBuf};
use std::time::Duration;

use testcluster::{Cluster, Process};
use tokio::time::Instant;

use super::error::MatrixError;
use super::{argocd, flux, olm, page, tool};
use crate::takeover::{NAME as SERVER, OPERATOR_NAMESPACE};

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

    /// Installs the operator out of a release's `manifests`, or upgrades it to that release; waits
    /// until it runs.
    ///
    /// # Errors
    /// If the tool fails or the operator does not run.
    pub async fn install(&self, cluster: &Cluster, manifests: &Path) -> Result<(), MatrixError> {
        match self {
            Self::Manifest | Self::Kustomize => {
                self.kubectl(cluster, manifests, &["apply"]).await?;
            }
            Self::Helm(_) => {
                let chart = chart(manifests);
                let arguments = ["upgrade", "--install", NAME, &chart, "--create-namespace"];
                self.helm(cluster, &[&arguments[..], &WAIT].concat())
                    .await?;
            }
            Self::Flux(_) => flux::sync(cluster, manifests).await?,
            Self::ArgoCd(_) => argocd::sync(cluster, manifests).await?,
            Self::Olm(parts) => olm::sync(cluster, parts, manifests).await?,
        }
        let deployment = format!("deployment/{NAME}");
        let rollout = ["rollout", "status", &deployment, "--timeout=180s"];
        let arguments = [&["-n", OPERATOR_NAMESPACE][..], &rollout].concat();
        cluster.kubectl(arguments).await?;
        Ok(())
    }

    /// Tests the installation by what the way has for that.
    ///
    /// # Errors
    /// If the test fails.
    pub async fn test(&self, cluster: &Cluster) -> Result<(), MatrixError> {
        if let Self::Helm(_) = self {
            self.helm(cluster, &["test", NAME]).await?;
        }
        Ok(())
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

    /// Goes to the revision before: Helm by itself, the others by the manifests of that release, if
    /// there are any.
    ///
    /// # Errors
    /// If that fails.
    pub async fn roll_back(
        &self,
        cluster: &Cluster,
        manifests: Option<&Path>,
    ) -> Result<(), MatrixError> {
        match (self, manifests) {
            (Self::Helm(_), _) => {
                let arguments = [&["rollback", NAME][..], &WAIT].concat();
                self.helm(cluster, &arguments).await
            }
            (_, Some(manifests)) => self.install(cluster, manifests).await,
            (_, None) => Ok(()),
        }
    }

    /// Makes sure that Helm upgrades what was scaled by hand, and refuses an upgrade with which it
    /// would delete the CRD.
    ///
    /// # Errors
    /// If it does not.
    pub async fn upgrades_with_care(
        &self,
        cluster: &Cluster,
        manifests: &Path,
    ) -> Result<(), MatrixError> {
        let Self::Helm(_) = self else {
            return Ok(());
        };
        for replicas in REPLICAS {
            let scale = ["scale", "deployment", NAME, replicas];
            let arguments = [&["-n", OPERATOR_NAMESPACE][..], &scale].concat();
            cluster.kubectl(arguments).await?;
        }
        let chart = chart(manifests);
        let upgrade = ["upgrade", NAME, &chart, "--reset-values", "--set"];
        let with = |value: &'static str| [&upgrade[..], &[value], &WAIT].concat();
        self.helm(cluster, &with("crds.keep=false")).await?;
        let without = self.helm(cluster, &with("crds.install=false")).await;
        refused(without, "crds.keep=true", "helm upgrade without the CRD")?;
        let second = ["install", "second", &chart, "--namespace", "default"];
        let second = self.helm(cluster, &second).await;
        refused(second, OWNERSHIP, "helm install of a second release")?;
        self.helm(cluster, &with("crds.keep=true")).await?;
        self.keeps_operators(cluster, &chart).await
    }

    /// Makes sure that an upgrade whose image cannot be pulled leaves both operators running.
    async fn keeps_operators(&self, cluster: &Cluster, chart: &str) -> Result<(), MatrixError> {
        let nowhere = [
            "upgrade",
            NAME,
            chart,
            "--reset-then-reuse-values",
            "--set",
            "images.operator.tag=nowhere",
        ];
        self.helm(cluster, &nowhere).await?;
        let words =
            "--output=jsonpath={.items[*].status.containerStatuses[*].state.waiting.reason}";
        let pods = ["-n", OPERATOR_NAMESPACE, "get", "pods", words];
        let begun = Instant::now();
        while !cluster.kubectl(pods).await?.contains("ImagePull") {
            if begun.elapsed() > PULL_LIMIT {
                return Err(MatrixError::NotRefused("an image that is nowhere"));
            }
            tokio::time::sleep(PAUSE).await;
        }
        has_two_operators(cluster, "--timeout=30s").await?;
        self.helm(cluster, &[&["rollback", NAME][..], &WAIT].concat())
            .await
    }

    /// Makes sure that the `ReportsServer` outlives the operator where that goes first: with Helm for
    /// another way, with the others in the wrong order. The operator is installed again. Returns
    /// whether the `ReportsServer` stays: with the manifest and kustomize it is deleted with the
    /// CRD, and the operator that comes back ends that.
    ///
    /// # Errors
    /// If a tool fails, or the `ReportsServer` does not stay or is not deleted.
    pub async fn keeps_server(
        &self,
        cluster: &Cluster,
        manifests: &Path,
    ) -> Result<bool, MatrixError> {
        match self {
            Self::Helm(_) => self.changes_and_returns(cluster, manifests).await?,
            Self::Flux(_) | Self::ArgoCd(_) | Self::Olm(_) => {
                self.uninstall(cluster, manifests).await?;
                namespace_is_gone(cluster).await?;
                is_kept(cluster).await?;
                self.install(cluster, manifests).await?;
            }
            Self::Manifest | Self::Kustomize => {
                self.returns_after_all(cluster, manifests).await?;
                return Ok(false);
            }
        }
        Ok(true)
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
        self.install(cluster, manifests).await
    }

    /// Returns the object that is deleted for the reports to go back: with Helm the `ReportsServer`, as
    /// the page says, with the others the CRD, which is the wrong order and takes it along.
    #[must_use]
    pub fn first_to_go(&self) -> String {
        match self {
            Self::Helm(_) => format!("reportsserver/{SERVER}"),
            _ => CRD.to_owned(),
        }
    }

    /// Deletes everything at once, in the wrong order, and installs again: the operator gives the
    /// reports back, and then the `ReportsServer` and the CRD go.
    async fn returns_after_all(
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

    /// Goes from Helm to the manifest, and back to Helm.
    async fn changes_and_returns(
        &self,
        cluster: &Cluster,
        manifests: &Path,
    ) -> Result<(), MatrixError> {
        let uninstall = ["uninstall", NAME, "--no-hooks"];
        self.helm(cluster, &[&uninstall[..], &WAIT].concat())
            .await?;
        Self::Manifest.install(cluster, manifests).await?;
        is_kept(cluster).await?;
        let chart = chart(manifests);
        let over = self.helm(cluster, &["install", NAME, &chart]).await;
        refused(over, OWNERSHIP, "helm install over another way")?;
        let script = format!("set -euo pipefail\n{ALL_BUT_SERVERS}");
        let mut delete = cluster.command("bash");
        delete.args(["-c", &script]);
        delete.current_dir(manifests.join(".."));
        tool::run("kubectl delete", delete).await?;
        is_kept(cluster).await?;
        let install = ["install", NAME, &chart, "--take-ownership"];
        self.helm(cluster, &[&install[..], &WAIT].concat()).await
    }

    /// Uninstalls the operator.
    ///
    /// # Errors
    /// If the tool refuses.
    pub async fn uninstall(&self, cluster: &Cluster, manifests: &Path) -> Result<(), MatrixError> {
        match self {
            Self::Manifest | Self::Kustomize => {
                // The CRD has gone with the ReportsServer, see `returns_after_all`.
                let delete = ["delete", "--ignore-not-found"];
                self.kubectl(cluster, manifests, &delete).await?;
            }
            Self::Helm(_) => {
                self.helm(cluster, &[&["uninstall", NAME][..], &WAIT].concat())
                    .await?;
            }
            Self::Flux(_) => page::uninstall(cluster, manifests, flux::PAGE_LINE).await?,
            Self::ArgoCd(_) => page::uninstall(cluster, manifests, argocd::PAGE_LINE).await?,
            Self::Olm(_) => page::uninstall(cluster, manifests, olm::PAGE_LINE).await?,
        }
        Ok(())
    }

    /// Makes sure that the way refuses to uninstall while API groups are served, and says what to
    /// do, where it can refuse.
    ///
    /// # Errors
    /// If it does not.
    pub async fn refuses_to_uninstall(&self, cluster: &Cluster) -> Result<(), MatrixError> {
        let Self::Helm(_) = self else {
            return Ok(());
        };
        let arguments = [&["uninstall", NAME][..], &WAIT].concat();
        let refused = self.helm(cluster, &arguments).await;
        if refused.is_ok() {
            return Err(MatrixError::NotRefused("helm uninstall"));
        }
        let job = "job/reports-server-operator-uninstall";
        let logs = cluster
            .kubectl(["-n", OPERATOR_NAMESPACE, "logs", job])
            .await?;
        if logs.contains("kubectl delete reportsserver") {
            // Helm takes the release for half uninstalled until a rollback.
            let restored = [&["rollback", NAME, REVISION][..], &WAIT].concat();
            return self.helm(cluster, &restored).await;
        }
        Err(MatrixError::Refused {
            program: "helm uninstall".to_owned(),
            said: logs,
        })
    }

    async fn helm(&self, cluster: &Cluster, arguments: &[&str]) -> Result<(), MatrixError> {
        let Self::Helm(program) = self else {
            return Err(MatrixError::NoHelm);
        };
        let mut command = cluster.command(program);
        command
            .args(["--namespace", OPERATOR_NAMESPACE])
            .args(arguments);
        let name = format!("helm {}", arguments.first().unwrap_or(&""));
        tool::run(&name, command).await.map(drop)
    }
}

/// Returns the folder of the chart.
fn chart(manifests: &Path) -> String {
    let chart = manifests.join("helm").join(NAME);
    chart.to_string_lossy().into_owned()
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

/// Makes sure that Helm has refused something with words like these.
fn refused(
    result: Result<(), MatrixError>,
    words: &str,
    what: &'static str,
) -> Result<(), MatrixError> {
    match result {
        Err(MatrixError::Refused { said, .. }) if said.contains(words) => Ok(()),
        Err(error) => Err(error),
        Ok(()) => Err(MatrixError::NotRefused(what)),
    }
}

/// Waits until the operator's namespace is gone: nothing can be created in one that is being deleted.
async fn namespace_is_gone(cluster: &Cluster) -> Result<(), MatrixError> {
    let namespace = format!("namespace/{OPERATOR_NAMESPACE}");
    let gone = ["wait", "--for=delete", &namespace, "--timeout=180s"];
    cluster.kubectl(gone).await?;
    Ok(())
}

/// Makes sure that neither the `ReportsServer` nor its CRD is being deleted.
async fn is_kept(cluster: &Cluster) -> Result<(), MatrixError> {
    let server = format!("reportsserver/{SERVER}");
    let deletion = "--output=jsonpath={.items[*].metadata.deletionTimestamp}";
    let deletion = cluster.kubectl(["get", CRD, &server, deletion]).await?;
    match deletion.trim() {
        "" => Ok(()),
        since => Err(MatrixError::NotKept(since.to_owned())),
    }
}

/// The CRD of `ReportsServer`.
const CRD: &str = "crd/reportsservers.reports-server.io";
/// Revision of the release that was installed, installed over, rolled back and forward, upgraded
/// twice, and once to an image that is nowhere, and rolled back.
const REVISION: &str = "8";
/// The words of Helm about objects of somebody else.
const OWNERSHIP: &str = "ownership";
/// Longest time until a kubelet says that an image cannot be had, and pause between two looks.
const PULL_LIMIT: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_secs(1);
/// Longest time until an operator has given all reports back.
const GIVEN_BACK: &str = "--timeout=10m";
/// Has Helm wait until what it has done is done.
const WAIT: [&str; 3] = ["--wait", "--timeout", "5m"];
/// The operators are scaled to one, and back, as in docs/install.md.
const REPLICAS: [&str; 2] = ["--replicas=1", "--replicas=2"];
/// The command of docs/uninstall.md that deletes all but what each `ReportsServer` needs.
const ALL_BUT_SERVERS: &str = "\
kubectl delete -f manifests/install.yaml --dry-run=client --output name |
    grep -v -e customresourcedefinition -e namespace/ -e 'clusterrole.*/reports-server:server' |
    xargs kubectl --namespace reports-server-system delete
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_those_of_the_pages() {
        let uninstall = include_str!("../../../docs/uninstall.md");
        assert!(uninstall.contains(&format!("$ {ALL_BUT_SERVERS}")));
        let again = format!(
            "$ helm install {NAME} manifests/helm/{NAME} \\\n    \
             --namespace {OPERATOR_NAMESPACE} --take-ownership --wait"
        );
        assert!(uninstall.contains(&again), "{again}");
        let install = include_str!("../../../docs/install.md");
        let [one, two] = REPLICAS;
        let scale = format!("$ kubectl -n {OPERATOR_NAMESPACE} scale deployment {NAME} {one}\n");
        assert!(install.contains(&scale), "{scale}");
        assert!(install.contains(&format!("`{two}`")), "{two}");
    }
}
