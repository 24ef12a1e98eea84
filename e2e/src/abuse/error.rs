//! The reasons why a run ends early.

use crate::chaos::ChaosError;
use crate::request::RequestError;
use crate::takeover::TakeoverError;
use crate::witness::WitnessError;

/// The reason why a run could not be made; what clients and conditions showed is in the outcome
/// instead.
#[derive(Debug, thiserror::Error)]
pub enum AbuseError {
    /// The cluster did not do as asked.
    #[error(transparent)]
    Cluster(#[from] testcluster::Error),
    /// The server could not be brought to where abuse begins.
    #[error(transparent)]
    Takeover(#[from] TakeoverError),
    /// The clients could not begin or end.
    #[error(transparent)]
    Chaos(#[from] ChaosError),
    /// A client cannot be made.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// A request that the run cannot do without failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Nothing was loaded of a kind.
    #[error("there is no {0} to read")]
    NoCanary(&'static str),
    /// Objects of the run cannot be removed.
    #[error("the probes in {0} cannot be deleted")]
    Left(String),
}
