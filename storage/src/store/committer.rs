//! The one task that writes.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;

use super::engine::{Commit, Engine, EngineError, Op, OpOutcome};
use super::follow::Versions;
use super::queue::{Command, Pending, Queue, Work};
use super::registry::Registry;
use super::stats::Counters;
use super::{Observer, StoreError, WriteError};
use crate::cache::{Event, Shared};
use crate::model::Position;

const DOES_NOT_ANSWER: &str = "it does not answer";

/// Time that clients are told to wait while the database does not work.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Waiting time for a database that hangs after which a failure refuses also the commands that wait
/// behind the failed one, so that the next attempt is for those who come then.
const LONG: Duration = Duration::from_secs(1);

/// See [`super`].
pub(super) struct Committer {
    pub engine: Arc<dyn Engine>,
    pub registry: Arc<Registry>,
    pub shared: Arc<Shared>,
    pub queue: Arc<Queue>,
    pub counters: Arc<Counters>,
    pub observer: Arc<dyn Observer>,
    /// The position of the cache.
    pub position: Position,
    /// The versions that the counter has come to, and how.
    pub versions: Versions,
    /// False after a transaction whose outcome is not known: the database may be ahead of the
    /// cache, and is asked before anything else is written.
    pub in_step: bool,
    /// True from the moment at which the database was found not to continue the history of the
    /// cache, until all of the cache was loaded again.
    pub parted: bool,
}

impl Committer {
    /// Works until the queue is closed and empty. A panic ends the process: cache and database may
    /// be apart then, nobody would write any more, and a start from the database puts both right.
    pub async fn run(self) {
        if AssertUnwindSafe(self.work()).catch_unwind().await.is_err() {
            tracing::error!("the committer has panicked; the process exits to be restarted");
            std::process::abort();
        }
    }

    async fn work(mut self) {
        while let Some(Work { command, writes }) = self.queue.take().await {
            let began = Instant::now();
            let works = match command {
                Some(command) => command(Ok(&mut self)).await,
                None => true,
            };
            if !works && began.elapsed() > LONG {
                let (behind, commands) = self.queue.give_up(true);
                refuse(writes.into_iter().chain(behind), commands, DOES_NOT_ANSWER).await;
            } else if !writes.is_empty() {
                self.write(writes).await;
            }
        }
        self.engine.close().await;
    }

    /// Commits a batch and answers those who wait for it.
    async fn write(&mut self, pending: Vec<Pending>) {
        let (ops, answers): (Vec<Op>, Vec<_>) = pending
            .into_iter()
            .filter(|p| !p.answer.is_closed())
            .map(|p| (p.op, p.answer))
            .unzip();
        if ops.is_empty() {
            return;
        }
        let writes = ops.len();
        let keys: Vec<_> = ops.iter().map(|op| op.key.clone()).collect();
        let start = Instant::now();
        let engine = Arc::clone(&self.engine);
        let result = self.transaction(engine.commit(ops)).await;
        let elapsed = start.elapsed();
        self.observer.committed(writes, elapsed, result.is_ok());
        self.counters.batch(writes);
        self.queue.drained(writes, elapsed);
        match result {
            Ok((outcomes, events)) => {
                let mut events = events.into_iter();
                for ((answer, key), outcome) in answers.into_iter().zip(keys).zip(outcomes) {
                    // A client that has gone needs no answer.
                    let _ = answer.send(match outcome {
                        OpOutcome::Written => written(events.next().flatten()),
                        OpOutcome::AlreadyExists => Err(WriteError::AlreadyExists(key)),
                        OpOutcome::NotFound => Err(WriteError::NotFound(key)),
                        OpOutcome::Conflict { uid, rv } => {
                            Err(WriteError::Conflict { key, uid, rv })
                        }
                        OpOutcome::Gate(state) => Err(WriteError::Gate(state)),
                    });
                }
            }
            Err(error) => {
                let reason = error.to_string();
                // Those behind have waited for as long: the next attempt is for who comes now.
                let (behind, commands) = self.queue.give_up(elapsed > LONG);
                for answer in answers {
                    let _ = answer.send(Err(unavailable(&reason).into()));
                }
                refuse(behind, commands, &reason).await;
            }
        }
    }

    /// Carries out a transaction and applies it to the cache: returns its outcome and the event of
    /// each change.
    pub async fn transaction<T>(
        &mut self,
        commit: impl Future<Output = Result<Commit<T>, EngineError>> + Send,
    ) -> Result<(T, Vec<Option<Arc<Event>>>), EngineError> {
        let result = self.try_transaction(commit).await;
        self.counters.transaction(result.is_ok());
        if let Err(error) = &result {
            tracing::error!(%error, "the database did not accept a transaction");
            self.in_step = false;
        }
        result
    }

    async fn try_transaction<T>(
        &mut self,
        commit: impl Future<Output = Result<Commit<T>, EngineError>> + Send,
    ) -> Result<(T, Vec<Option<Arc<Event>>>), EngineError> {
        if !self.in_step {
            self.catch_up().await?;
        }
        let commit = commit.await?;
        if !self.tail_without_records(commit.before).await? {
            return self.catch_up_over(commit).await;
        }
        let events = self.apply(commit.changes);
        self.apply_records(commit.records);
        self.reached(commit.position);
        Ok((commit.outcome, events))
    }
}

/// Refuses the commands that have waited in vain.
async fn refuse(
    writes: impl IntoIterator<Item = Pending>,
    commands: impl IntoIterator<Item = Command>,
    reason: &str,
) {
    for pending in writes {
        // A client that has gone needs no answer.
        let _ = pending.answer.send(Err(unavailable(reason).into()));
    }
    for command in commands {
        command(Err(unavailable(reason))).await;
    }
}

/// Returns the answer to a write that is durable.
fn written(event: Option<Arc<Event>>) -> Result<Arc<Event>, WriteError> {
    // The write is durable, but was applied as part of a reset cache; the client looks again.
    event.ok_or_else(|| unavailable("the resource was reset meanwhile").into())
}

/// Returns the error that the database does not work.
#[expect(
    clippy::needless_pass_by_value,
    reason = "errors come by value from `map_err`"
)]
pub(super) fn unavailable(reason: impl ToString) -> StoreError {
    StoreError::Unavailable {
        retry_after: RETRY_AFTER,
        reason: reason.to_string(),
    }
}
