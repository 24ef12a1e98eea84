//! The part of a server that does not move the reports itself: it tells which order it knows, and
//! follows.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::MoveError;
use super::engine::Movable;
use super::request::MoveRequest;
use crate::store::postgres::Postgres;

/// See the module's documentation.
pub(super) struct Attendance {
    movable: Arc<Movable>,
    /// The directory that names the database to move to.
    directory: PathBuf,
    /// Pause between two notes of the same order.
    pause: Duration,
    /// The order that this server has said that it knows, and when.
    noted: Mutex<Option<(String, Instant)>>,
    /// The order whose database this server has reached, and whether the reports are there already.
    reached: Mutex<Option<(MoveRequest, bool)>>,
}

impl Attendance {
    pub fn new(movable: Arc<Movable>, directory: PathBuf, pause: Duration) -> Self {
        Self {
            movable,
            directory,
            pause,
            noted: Mutex::default(),
            reached: Mutex::default(),
        }
    }

    /// Returns whether an order leads to the database that several servers, this one among them, have
    /// the reports in.
    pub async fn is_there(&self, request: &MoveRequest) -> Result<bool, MoveError> {
        let Some(history) = self.movable.first_history() else {
            return Ok(false);
        };
        if request.to_file {
            return Ok(false);
        }
        let last = self.reached().clone();
        if let Some((_, there)) = last.filter(|(known, _)| known == request) {
            return Ok(there);
        }
        let options = request.options(&self.directory, &request.identity);
        let found = Postgres::history_at(&options).await?;
        let there = found == Some(history);
        *self.reached() = Some((request.clone(), there));
        Ok(there)
    }

    fn reached(&self) -> MutexGuard<'_, Option<(MoveRequest, bool)>> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells other servers now and then that this one knows the order, and would follow.
    pub async fn note(&self, order: &str) {
        let last = self.noted().clone();
        if last.is_some_and(|(known, at)| known == order && at.elapsed() < self.pause) {
            return;
        }
        match self.movable.source().attend(order).await {
            Ok(()) => *self.noted() = Some((order.to_owned(), Instant::now())),
            // Others wait for it, or find that it is gone.
            Err(error) => tracing::debug!(%error, "telling other servers that this one can follow"),
        }
        // It may have missed the mark.
        if let Err(error) = self.movable.go_after().await {
            tracing::warn!(%error, "following the reports to the other database");
        }
    }

    fn noted(&self) -> MutexGuard<'_, Option<(String, Instant)>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
