//! The reasons why a server could not be put behind a control plane.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use testreports::InputError;

/// The reason why a server could not be put behind a control plane, or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// An error of the control plane.
    #[error(transparent)]
    Cluster(#[from] testcluster::Error),
    /// The kube-apiserver refused, or the connection broke.
    #[error("kube-apiserver: {0}")]
    Kube(#[from] Box<kube::Error>),
    /// Certificates could not be made.
    #[error("certificates: {0}")]
    Certificates(#[from] rcgen::Error),
    /// CRDs are not available.
    #[error(transparent)]
    Input(#[from] InputError),
    /// PostgreSQL did not start.
    #[error("PostgreSQL: {0}")]
    Postgres(String),
    /// A file of the server's could not be written.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The binary is not there.
    #[error("{} is missing; build it first: cargo build --workspace --bin reports-server", .0.display())]
    Program(PathBuf),
    /// An awaited condition did not come.
    #[error("not within {} s: {what}; {last}", patience.as_secs())]
    NotYet {
        /// The awaited condition.
        what: String,
        /// The time of the wait.
        patience: Duration,
        /// The last observation, or the place to look.
        last: String,
    },
    /// A request that cannot be sent.
    #[error("{method} {uri} is no request: {why}")]
    Request {
        /// The method.
        method: String,
        /// The URI.
        uri: String,
        /// The fault.
        why: String,
    },
    /// A body that ended before its time, or that does not have the form that it claims.
    #[error("the answer's body: {0}")]
    Body(String),
}

impl From<kube::Error> for ServingError {
    fn from(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}
