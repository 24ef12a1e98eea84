//! The reasons why the incumbent could not be run.

use std::path::PathBuf;
use std::time::Duration;

use crate::request::RequestError;

/// The reason why the incumbent, or an action on it, did not work.
#[derive(Debug, thiserror::Error)]
pub enum IncumbentError {
    /// The cluster did not do as asked.
    #[error(transparent)]
    Cluster(#[from] testcluster::Error),
    /// An error of its database.
    #[error("PostgreSQL of the incumbent: {0}")]
    Postgres(String),
    /// A file.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The manifests have changed.
    #[error("manifests of the incumbent: {0}")]
    Manifests(String),
    /// A request to the kube-apiserver failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// An APIService cannot be followed.
    #[error("APIService {name}: {source}")]
    Wait {
        /// The name of the APIService.
        name: String,
        /// The error of the kube-apiserver or the connection.
        source: kube::runtime::wait::Error,
    },
    /// A state was not reached.
    #[error("{what} was not reached within {limit:?}; the incumbent's log ends with:\n{log}")]
    NotReached {
        /// The awaited state.
        what: String,
        /// The time of the wait.
        limit: Duration,
        /// The end of its log.
        log: String,
    },
}

impl IncumbentError {
    pub(super) fn postgres(error: impl std::fmt::Display) -> Self {
        Self::Postgres(format!("{error:#}"))
    }
}
