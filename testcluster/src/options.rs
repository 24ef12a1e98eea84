//! Options of a cluster.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Error, network};

/// The parts of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// etcd, kube-apiservers, kube-controller-manager and kube-proxy: Services lead to
    /// local processes, no pod runs. Up in seconds.
    #[default]
    ControlPlane,
    /// The control plane and one node on which pods run: kube-scheduler, kubelet,
    /// containerd, `CoreDNS` and a provisioner of persistent volumes.
    Node,
}

impl Shape {
    /// Returns the name used on command lines and by `hack/cluster parts`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ControlPlane => "control-plane",
            Self::Node => "node",
        }
    }
}

/// Options of a new cluster. `ClusterOptions::default()` is a control plane with one kube-apiserver
/// under a name of its own.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Name on this machine: a DNS label of at most 40 characters. Starting a second
    /// cluster under the name of a living one is an error.
    pub name: String,
    /// The parts of the cluster.
    pub shape: Shape,
    /// Number of kube-apiservers that share the etcd, 1 to 5. More can be added while it runs.
    pub apiservers: usize,
    /// Additional flags of every kube-apiserver, e.g. `--watch-cache-sizes=...`.
    pub apiserver_args: Vec<String>,
    /// Further flags of the kube-controller-manager.
    pub controller_args: Vec<String>,
    /// True when etcd waits for the disk at each write. Off (faster) by default; benchmarks turn it
    /// on.
    pub fsync: bool,
    /// Longest time until each part is ready.
    pub ready_timeout: Duration,
    /// True when the cluster is left running when the `Cluster` is dropped and the process ends.
    pub detached: bool,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self {
            name: format!("test-{}-{count}", std::process::id()),
            shape: Shape::default(),
            apiservers: 1,
            apiserver_args: Vec::new(),
            controller_args: Vec::new(),
            fsync: false,
            // Generous: two cores may be busy with several clusters and a compiler.
            ready_timeout: Duration::from_mins(3),
            detached: false,
        }
    }
}

impl ClusterOptions {
    /// Returns a cluster with a node, under a name of its own.
    #[must_use]
    pub fn node() -> Self {
        Self {
            shape: Shape::Node,
            ..Self::default()
        }
    }

    /// # Errors
    /// If a value is outside of its bounds; the message names the option.
    pub(super) fn validate(&self) -> Result<(), Error> {
        check_name(&self.name)?;
        if !(1..=network::MAX_APISERVERS).contains(&self.apiservers) {
            return Err(Error::Option(format!(
                "apiservers is {}; it must be 1 to {}",
                self.apiservers,
                network::MAX_APISERVERS
            )));
        }
        Ok(())
    }
}

/// # Errors
/// If `name` cannot be a cluster's name: it becomes part of socket paths (which have 108 bytes) and
/// of cgroup names.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    let label = !name.is_empty()
        && name.len() <= 40
        && !name.starts_with('-')
        && name
            .bytes()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-');
    if label {
        return Ok(());
    }
    Err(Error::Option(format!(
        "the name '{name}' must be 1 to 40 lower-case letters, digits or '-', and not begin with '-'"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("default", true)]
    #[case("test-1-0", true)]
    #[case("", false)]
    #[case("-a", false)]
    #[case("../x", false)]
    #[case("A", false)]
    #[case("a23456789012345678901234567890123456789012", false)]
    fn names(#[case] name: &str, #[case] good: bool) {
        assert_eq!(check_name(name).is_ok(), good, "{name}");
    }

    #[test]
    fn default_names_differ() {
        assert_ne!(
            ClusterOptions::default().name,
            ClusterOptions::default().name
        );
    }

    #[test]
    fn a_cluster_without_apiserver_is_refused() {
        let options = ClusterOptions {
            apiservers: 0,
            ..ClusterOptions::default()
        };
        let error = options.validate().unwrap_err().to_string();
        assert!(error.contains("apiservers is 0"), "{error}");
    }
}
