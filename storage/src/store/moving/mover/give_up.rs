//! The move that is given up.

use std::sync::atomic::AtomicU64;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crds::control::MovePhase;

use super::super::MoveError;
use super::super::request::MoveRequest;
use super::super::rows::Marker;
use super::super::source::Turn;
use super::super::target::Begun;
use super::Mover;

/// Longest time of one attempt to remove the copy.
const CLEAN_UP: Duration = Duration::from_secs(20);
/// Time for which the copy is tried to be removed, while the other database does not answer.
const CLEAN_UP_WITHIN: Duration = Duration::from_mins(1);

impl Mover {
    /// Removes the copy, and says that the move is given up.
    pub(super) async fn give_up(&self, request: &MoveRequest) {
        // That of an earlier order says nothing of this one.
        let given_up = self.progress.borrow().as_ref().is_some_and(|state| {
            state.phase == MovePhase::GivenUp && state.target == request.target
        });
        if given_up {
            return;
        }
        let source = self.movable.source();
        let marker = match source.give_up(request.order()).await {
            Ok(Turn::Own(marker)) => marker,
            Ok(Turn::GivenUp) => return self.say_given_up(request, String::new()),
            Ok(Turn::Others(_)) => {
                return self.say_cleaning(request, "another server removes the copy");
            }
            // It is too late.
            Ok(Turn::Over) => {
                if let Err(error) = self.movable.go_after().await {
                    tracing::warn!(%error, "following the reports to the other database");
                }
                return;
            }
            // Nobody may say so before all servers have to know.
            Err(error) => {
                tracing::warn!(%error, "the move could not be given up yet");
                return;
            }
        };
        let Err(error) = self.remove_copy(request, &marker).await else {
            return self.say_given_up(request, String::new());
        };
        tracing::warn!(error, "the copied reports are still in the other database");
        // Whoever gives the move up because the other database is gone does not wait for it for ever.
        let since = *self.cleaning().get_or_insert_with(Instant::now);
        if since.elapsed() < CLEAN_UP_WITHIN {
            return self.say_cleaning(request, &error);
        }
        *self.cleaning() = None;
        self.say_given_up(request, format!("copied reports are left there: {error}"));
    }

    /// Removes the copy of a move that was given up, and is heard of meanwhile.
    async fn remove_copy(&self, request: &MoveRequest, marker: &Marker) -> Result<(), String> {
        // Nothing is copied, so nothing has to be kept.
        let progress = AtomicU64::new(u64::MAX >> 1);
        let clean_up = tokio::time::timeout(CLEAN_UP, self.clean_up(request, marker));
        let cleaned = tokio::select! {
            cleaned = clean_up => cleaned,
            error = self.beat(marker.attempt, &progress) => Ok(Err(error)),
        };
        match cleaned {
            Ok(Ok(())) => {
                *self.cleaning() = None;
                let noted = self.movable.source().cleaned(marker.attempt).await;
                noted.map_err(|error| error.to_string())
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the database does not answer".to_owned()),
        }
    }

    fn cleaning(&self) -> MutexGuard<'_, Option<Instant>> {
        self.cleaning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say_cleaning(&self, request: &MoveRequest, why: &str) {
        self.tell(|state| {
            state.phase = MovePhase::Waiting;
            state.target.clone_from(&request.target);
            why.clone_into(&mut state.message);
        });
    }

    pub(super) fn say_given_up(&self, request: &MoveRequest, message: String) {
        self.tell(|state| {
            state.phase = MovePhase::GivenUp;
            state.target.clone_from(&request.target);
            state.message = message;
        });
    }

    async fn clean_up(&self, request: &MoveRequest, marker: &Marker) -> Result<(), MoveError> {
        match self.begin(request, marker).await? {
            Begun::Filling(target) => {
                target.abandon().await?;
                target.close().await;
            }
            // Nothing there is of this move.
            Begun::Taken => {}
            Begun::Passed(attempt) => {
                self.movable.source().pass(attempt);
                return Err(MoveError::TakenOver);
            }
            // It is too late, and a failover has lost that.
            Begun::Opened(number) => {
                self.mark_again(marker, number).await?;
                return Err(MoveError::Opened(number));
            }
        }
        Ok(())
    }
}
