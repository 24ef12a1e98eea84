//! Real Kyverno on a cluster with a node, under churn, while the operator moves the report groups to
//! the server, back and there again: what Kyverno noticed, by its own metrics, by the audit log of
//! the kube-apiserver, and by the reports that there are in the end.
//!
//! [`Parts`] is what `hack/lib/kyverno.sh` builds; [`run`] is the whole run; [`Outcome`] its figures.

mod audit;
mod canary;
mod check;
mod churn;
mod install;
mod logs;
mod metrics;
mod outcome;
mod run;

use std::{path::PathBuf, time::Duration};

pub use install::Parts;
pub use outcome::{Gaps, Outcome, Silent};
pub use run::run;

use crate::{chaos::ChaosError, takeover::TakeoverError};

/// Namespace of Kyverno.
pub const NAMESPACE: &str = "kyverno";
/// Kyverno's controllers: names of their Deployments and service accounts.
pub const CONTROLLERS: [&str; 3] = [
    "kyverno-admission-controller",
    "kyverno-reports-controller",
    "kyverno-background-controller",
];

/// Why a run could not be made; what Kyverno noticed is in the [`Outcome`] instead.
#[derive(Debug, thiserror::Error)]
pub enum KyvernoError {
    /// The cluster did not do as asked.
    #[error(transparent)]
    Cluster(#[from] crate::cluster::Error),
    /// The line on a node could not go on.
    #[error(transparent)]
    Takeover(#[from] TakeoverError),
    /// A switch did not come to its end.
    #[error(transparent)]
    Switch(#[from] ChaosError),
    /// A request to the kube-apiserver failed.
    #[error("cannot {doing}: {source}")]
    Kube {
        /// What was about to be done.
        doing: &'static str,
        /// What the kube-apiserver or the connection said.
        source: kube::Error,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl KyvernoError {
    fn kube(doing: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Kube { doing, source }
    }

    fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

/// How a run is made.
#[derive(Clone, Debug)]
pub struct KyvernoOptions {
    /// What `hack/lib/kyverno.sh` built.
    pub parts: Parts,
    /// Folder for the audit log and the logs of Kyverno.
    pub logs: PathBuf,
    /// How often the groups go to the server and back, before they go there once more.
    pub rounds: u32,
    /// How long the baseline without any switch is measured.
    pub baseline: Duration,
}
