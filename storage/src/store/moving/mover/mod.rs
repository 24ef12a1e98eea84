//! The task that moves: looks for an order to move, and tries until it is done.

mod end;
mod give_up;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crds::control::MovePhase;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::attendance::Attendance;
use super::copy::Copier;
use super::engine::Movable;
use super::request::MoveRequest;
use super::rows::Marker;
use super::source::Turn;
use super::target::{Begun, Target};
use super::{MoveError, MoveOptions, MoveState, Progress};
use crate::store::handle::WeakStore;
use crate::store::postgres::Postgres;
use crate::store::sqlite::Sqlite;

/// Bounds of the pause before the next attempt.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Pause before an attempt that was refused is made again.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// Number of changes that is small enough to be copied while writes wait.
const NEARLY: u64 = 200;
/// Number of rounds to catch up to [`NEARLY`]; a server with faster writers is held for longer.
const ROUNDS: usize = 20;
/// Notes that the attempt goes on, in the time after which another server takes its place.
const BEATS: u32 = 4;

/// See the module's documentation.
pub(crate) struct Mover {
    movable: Arc<Movable>,
    options: MoveOptions,
    progress: Arc<watch::Sender<Progress>>,
    attendance: Attendance,
    /// True in the last step, which this server ends itself.
    handing_over: AtomicBool,
    /// The newest attempt of this server; 0 before the first.
    own: AtomicI64,
    /// The time since when this server tries to remove the copy of a move that was given up.
    cleaning: Mutex<Option<Instant>>,
}

/// The result of an attempt that has not failed.
enum Outcome {
    /// The reports have moved.
    Moved,
    /// Another server moves them.
    Others,
    /// The order was taken back.
    GivenUp,
}

