//! The end of a move: the last step, and the mark.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crds::control::MovePhase;
use tokio::sync::Mutex;

use super::super::copy::Copier;
use super::super::request::MoveRequest;
use super::super::rows::Marker;
use super::super::{MoveError, hand_over};
use super::Mover;
use crate::store::handle::WeakStore;
use crate::store::postgres::Postgres;

/// Number of times that the last step is made with one copy.
const LAST_STEPS: u32 = 8;
/// Bounds of the pause between two of them.
const LAST_PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

impl Mover {
    /// Makes the last step. One that fails leaves the copy as it is, which follows on for the next one.
    pub(super) async fn hand_over(
        &self,
        request: &MoveRequest,
        store: &WeakStore,
        copier: Copier,
    ) -> Result<(), MoveError> {
        let copier = Arc::new(Mutex::new(copier));
        let mut pause = LAST_PAUSE.0;
        for step in 1.. {
            // It is carried through: whoever changes the request meanwhile sees what came of it.
            self.handing_over.store(true, Ordering::Relaxed);
            self.tell(|state| state.phase = MovePhase::HandingOver);
            let upgraded = store.upgrade().ok_or(MoveError::Stopped)?;
            let (progress, hold) = (&self.progress, self.options.hold);
            let handed = hand_over::hand_over(&upgraded, &copier, progress, hold);
            let error = match Box::pin(handed).await {
                Ok(()) => return Ok(()),
                Err(error) if error.keeps_copy() && step < LAST_STEPS => error,
                Err(error) => return Err(error),
            };
            drop(upgraded);
            self.handing_over.store(false, Ordering::Relaxed);
            tracing::info!(%error, step, "the last step of the move is made again");
            self.tell(|state| {
                state.phase = MovePhase::Waiting;
                state.message = error.to_string();
            });
            let follow = async {
                let mut copier = copier.lock().await;
                self.follow_in_turn(&mut copier, pause).await
            };
            let followed = self.unless_changed(request, Box::pin(follow)).await;
            if followed.transpose()?.is_none() {
                return Err(MoveError::Request("it was changed".to_owned()));
            }
            pause = (pause * 2).min(LAST_PAUSE.1);
        }
        Ok(())
    }

    /// Waits until this server has gone over behind the mark that it has set.
    pub(super) async fn arrived(&self) -> Result<(), MoveError> {
        loop {
            if self.movable.moved_at().is_some() {
                return Ok(());
            }
            if !self.movable.has_left() {
                return Err(MoveError::TakenBack);
            }
            if let Err(error) = self.movable.go_after().await {
                self.tell(|state| state.message = error.to_string());
            }
            tokio::time::sleep(self.options.interval).await;
        }
    }

    /// Sets the mark again that a failover of the database that was moved has lost: the other one is
    /// open under `number`, and others may be there. What was written here since is lost with it, and
    /// clients list again.
    pub(super) async fn mark_again(&self, marker: &Marker, number: i64) -> Result<(), MoveError> {
        tracing::error!("the database has lost that the reports have moved; they are followed");
        let source = self.movable.source();
        let Some(request) = self.request() else {
            return Err(MoveError::Request("it was changed".to_owned()));
        };
        let options = request.options(&self.options.directory, &marker.identity);
        let there = Postgres::numbers_at(&options).await?;
        let mut held = source.hold(marker.attempt, self.options.hold).await?;
        let last = held.last().await?;
        let records = source.snapshot().await?.records().await?;
        let ids = records.iter().filter_map(|record| {
            let there = there.get(&*record.uid)?;
            Some((record.id, *there))
        });
        let ids = ids.collect();
        if let Err(error) = held.mark(last, number, &ids).await {
            tracing::warn!(%error, "the mark of the move could not be set again yet");
        }
        self.movable.go_after().await?;
        Ok(())
    }
}
