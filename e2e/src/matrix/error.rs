//! The reasons why a way could not be tried.

use std::path::PathBuf;

use crate::chaos::ChaosError;
use crate::takeover::TakeoverError;
use crate::witness::WitnessError;

/// The reason why a way of installing could not be tried to its end; what clients noticed is in the
/// [`super::Outcome`] instead.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// The cluster did not do as asked.
    #[error(transparent)]
    Cluster(#[from] testcluster::Error),
    /// The line could not go on.
    #[error(transparent)]
    Takeover(#[from] TakeoverError),
    /// The witness could not begin or end.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// The clients of the chaos could not begin or end.
    #[error(transparent)]
    Chaos(#[from] ChaosError),
    /// A file or a folder cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// An example of the repository is not what a way needs.
    #[error("the example cannot be used: {0}")]
    Example(String),
    /// A tool could not be started.
    #[error("cannot run {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A tool refused.
    #[error("{program} failed: {said}")]
    Refused {
        /// The program.
        program: String,
        /// The output of the tool.
        said: String,
    },
    /// The operator's metrics cannot be read by whoever may, or can be by others.
    #[error("the operator's metrics: {0}")]
    Metrics(String),
    /// A command that has to be refused was carried out.
    #[error("{0} was not refused")]
    NotRefused(&'static str),
    /// A `ReportsServer` or its CRD is being deleted.
    #[error("the ReportsServer or its CRD is being deleted, since {0}")]
    NotKept(String),
    /// Something of a server is there after its `ReportsServer`.
    #[error("the ReportsServer is gone, and this is left: {0}")]
    Left(String),
    /// Helm is not there.
    #[error("REPORTS_SERVER_HELM is not set; hack/ways helm prints what it has to be")]
    NoHelm,
}
