//! Why a witness is of no use.

use std::time::Duration;

/// Why the witness could not do its work; what it finds is in its account instead.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// A request needed to begin or to end failed.
    #[error("the witness cannot {doing}: {reason}")]
    Request {
        /// What it was about to do.
        doing: &'static str,
        /// What went wrong.
        reason: String,
    },
    /// A watcher did not get its initial state.
    #[error("the watcher {0} did not get its initial state within {1:?}")]
    NotStarted(&'static str, Duration),
}
