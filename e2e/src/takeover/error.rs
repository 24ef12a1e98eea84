//! Why a line ends early.

use std::path::PathBuf;
use std::time::Duration;

use crate::incumbent::IncumbentError;
use crate::witness::WitnessError;
use testreports::InputError;

/// Why the line could not be run; what clients noticed is in the witness's account instead.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    /// The cluster did not do as asked.
    #[error(transparent)]
    Cluster(#[from] testcluster::Error),
    /// No test input.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The incumbent.
    #[error(transparent)]
    Incumbent(#[from] IncumbentError),
    /// The witness could not begin or end.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// A request to the kube-apiserver failed.
    #[error("cannot {doing}: {source}")]
    Kube {
        /// What was about to be done.
        doing: &'static str,
        /// What the kube-apiserver or the connection said.
        source: kube::Error,
    },
    /// A state was not reached.
    #[error("{what} was not reached within {waited:.0?}: {last}")]
    NotReached {
        /// The awaited state.
        what: String,
        /// How long it was awaited.
        waited: Duration,
        /// What was seen last.
        last: String,
    },
    /// A file that the line needs is missing.
    #[error("{} is missing: {hint}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What makes it.
        hint: &'static str,
    },
    /// An answer that cannot be used.
    #[error("{0}")]
    Answer(String),
}

impl TakeoverError {
    pub(super) fn kube(doing: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Kube { doing, source }
    }
}
