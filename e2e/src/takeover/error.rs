//! The reasons why a line ends early.

use std::path::PathBuf;
use std::time::Duration;

use crate::incumbent::IncumbentError;
use crate::request::RequestError;
use crate::witness::WitnessError;
use testreports::InputError;

/// The reason why the line could not be run; problems that clients noticed are in the witness's
/// account instead.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    /// The cluster did not do as asked.
    #[error(transparent)]
    Cluster(#[from] testcluster::Error),
    /// No test input.
    #[error(transparent)]
    Input(#[from] InputError),
    /// An error of the incumbent.
    #[error(transparent)]
    Incumbent(#[from] IncumbentError),
    /// The witness could not begin or end.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// A request to the kube-apiserver failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A state was not reached.
    #[error("{what} was not reached within {waited:.0?}: {last}")]
    NotReached {
        /// The awaited state.
        what: String,
        /// The time of the wait.
        waited: Duration,
        /// The last state that was seen.
        last: String,
    },
    /// A file that the line needs is missing.
    #[error("{} is missing: {hint}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The command that makes it.
        hint: &'static str,
    },
    /// An answer that cannot be used.
    #[error("{0}")]
    Answer(String),
}
