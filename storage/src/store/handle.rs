//! The handle through which everything else uses the store.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crds::control::{DatabaseEngine, DatabaseStatus};
use futures::future::BoxFuture;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::coalesced::Coalesced;
use super::committer::{Committer, unavailable};
use super::engine::{Engine, Op, OpKind};
use super::follower::Follower;
use super::moving::Progress;
use super::queue::{Pending, Queue};
use super::registry::Registry;
use super::stats::Counters;
use super::{StoreError, StoreStats, Write, WriteError};
use crate::cache::{Event, Resource, Shared};
use crate::model::{Encoded, GroupResource, Position};

/// Time that a read waits for a version that has not been reached, as the kube-apiserver does.
const WAIT_FOR_RV: Duration = Duration::from_secs(3);

/// A version was asked for that the server has not reached: 504 Timeout, `Too large resource
/// version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Too large resource version: {requested}, current: {current}")]
pub struct ReadError {
    /// The version that was asked for.
    pub requested: u64,
    /// The version that the server has reached.
    pub current: u64,
}

/// Time that a write waits for its answer: clients give up after half a minute, and an answer
/// before that is better.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// Time for which a server may be behind the database without others being asked in its place.
pub(super) const LEFT_BEHIND: Duration = Duration::from_secs(10);

/// A store. Clones share it.
#[derive(Clone)]
pub struct Store {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) registry: Arc<Registry>,
    pub(super) shared: Arc<Shared>,
    pub(super) queue: Arc<Queue>,
    pub(super) counters: Arc<Counters>,
    pub(super) follower: Arc<Follower>,
    pub(super) newest: Coalesced<Option<u64>>,
    pub(super) committer: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    pub(super) stop: CancellationToken,
    /// The progress of the move to another database, where it can be moved.
    pub(super) moving: Option<watch::Receiver<Progress>>,
    /// True where the reports can be moved to a file of this server.
    pub(super) has_file: bool,
}

impl Store {
    /// Returns all stored resources, by group and name.
    #[must_use]
    pub fn resources(&self) -> Vec<Arc<Resource>> {
        self.inner.registry.all()
    }

    /// Returns a stored resource.
    #[must_use]
    pub fn resource(&self, name: &GroupResource) -> Option<Arc<Resource>> {
        self.inner.registry.by_name(name)
    }

    /// Returns a stored resource.
    ///
    /// # Errors
    /// [`StoreError::UnknownResource`].
    pub(super) fn known(&self, name: &GroupResource) -> Result<Arc<Resource>, StoreError> {
        self.resource(name)
            .ok_or_else(|| StoreError::UnknownResource(name.clone()))
    }

