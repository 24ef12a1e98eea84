//! The history that this server has seen.

use std::sync::{Mutex, PoisonError};

/// A commit, by its number and its name. No other history has both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Commit {
    pub seq: i64,
    pub batch: i64,
}

/// The newest commit that this server has seen. A database that does not have it any more has been
/// put back to an earlier state, and must not be written as if nothing had happened.
#[derive(Debug, Default)]
pub(super) struct Lineage(Mutex<Commit>);

impl Lineage {
    pub fn newest(&self) -> Commit {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on to a commit that was seen to follow.
    pub fn advance(&self, commit: Commit) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if commit.seq > newest.seq {
            *newest = commit;
        }
    }

    /// Begins anew, from the present state of the database.
    pub fn restart(&self, commit: Commit) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = commit;
    }
}

/// Returns the name of a new commit.
pub(super) fn new_batch() -> i64 {
    rand::random_range(1..=i64::MAX)
}
