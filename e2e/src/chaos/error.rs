//! The reasons why a run ends early.

use std::time::Duration;

use crate::processes::ProcessesError;
use crate::takeover::TakeoverError;
use crate::witness::WitnessError;

/// The reason why a run could not be made; problems that clients noticed are in the outcome
/// instead.
#[derive(Debug, thiserror::Error)]
pub enum ChaosError {
    /// The cluster did not do as asked.
    #[error(transparent)]
    Cluster(#[from] testcluster::Error),
    /// The line on a node could not go on.
    #[error(transparent)]
    Takeover(#[from] TakeoverError),
    /// The processes on a control plane could not go on.
    #[error(transparent)]
    Processes(#[from] ProcessesError),
    /// The client cannot be made.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// A request that the run cannot do without failed.
    #[error("{0}")]
    Request(String),
    /// The program of client-go did not behave as expected.
    #[error("the watchers of client-go: {0}")]
    ClientGo(String),
    /// A watcher did not get its initial state.
    #[error("the watcher '{0}' did not begin")]
    NotStarted(String),
    /// A switch did not come to its end.
    #[error("{what} did not end within {limit:?}: {last}")]
    NotReached {
        /// The awaited state.
        what: String,
        /// The time of the wait.
        limit: Duration,
        /// The last state that was seen.
        last: String,
    },
}
