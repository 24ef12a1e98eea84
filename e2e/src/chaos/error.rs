//! Why a run ends early.

use std::time::Duration;

use crate::processes::ProcessesError;
use crate::takeover::TakeoverError;
use crate::witness::WitnessError;

/// Why a run could not be made; what clients noticed is in the outcome instead.
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
    /// No client.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// A request that the run cannot do without failed.
    #[error("{0}")]
    Request(String),
    /// The program of client-go is not as it should be.
    #[error("the watchers of client-go: {0}")]
    ClientGo(String),
    /// A watcher did not get its initial state.
    #[error("the watcher '{0}' did not begin")]
    NotStarted(String),
    /// A switch did not come to its end.
    #[error("{what} did not end within {limit:?}: {last}")]
    NotReached {
        /// What was awaited.
        what: String,
        /// How long.
        limit: Duration,
        /// What was seen last.
        last: String,
    },
}
