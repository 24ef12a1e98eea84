//! The chart's own part of the matrix: what Helm has to refuse, to test, and to leave running.

use std::path::Path;
use std::time::Duration;

use testcluster::Cluster;
use tokio::time::Instant;

use super::disorder::is_kept;
use super::{NAME, PAUSE, Way, has_two_operators, is_rolled_out};
use crate::matrix::error::MatrixError;
use crate::matrix::{pages, tool};
use crate::takeover::OPERATOR_NAMESPACE;

/// Revision of the release that was installed, installed over, rolled back and forward, upgraded
/// twice, and once to an image that is nowhere, and rolled back.
const REVISION: &str = "8";
/// The words of Helm about objects of somebody else.
const OWNERSHIP: &str = "ownership";
/// Longest time until a kubelet says that an image cannot be had.
const PULL_LIMIT: Duration = Duration::from_mins(2);
/// Has Helm wait until what it has done is done.
const WAIT: [&str; 3] = ["--wait", "--timeout", "5m"];
/// The operators are scaled to one, and back, as in docs/install.md.
const ONE: &str = "--replicas=1";
const TWO: &str = "--replicas=2";

impl Way {
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

    /// Goes from Helm to the manifest, and back to Helm.
    pub(super) async fn changes_and_returns(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_operator_comes_back_as_the_page_says() {
        let [command] = <[_; 1]>::try_from(pages::ONE_OPERATOR.commands().unwrap()).unwrap();
        assert!(command.ends_with(ONE), "{command}");
        let install = include_str!("../../../../docs/install.md");
        assert!(install.contains(&format!("After it, `{TWO}` brings the second back")));
    }
}