    /// Makes one write. The answer comes when it is durable and every read of this server sees
    /// it.
    ///
    /// Dropping the future does not take the write back.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write(
        &self,
        resource: &GroupResource,
        write: &Write,
    ) -> Result<Arc<Event>, WriteError> {
        let resource = self.known(resource)?;
        let (key, kind, object) = match write {
            Write::Create { key, object } => (key, OpKind::Create, object),
            Write::Update {
                key,
                expected_rv,
                object,
            } => {
                let expected_rv = *expected_rv;
                (key, OpKind::Update { expected_rv }, object)
            }
            Write::Delete {
                key,
                expected_uid,
                expected_rv,
                last,
            } => {
                let kind = OpKind::Delete {
                    expected_uid: expected_uid.clone(),
                    expected_rv: *expected_rv,
                };
                (key, kind, last)
            }
        };
        let dictionary = resource.dictionary();
        // Nothing is projected of what is deleted.
        let object = match (self.engine().projects(), &kind) {
            (false, _) => Encoded::with_packed(object, &dictionary)?,
            (true, OpKind::Delete { .. }) => Encoded::from_value(object, &dictionary)?,
            (true, _) => {
                let before = resource.get(key);
                Encoded::with_projection(object, before.as_deref(), &dictionary)?
            }
        };
        let op = Op {
            resource: resource.record().id,
            key: key.clone(),
            kind,
            object,
        };
        op.check()?;
        let (answer, answered) = oneshot::channel();
        self.inner.queue.push(Pending { op, answer })?;
        match tokio::time::timeout(ANSWER_WITHIN, answered).await {
            Ok(answer) => answer.map_err(|_| stopped())?,
            // What has not been sent by now will not be: nobody waits for its answer.
            Err(_) => Err(unavailable("it does not answer in time").into()),
        }
    }

    /// Makes sure that later reads see every write that was answered before, by whichever replica.
    /// All who wait at one time share one question to the database.
    ///
    /// # Errors
    /// If the database does not return the newest commit.
    pub async fn consistent(&self) -> Result<(), StoreError> {
        let newest = self.inner.newest.get(|| self.inner.engine.newest_seq());
        let newest = newest.await.map_err(|reason| {
            self.inner.follower.look();
            unavailable(reason)
        })?;
        let Some(seq) = newest else {
            return Ok(());
        };
        let mut commits = self.inner.shared.commits.subscribe();
        if commits.borrow().seq < seq {
            self.inner.follower.want(seq);
        }
        let reached = commits.wait_for(|position| position.seq >= seq);
        match tokio::time::timeout(WAIT_FOR_RV, reached).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(unavailable("the cache is behind the database")),
        }
    }

    /// Waits, for 3 s at most, until lists of `resource` carry `rv` or a newer version.
    ///
    /// # Errors
    /// If it is not reached by then.
    pub async fn wait_for_rv(&self, resource: &Resource, rv: u64) -> Result<(), ReadError> {
        resource
            .wait_for_rv(rv, WAIT_FOR_RV)
            .await
            .map_err(|current| ReadError {
                requested: rv,
                current,
            })
    }

    /// Returns the counter: the newest version given to a write, or the floor it was raised to.
    #[must_use]
    pub fn counter(&self) -> u64 {
        self.inner.shared.commits.borrow().counter
    }

    /// Returns figures for metrics.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        use std::sync::atomic::Ordering::Relaxed;
        let (queued_writes, queued_bytes) = self.inner.queue.depth();
        let counters = &self.inner.counters;
        StoreStats {
            position: *self.inner.shared.commits.borrow(),
            queued_writes,
            queued_bytes,
            batches: counters.batches.load(Relaxed),
            batched_writes: counters.batched_writes.load(Relaxed),
            failures: counters.failures.load(Relaxed),
            questions: self.inner.newest.asked(),
            database_up: counters.database_up.load(Relaxed) && counters.reachable.load(Relaxed),
            database: self.inner.engine.info(),
            resources: self.resources().iter().map(|r| r.stats()).collect(),
        }
    }

    /// Returns the kind of database of the reports, and the progress of its move to another
    /// database.
    #[must_use]
    pub fn database(&self) -> DatabaseStatus {
        let position = *self.inner.shared.commits.borrow();
        let progress = self.inner.moving.as_ref();
        // Whoever moves the reports tells how far it is, and ends when they have moved.
        let can_move = progress.is_some_and(|progress| progress.has_changed().is_ok());
        let progress = progress.and_then(|progress| progress.borrow().clone());
        DatabaseStatus {
            engine: if self.engine().projects() {
                DatabaseEngine::Postgres
            } else {
                DatabaseEngine::Sqlite
            },
            sequence: position.seq,
            resource_version: position.counter.max(1).to_string(),
            history: self.engine().history(),
            elsewhere: self.engine().elsewhere(),
            can_move,
            can_move_to_file: can_move && self.inner.has_file,
            move_: progress.map(|state| state.describe()),
        }
    }

    /// Returns whether others go on in the database, and this server cannot follow them: what it would
    /// answer is old, and its watches see nothing.
    #[must_use]
    pub fn is_left_behind(&self) -> bool {
        let since = [self.engine().behind_since(), self.counters().parted_since()];
        let since = since.into_iter().flatten().min();
        since.is_some_and(|since| since.elapsed() >= LEFT_BEHIND)
    }

    /// Begins to follow other servers, after a move to a database that they share.
    pub(super) fn others_may_write(&self) {
        self.inner.follower.begin();
    }

    /// Ends all watches cleanly, before the server stops: clients come back to its successor.
    pub fn end_watches(&self) {
        for resource in self.resources() {
            resource.end_cursors();
        }
    }

    /// Commits the queue, takes nothing more, and closes the database.
    pub async fn close(&self) {
        self.inner.stop.cancel();
        self.inner.queue.close();
        if let Some(committer) = self.inner.committer.lock().await.take()
            && let Err(error) = committer.await
        {
            tracing::error!(%error, "the committer did not end cleanly");
        }
    }

    /// Returns the position of the cache.
    pub(super) fn position(&self) -> watch::Receiver<Position> {
        self.inner.shared.commits.subscribe()
    }

    /// Returns the counters.
    pub(super) fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// Returns the number of other servers that have come to the database so far, or may have;
    /// `None` where none can.
    #[must_use]
    pub fn arrivals(&self) -> Option<watch::Receiver<u64>> {
        self.engine().arrivals()
    }

    /// Returns the database, for direct reads.
    pub(super) fn engine(&self) -> &dyn Engine {
        &*self.inner.engine
    }

    /// Stops all work that is not asked for.
    #[cfg(test)]
    pub(super) fn rest(&self) {
        self.inner.stop.cancel();
    }

    /// Returns a handle that does not keep the store open.
    pub(super) fn downgrade(&self) -> WeakStore {
        WeakStore(Arc::downgrade(&self.inner))
    }

    /// Has the committer carry out `command` and waits for its answer.
    pub(super) async fn command<T, F>(&self, command: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a mut Committer) -> BoxFuture<'a, Result<T, StoreError>>
            + Send
            + 'static,
    {
        let (answer, answered) = oneshot::channel();
        self.inner.queue.command(Box::new(move |committer| {
            Box::pin(async move {
                let done = match committer {
                    Ok(committer) => command(committer).await,
                    Err(refusal) => Err(refusal),
                };
                let works = !matches!(done, Err(StoreError::Unavailable { .. }));
                // A caller that has gone needs no answer; what it ordered is done all the same.
                let _ = answer.send(done);
                works
            })
        }))?;
        answered.await.map_err(|_| stopped())?
    }
}

/// A handle that does not keep the store open.
pub(super) struct WeakStore(Weak<Inner>);

impl WeakStore {
    /// Returns the store, while somebody else has it open.
    pub fn upgrade(&self) -> Option<Store> {
        self.0.upgrade().map(|inner| Store { inner })
    }
}

/// Closes the queue: a store that is dropped without being closed still commits the writes that it
/// has taken.
impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
        self.queue.close();
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.resources()).finish()
    }
}

/// Returns the error that the committer ended before it answered.
fn stopped() -> StoreError {
    unavailable("the server is shutting down")
}
