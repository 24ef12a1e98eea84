//! The reasons why the demo ends early on a cluster that somebody has.

use std::time::Duration;

use crate::chaos::ChaosError;
use crate::request::RequestError;
use crate::takeover::TakeoverError;
use crate::witness::WitnessError;
use testreports::InputError;

/// The reason why the demo could not be run; problems that clients noticed are in the outcome
/// instead.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The cluster or the options do not allow it; nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// No test input.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A step of the line failed.
    #[error(transparent)]
    Line(#[from] TakeoverError),
    /// The witness could not end.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// The clients of the way back could not begin or end.
    #[error(transparent)]
    Back(#[from] ChaosError),
    /// The cluster did not do as asked.
    #[error(transparent)]
    Cluster(#[from] testcluster::Error),
    /// A request to the kube-apiserver failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// An image could not be loaded into the cluster's nodes.
    #[error("`{command}` failed: {why}")]
    Load {
        /// The command.
        command: String,
        /// The text that it wrote to standard error.
        why: String,
    },
    /// An object that was deleted is still there.
    #[error("{0} is still there {limit} minutes after it was deleted", limit = .1.as_secs() / 60)]
    NotGone(String, Duration),
    /// The user has ended the demo.
    #[error("interrupted")]
    Interrupted,
}
