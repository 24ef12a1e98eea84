//! Why the incumbent could not be run.

use std::path::PathBuf;
use std::time::Duration;

/// Why the incumbent, or what is done with it, did not work.
#[derive(Debug, thiserror::Error)]
pub enum IncumbentError {
    /// The cluster did not do as asked.
    #[error(transparent)]
    Cluster(#[from] testcluster::Error),
    /// Its database.
    #[error("PostgreSQL of the incumbent: {0}")]
    Postgres(String),
    /// A file.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Its manifests are not what they were.
    #[error("manifests of the incumbent: {0}")]
    Manifests(String),
    /// A request to the kube-apiserver failed.
    #[error("cannot {doing}: {source}")]
    Kube {
        /// What was about to be done.
        doing: &'static str,
        /// What the kube-apiserver or the connection said.
        source: kube::Error,
    },
    /// An APIService cannot be followed.
    #[error("APIService {name}: {source}")]
    Wait {
        /// Its name.
        name: String,
        /// What the kube-apiserver or the connection said.
        source: kube::runtime::wait::Error,
    },
    /// A state was not reached.
    #[error("{what} was not reached within {limit:?}; the incumbent's log ends with:\n{log}")]
    NotReached {
        /// The awaited state.
        what: String,
        /// How long it was awaited.
        limit: Duration,
        /// The end of its log.
        log: String,
    },
}

impl IncumbentError {
    pub(super) fn kube(doing: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Kube { doing, source }
    }

    pub(super) fn postgres(error: impl std::fmt::Display) -> Self {
        Self::Postgres(format!("{error:#}"))
    }
}
