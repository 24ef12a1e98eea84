//! The reasons why a run could not be made.

use std::path::PathBuf;

use crate::chaos::ChaosError;
use crate::request::RequestError;
use crate::takeover::TakeoverError;

/// The reason why a run could not be made; problems that Kyverno noticed are in the
/// [`super::Outcome`] instead.
#[derive(Debug, thiserror::Error)]
pub enum KyvernoError {
    /// The cluster did not do as asked.
    #[error(transparent)]
    Cluster(#[from] testcluster::Error),
    /// The line on a node could not go on.
    #[error(transparent)]
    Takeover(#[from] TakeoverError),
    /// A switch did not come to its end.
    #[error(transparent)]
    Switch(#[from] ChaosError),
    /// A request to the kube-apiserver failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl KyvernoError {
    pub(super) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}
