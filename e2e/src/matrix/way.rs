//! The ways to install and to uninstall, each with its own tool.

use std::path::{Path, PathBuf};
use std::time::Duration;

use testcluster::{Cluster, Process};
use tokio::time::Instant;

use super::error::MatrixError;
use super::gitops::Tool;
use super::pages::{self, Passage, Reader};
use super::{argocd, flux, olm, tool};
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
        let one = pages::ONE_OPERATOR.commands()?;
        let two = one.iter().map(|command| command.replace(ONE, TWO));
        let scaled: Vec<_> = one.iter().cloned().chain(two).collect();
        self.reader(cluster, manifests).runs(&scaled).await?;
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
        let reader = self.reader(cluster, manifests);
        reader.follows(&pages::ALL_BUT_SERVERS).await?;
        is_kept(cluster).await?;
        reader.follows(&pages::TAKE_OVER).await?;
        is_rolled_out(cluster).await
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

    /// Makes sure that the way refuses to uninstall while API groups are served, and says what to
    /// do, where it can refuse.
    ///
    /// # Errors
    /// If it does not.
    pub async fn refuses_to_uninstall(
        &self,
        cluster: &Cluster,
        manifests: &Path,
    ) -> Result<(), MatrixError> {
        let Self::Helm(_) = self else {
            return Ok(());
        };
        if self.uninstall(cluster, manifests).await.is_ok() {
            return Err(MatrixError::NotRefused("helm uninstall"));
        }
        let reader = self.reader(cluster, manifests);
        let logs = reader.follows(&pages::REFUSAL).await?;
        if logs.contains("kubectl delete reportsserver") {
            // Helm takes the release for half uninstalled until a rollback.
            let commands = pages::STAY.commands()?.into_iter();
            let commands = commands.map(|command| command.replace("REVISION", REVISION));
            let commands: Vec<_> = commands.collect();
            return reader.runs(&commands).await.map(drop);
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

/// Deletes the CRD while the operator runs; ends when the reports are back, and the CRD is gone.
pub(super) async fn delete_crd(cluster: &Cluster) -> Result<(), MatrixError> {
    let delete = ["delete", CRD, "--wait=true", GIVEN_BACK];
    cluster.kubectl(delete).await?;
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

/// Waits until the operator's namespace is gone: nothing can be created in one that is being
/// deleted.
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
/// Longest time until Kubernetes has collected what belonged to a `ReportsServer`.
const COLLECTION_LIMIT: Duration = Duration::from_mins(1);
/// The operators are scaled to one, and back, as in docs/install.md.
const ONE: &str = "--replicas=1";
const TWO: &str = "--replicas=2";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_operator_comes_back_as_the_page_says() {
        let [command] = <[_; 1]>::try_from(pages::ONE_OPERATOR.commands().unwrap()).unwrap();
        assert!(command.ends_with(ONE), "{command}");
        let install = include_str!("../../../docs/install.md");
        assert!(install.contains(&format!("After it, `{TWO}` brings the second back")));
    }

    #[test]
    fn the_rest_is_the_crd_and_the_namespace() {
        let commands = pages::REMOVE_REST.commands().unwrap();
        let [crd, namespace] = <[_; 2]>::try_from(commands).unwrap();
        let name = CRD.strip_prefix("crd/").unwrap();
        assert!(crd.ends_with(name), "{crd}");
        assert!(namespace.ends_with(OPERATOR_NAMESPACE), "{namespace}");
    }
}
