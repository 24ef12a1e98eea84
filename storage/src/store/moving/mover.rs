//! The task that moves: looks for an order to move, and tries until it is done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crds::control::MovePhase;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::copy::Copier;
use super::engine::Movable;
use super::request::MoveRequest;
use super::{MoveError, MoveOptions, MoveState, Progress, hand_over};
use crate::store::handle::WeakStore;
use crate::store::postgres::Postgres;

/// Bounds of the pause before the next attempt.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Pause before an attempt that was refused is made again.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// Number of changes that is small enough to be copied while writes wait.
const NEARLY: u64 = 200;
/// Number of rounds to catch up to [`NEARLY`]; a server with faster writers is held for longer.
const ROUNDS: usize = 20;
/// Time to remove the copy when a move is given up.
const CLEAN_UP: Duration = Duration::from_secs(20);

/// See the module's documentation.
pub(crate) struct Mover {
    movable: Arc<Movable>,
    options: MoveOptions,
    progress: Arc<watch::Sender<Progress>>,
}

impl Mover {
    pub(super) fn new(
        movable: Arc<Movable>,
        options: MoveOptions,
    ) -> (Self, watch::Receiver<Progress>) {
        let (progress, told) = watch::channel(None);
        let progress = Arc::new(progress);
        let this = Self {
            movable,
            options,
            progress,
        };
        (this, told)
    }

    /// Moves `store` when it is asked to, until it is moved or the store is closed.
    pub(crate) fn start(self, store: WeakStore, stop: CancellationToken) {
        tokio::spawn(stop.run_until_cancelled_owned(self.run(store)));
    }

    /// Moves `store`, which is asked to.
    #[cfg(test)]
    pub(crate) async fn move_now(self, store: &crate::store::Store) {
        Box::pin(self.run(store.downgrade())).await;
    }

    async fn run(self, store: WeakStore) {
        let mut pause = PAUSE.0;
        loop {
            let Some(request) = self.request() else {
                self.progress
                    .send_if_modified(|progress| progress.take().is_some());
                tokio::time::sleep(self.options.interval).await;
                continue;
            };
            if request.give_up {
                self.give_up(&request).await;
                tokio::time::sleep(self.options.interval).await;
                continue;
            }
            let began = Instant::now();
            let result = Box::pin(self.attempt(&request, &store)).await;
            self.movable.unwatch();
            let error = match result {
                Ok(()) | Err(MoveError::Stopped) => return,
                Err(error) => error,
            };
            if self.request().as_ref() != Some(&request) {
                continue;
            }
            tracing::warn!(%error, target_ = request.target, "the reports could not be moved yet");
            let refused = error.is_refusal();
            self.tell(|state| {
                state.phase = if refused {
                    MovePhase::Refused
                } else {
                    MovePhase::Waiting
                };
                state.message = error.to_string();
            });
            pause = if refused {
                REFUSED_PAUSE
            } else if began.elapsed() > PAUSE.1 {
                PAUSE.0
            } else {
                (pause * 2).min(PAUSE.1)
            };
            self.unless_changed(&request, tokio::time::sleep(pause))
                .await;
        }
    }

    fn request(&self) -> Option<MoveRequest> {
        MoveRequest::read(&self.options.directory)
    }

    fn tell(&self, change: impl FnOnce(&mut MoveState)) {
        self.progress
            .send_modify(|progress| change(progress.get_or_insert_default()));
    }

    /// Waits for `work`, but not longer than the request is unchanged.
    async fn unless_changed<T>(
        &self,
        request: &MoveRequest,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let changed = async {
            while self.request().as_ref() == Some(request) {
                tokio::time::sleep(self.options.interval).await;
            }
        };
        tokio::select! {
            done = work => Some(done),
            () = changed => None,
        }
    }

    async fn attempt(&self, request: &MoveRequest, store: &WeakStore) -> Result<(), MoveError> {
        request.check()?;
        self.tell(|state| {
            state.target.clone_from(&request.target);
            state.attempts += 1;
            state.phase = MovePhase::Copying;
        });
        let result = self
            .unless_changed(request, Box::pin(self.copy(request)))
            .await;
        let Some(copier) = result.transpose()? else {
            return Err(MoveError::Request("it was changed".to_owned()));
        };
        // From here on it is carried through: whoever changes the request sees what came of it.
        self.tell(|state| state.phase = MovePhase::HandingOver);
        let store = store.upgrade().ok_or(MoveError::Stopped)?;
        Box::pin(hand_over::hand_over(
            &store,
            copier,
            &self.progress,
            self.options.hold,
        ))
        .await
    }

    /// Copies and compares until little is left to do.
    async fn copy(&self, request: &MoveRequest) -> Result<Copier, MoveError> {
        let attempt = rand::random_range(1..=i64::MAX);
        let sqlite = self.movable.sqlite();
        let marker = sqlite
            .note_attempt(attempt, &request.identity, &request.name)
            .await?;
        let options = request.options(&self.options.directory, &request.identity);
        let target = Postgres::fill(&options, &marker).await?;
        let target = target.ok_or_else(|| MoveError::Taken(request.identity.clone()))?;
        tracing::info!(
            target_ = request.target,
            cluster = request.identity,
            "moving the reports to PostgreSQL"
        );
        let mut copier = Copier::new(
            Arc::clone(&self.movable),
            target,
            Arc::clone(&self.progress),
        );
        copier.first_pass().await?;
        self.tell(|state| state.phase = MovePhase::Following);
        self.follow(&mut copier).await?;
        let (snapshot, _) = copier.follow().await?;
        self.tell(|state| state.phase = MovePhase::Comparing);
        copier.compare(snapshot).await?;
        self.follow(&mut copier).await?;
        Ok(copier)
    }

    async fn follow(&self, copier: &mut Copier) -> Result<(), MoveError> {
        for _ in 0..ROUNDS {
            let (_, changes) = copier.follow().await?;
            if changes <= NEARLY {
                break;
            }
        }
        Ok(())
    }

    /// Removes the copy, and says that the move is given up.
    async fn give_up(&self, request: &MoveRequest) {
        let given_up = self.progress.borrow().as_ref().map(|state| state.phase);
        if given_up == Some(MovePhase::GivenUp) {
            return;
        }
        let cleaned = tokio::time::timeout(CLEAN_UP, self.clean_up(request)).await;
        let error = match cleaned {
            Ok(Ok(())) => String::new(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the database does not answer".to_owned(),
        };
        if !error.is_empty() {
            tracing::warn!(error, "the copied reports are left in the other database");
        }
        self.tell(|state| {
            state.phase = MovePhase::GivenUp;
            state.target.clone_from(&request.target);
            state.message = error;
        });
    }

    async fn clean_up(&self, request: &MoveRequest) -> Result<(), MoveError> {
        let attempt = rand::random_range(1..=i64::MAX);
        let sqlite = self.movable.sqlite();
        if sqlite.marker().await?.is_none() {
            return Ok(());
        }
        let marker = sqlite
            .note_attempt(attempt, &request.identity, &request.name)
            .await?;
        let options = request.options(&self.options.directory, &request.identity);
        if let Some(filling) = Postgres::fill(&options, &marker).await? {
            filling.clear(0).await?;
            filling.abandon().await?;
            filling.close().await;
        }
        Ok(())
    }
}