impl Mover {
    pub(super) fn new(
        movable: Arc<Movable>,
        options: MoveOptions,
    ) -> (Self, watch::Receiver<Progress>) {
        let (progress, told) = watch::channel(None);
        let progress = Arc::new(progress);
        let attendance = Attendance::new(
            Arc::clone(&movable),
            options.directory.clone(),
            options.lease * 3 / 2,
        );
        let this = Self {
            movable,
            options,
            progress,
            attendance,
            handing_over: AtomicBool::new(false),
            own: AtomicI64::new(0),
            cleaning: Mutex::default(),
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
        let mut over = self.movable.over();
        // Another server may move the reports at any moment.
        let followed = async {
            let seq = over.wait_for(Option::is_some).await;
            let seq = seq.ok().and_then(|seq| *seq);
            while self.handing_over.load(Ordering::Relaxed) {
                tokio::time::sleep(self.options.interval).await;
            }
            seq
        };
        let seq = tokio::select! {
            () = Box::pin(self.work(&store)) => self.movable.moved_at(),
            seq = followed => seq,
        };
        let Some(seq) = seq else {
            return;
        };
        self.followed(seq);
        if let Some(store) = store.upgrade() {
            store.others_may_write();
        }
    }

    /// Says that the reports have moved, where another server has moved them.
    fn followed(&self, seq: u64) {
        let told = self.progress.borrow().as_ref().is_some_and(|state| {
            // An earlier order may have led to where the reports were.
            state.phase == MovePhase::Moved && state.seq == seq
        });
        if told {
            return;
        }
        let target = self.request().map(|request| request.target);
        self.tell(|state| {
            state.phase = MovePhase::Moved;
            state.seq = seq;
            state.message.clear();
            if let Some(target) = target {
                state.target = target;
            }
        });
    }

    async fn work(&self, store: &WeakStore) {
        let mut pause = PAUSE.0;
        loop {
            let request = self.request();
            let order = request.as_ref().filter(|request| !request.give_up);
            self.movable.order(order.is_some());
            // Who does not reach the other database could not follow.
            let mut known = "";
            if let Some(order) = order.filter(|order| !order.to_file)
                && self.attendance.is_there(order).await.is_ok()
            {
                known = order.known_as();
            }
            self.attendance.note(known).await;
            let Some(request) = request else {
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
            let result = Box::pin(self.attempt(&request, store)).await;
            self.handing_over.store(false, Ordering::Relaxed);
            self.movable.unwatch();
            let error = match result {
                Ok(Outcome::Moved) => match self.arrived().await {
                    Ok(()) => return,
                    Err(error) => error,
                },
                Err(MoveError::Stopped) => return,
                Ok(Outcome::Others | Outcome::GivenUp) => {
                    tokio::time::sleep(self.options.interval).await;
                    continue;
                }
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
                state.target.clone_from(&request.target);
                state.message = error.to_string();
            });
            self.publish().await;
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

    /// Has other servers tell the same of the move as this one, whose turn it was.
    async fn publish(&self) {
        let state = self.progress.borrow().clone().unwrap_or_default();
        let source = self.movable.source();
        // Nothing is copied, so nothing has to be kept.
        let told = state.describe();
        let own = self.own.load(Ordering::Relaxed);
        if let Err(error) = source.renew(own, u64::MAX >> 1, &told).await {
            tracing::debug!(%error, "telling other servers how far the move is");
        }
    }

    /// Returns the order in the directory. One that leads to the file in which an embedded server has
    /// the reports is none.
    fn request(&self) -> Option<MoveRequest> {
        let request = MoveRequest::read(&self.options.directory);
        request.filter(|request| !request.to_file || self.movable.source().is_shared())
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

    async fn attempt(
        &self,
        request: &MoveRequest,
        store: &WeakStore,
    ) -> Result<Outcome, MoveError> {
        request.check()?;
        self.file(request)?;
        if self.attendance.is_there(request).await? {
            self.tell(|state| {
                *state = MoveState {
                    phase: MovePhase::Moved,
                    target: request.target.clone(),
                    ..MoveState::default()
                }
            });
            return Ok(Outcome::Others);
        }
        let turn = self.movable.source().turn(request.order()).await?;
        let marker = match turn {
            Turn::Own(marker) => marker,
            Turn::Others(told) => {
                // The end of an earlier order says nothing of this one.
                self.tell(|state| {
                    *state = match told {
                        Some(told) => MoveState::told(*told),
                        None => MoveState::waiting(&request.target),
                    }
                });
                return Ok(Outcome::Others);
            }
            Turn::GivenUp => {
                self.say_given_up(request, String::new());
                return Ok(Outcome::GivenUp);
            }
            Turn::Over => {
                self.movable.go_after().await?;
                return Ok(Outcome::Others);
            }
        };
        self.own.store(marker.attempt, Ordering::Relaxed);
        self.tell(|state| {
            state.target.clone_from(&request.target);
            state.attempts += 1;
            state.phase = MovePhase::Copying;
        });
        let result = self
            .unless_changed(request, Box::pin(self.copy_in_turn(request, &marker)))
            .await;
        let copier = match result.transpose() {
            Ok(Some(copier)) => copier,
            Ok(None) => return Err(MoveError::Request("it was changed".to_owned())),
            Err(MoveError::Opened(number)) => {
                Box::pin(self.mark_again(&marker, number)).await?;
                return Ok(Outcome::Others);
            }
            Err(error) => return Err(error),
        };
        self.hand_over(request, store, copier).await?;
        Ok(Outcome::Moved)
    }

    /// Copies, and is heard of by other servers also while one statement takes long.
    async fn copy_in_turn(
        &self,
        request: &MoveRequest,
        marker: &Marker,
    ) -> Result<Copier, MoveError> {
        let progress = Arc::new(AtomicU64::new(0));
        tokio::select! {
            filled = self.copy(request, marker, Arc::clone(&progress)) => filled,
            error = self.beat(marker.attempt, &progress) => Err(error),
        }
    }

    /// Follows after a pause until another last step can be made, and is heard of as well.
    async fn follow_in_turn(&self, copier: &mut Copier, pause: Duration) -> Result<(), MoveError> {
        let (attempt, progress) = (copier.target.attempt(), copier.published());
        let follow = async {
            tokio::time::sleep(pause).await;
            self.follow_and_compare(copier).await?;
            self.gather(copier).await
        };
        tokio::select! {
            followed = follow => followed,
            error = self.beat(attempt, &progress) => Err(error),
        }
    }

    /// Tells other servers that the attempt goes on, until it is dropped.
    async fn beat(&self, attempt: i64, copied: &AtomicU64) -> MoveError {
        loop {
            tokio::time::sleep(self.options.lease / BEATS).await;
            let state = self.progress.borrow().clone().unwrap_or_default();
            let source = self.movable.source();
            let up_to = copied.load(Ordering::Relaxed);
            // Whoever copies finds out itself that another server has taken its place.
            let renewed = source.renew(attempt, up_to, &state.describe()).await;
            if let Err(error) = renewed {
                tracing::debug!(%error, "telling other servers that the move goes on");
            }
        }
    }

    /// Copies and compares until little is left to do.
    async fn copy(
        &self,
        request: &MoveRequest,
        marker: &Marker,
        published: Arc<AtomicU64>,
    ) -> Result<Copier, MoveError> {
        let target = match self.begin(request, marker).await? {
            Begun::Filling(target) => target,
            Begun::Taken => {
                return Err(match self.file(request)? {
                    Some(file) => MoveError::Occupied(file.to_owned()),
                    None => MoveError::Taken(request.identity.clone()),
                });
            }
            Begun::Opened(number) => return Err(MoveError::Opened(number)),
            Begun::Passed(attempt) => {
                self.movable.source().pass(attempt);
                return Err(MoveError::TakenOver);
            }
        };
        tracing::info!(
            target_ = request.target,
            cluster = request.identity,
            to_file = request.to_file,
            "moving the reports"
        );
        let mut copier = Copier::new(
            Arc::clone(&self.movable),
            target,
            Arc::clone(&self.progress),
            request.known_as().to_owned(),
            self.options.lease,
            published,
        );
        match self.fill(&mut copier).await {
            Ok(()) => Ok(copier),
            Err(error) => {
                if matches!(error, MoveError::TakenOver) {
                    copier.leave().await;
                }
                Err(error)
            }
        }
    }

    /// Returns the file that an order leads to; `None` where it leads to PostgreSQL.
    fn file(&self, request: &MoveRequest) -> Result<Option<&Path>, MoveError> {
        if !request.to_file {
            return Ok(None);
        }
        let file = self.options.file.as_deref();
        file.map(Some).ok_or(MoveError::NoFile)
    }

    /// Begins to fill the database that an order leads to.
    async fn begin(
        &self,
        request: &MoveRequest,
        marker: &Marker,
    ) -> Result<Begun<Box<dyn Target>>, MoveError> {
        let order = request.known_as();
        if let Some(file) = self.file(request)? {
            return Ok(Sqlite::fill(file, marker, order).await?.boxed());
        }
        let options = request.options(&self.options.directory, &request.identity);
        Ok(Postgres::fill(&options, marker, order).await?.boxed())
    }

    async fn fill(&self, copier: &mut Copier) -> Result<(), MoveError> {
        copier.first_pass().await?;
        self.tell(|state| state.phase = MovePhase::Following);
        self.follow(copier).await?;
        let (snapshot, _) = copier.follow().await?;
        self.tell(|state| state.phase = MovePhase::Comparing);
        copier.compare(snapshot).await?;
        self.follow_and_compare(copier).await?;
        self.gather(copier).await
    }

    /// Waits until all other servers can follow.
    async fn gather(&self, copier: &mut Copier) -> Result<(), MoveError> {
        loop {
            match copier.unaware().await? {
                0 => {
                    let (mut snapshot, _) = copier.follow().await?;
                    copier.compare_touched(&mut snapshot).await?;
                    copier.compare_sums(&mut snapshot).await?;
                    // What was written while all of that was counted.
                    return self.follow_and_compare(copier).await;
                }
                others => {
                    let why = copier.not_yet(others).to_string();
                    self.tell(|state| state.message = why);
                }
            }
            self.attendance.note(copier.followed()).await;
            tokio::time::sleep(self.options.interval).await;
            self.follow_and_compare(copier).await?;
        }
    }

    /// Follows, and compares at once: the last step has no time for it.
    async fn follow_and_compare(&self, copier: &mut Copier) -> Result<(), MoveError> {
        for _ in 0..ROUNDS {
            let (mut snapshot, changes) = copier.follow().await?;
            copier.compare_touched(&mut snapshot).await?;
            if changes <= NEARLY {
                break;
            }
        }
        Ok(())
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
}
