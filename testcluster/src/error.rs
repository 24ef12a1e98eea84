//! The errors of a cluster.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a cluster could not do what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option outside of its bounds, with its name.
    #[error("{0}")]
    Option(String),
    /// The machine lacks something that a cluster needs.
    #[error("{0}")]
    Machine(String),
    /// No cluster of that name is running.
    #[error(
        "no cluster '{0}' is running; `hack/cluster up --name {0}` starts one, `hack/cluster list` shows all"
    )]
    NotRunning(String),
    /// A cluster of that name is running already.
    #[error("the cluster '{0}' is running already; `hack/cluster down --name {0}` removes it")]
    Running(String),
    /// The Go parts could not be built.
    #[error("`{command}` failed ({status}): its output says why")]
    Parts {
        /// The command that builds them.
        command: String,
        /// The exit status of the command.
        status: String,
    },
    /// A part did not get ready.
    #[error("{what} is not ready: {why}. Read {log}; its last lines:\n{tail}", log = log.display())]
    NotReady {
        /// The part.
        what: String,
        /// The condition that was awaited, or the end of the process.
        why: String,
        /// The log that tells more.
        log: PathBuf,
        /// The end of that log.
        tail: String,
    },
    /// The agent inside of the cluster refused.
    #[error("the cluster's agent: {0}")]
    Agent(String),
    /// A command that ran inside of the cluster failed.
    #[error("`{command}` failed ({status}): {stderr}")]
    Command {
        /// The command.
        command: String,
        /// The exit status of the command.
        status: String,
        /// The text that it wrote to standard error.
        stderr: String,
    },
    /// A file or socket.
    #[error("{what}: {source}")]
    Io {
        /// The action, with the path.
        what: String,
        /// The cause.
        source: io::Error,
    },
    /// An answer that does not follow the protocol.
    #[error("{what}: {source}")]
    Json {
        /// The action: reading or writing, and of what.
        what: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// Certificates could not be made.
    #[error("certificates: {0}")]
    Pki(#[from] rcgen::Error),
    /// The kube-apiserver refused or did not answer.
    #[error("kube-apiserver: {0}")]
    Kube(#[from] Box<kube::Error>),
    /// The generated kubeconfig is not usable.
    #[error("kubeconfig: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// An HTTP endpoint other than the kube-apiserver's.
    #[error("{url}: {why}")]
    Http {
        /// The URL, as seen from inside of the cluster.
        url: String,
        /// The fault.
        why: String,
    },
}

impl Error {
    /// Returns the same error for logs that were moved to the directory `kept`.
    pub(super) fn with_logs_in(self, kept: &Path) -> Self {
        match self {
            Self::NotReady {
                what,
                why,
                log,
                tail,
            } => {
                let log = log
                    .file_name()
                    .map_or_else(|| kept.to_owned(), |name| kept.join(name));
                Self::NotReady {
                    what,
                    why,
                    log,
                    tail,
                }
            }
            other => other,
        }
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}

/// Adds the action to an I/O error.
pub(super) trait IoContext<T> {
    /// Returns the result with the action in its error. `what` is only called for an error.
    fn context<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T, Error>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T, Error> {
        self.map_err(|source| Error::Io {
            what: what().into(),
            source,
        })
    }
}
