//! The reasons why a witness failed.

use std::time::Duration;

/// The reason why the witness could not do its work; its findings are in its account instead.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// A request needed to begin or to end failed.
    #[error("the witness cannot {doing}: {reason}")]
    Request {
        /// The action that failed.
        doing: &'static str,
        /// The cause.
        reason: String,
    },
    /// A watcher did not get its initial state.
    #[error("the watcher {0} did not get its initial state within {1:?}")]
    NotStarted(&'static str, Duration),
}
