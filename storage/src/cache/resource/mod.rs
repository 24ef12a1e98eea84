//! One stored resource in memory.

mod commit;
mod compression;
mod past;
mod shared;
mod state;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use arc_swap::ArcSwap;
pub use past::SnapshotError;
pub(crate) use shared::Shared;
use tokio::sync::watch;

use self::state::State;
use super::ring::Ring;
use super::snapshot::Contents;
use super::{Compression, Cursor, Event, Log, LogError, Snapshot};
use crate::model::{
    Dictionary, GateStatus, ObjectKey, ResourceDef, ResourceId, ResourceRecord, StoredObject,
};

/// A watch cannot begin at the version that it asked for: 410 Expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {requested} ({oldest})")]
pub struct TooOld {
    /// The version that was asked for.
    pub requested: u64,
    /// The oldest version from which a watch can begin.
    pub oldest: u64,
}

/// Figures of one resource.
#[derive(Clone, Debug)]
pub struct ResourceStats {
    /// Number of objects.
    pub objects: u64,
    /// Sum of the lengths of their JSON texts, in bytes.
    pub bytes: u64,
    /// Events in memory.
    pub ring_events: usize,
    /// Memory of those events, in bytes.
    pub ring_bytes: usize,
    /// The version that a list would carry.
    pub rv: u64,
    /// See [`Resource::horizon`].
    pub horizon: u64,
    /// Watches that are open on this resource.
    pub cursors: usize,
    /// The compression of the objects.
    pub compression: Compression,
    /// The record of the resource in the database.
    pub record: ResourceRecord,
}

/// One stored resource: its objects, its recent events and its gate.
pub struct Resource {
    def: ResourceDef,
    shared: Arc<Shared>,
    log: Arc<dyn Log>,
    state: RwLock<State>,
    /// The value is [`State::epoch`]. Sent after each change, to wake cursors.
    wake: watch::Sender<u64>,
    gate: watch::Sender<GateStatus>,
    /// The version that a bookmark tells to every watcher that has everything up to it.
    milestone: watch::Sender<u64>,
    /// The dictionary that new bodies are compressed with.
    dictionary: ArcSwap<Dictionary>,
    /// Trainings of dictionaries since the start.
    trainings: AtomicU64,
}

impl Resource {
    /// Returns a resource with the objects that the database holds.
    pub(crate) fn new(
        record: ResourceRecord,
        objects: impl IntoIterator<Item = StoredObject>,
        shared: Arc<Shared>,
        log: Arc<dyn Log>,
    ) -> Self {
        let mut contents = Contents::new(Arc::clone(&shared.indexed_labels));
        for object in objects {
            contents.put(Arc::new(object));
        }
        let ring = Ring::new(shared.ring_limits, record.newest_logged);
        let gate = watch::Sender::new(record.gate.clone());
        // Who comes back to a server that was started anew may have missed one.
        let milestone = watch::Sender::new(shared.applied.load(Ordering::Acquire));
        let def = record.def.clone();
        let state = State {
            record,
            contents,
            ring,
            replayed: HashMap::new(),
            epoch: 0,
            last_epoch: 0,
        };
        Self {
            def,
            shared,
            log,
            state: RwLock::new(state),
            wake: watch::Sender::new(0),
            gate,
            milestone,
            dictionary: ArcSwap::new(Arc::clone(Dictionary::built_in())),
            trainings: AtomicU64::new(0),
        }
    }

    /// Returns the definition of the resource.
    #[must_use]
    pub fn def(&self) -> &ResourceDef {
        &self.def
    }

    /// Returns the gate; a change wakes the tasks that wait for it to open.
    #[must_use]
    pub fn gate(&self) -> watch::Receiver<GateStatus> {
        self.gate.subscribe()
    }

    /// Returns the record of this resource in the database.
    #[must_use]
    pub fn record(&self) -> ResourceRecord {
        self.read().record.clone()
    }

    /// Returns the version that a list would carry now, and from which a watch would miss nothing.
    ///
    /// Until the gate is first opened it is the newest imported etcd version, from then on the
    /// server's counter. It never goes back, except by a reset of the mirror.
    #[must_use]
    pub fn current_rv(&self) -> u64 {
        let applied = self.applied();
        self.read().current_rv(applied)
    }

    /// Returns the oldest version from which a watch can begin.
    #[must_use]
    pub fn horizon(&self) -> u64 {
        self.read().record.effective_horizon()
    }

    /// Returns the present object at `key`.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<StoredObject>> {
        self.read().contents.get(key).cloned()
    }

    /// Returns all present objects.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let applied = self.applied();
        let state = self.read();
        Snapshot::new(state.current_rv(applied), state.contents.clone())
    }

    /// Returns the events with versions above `rv`, for one watch.
    ///
    /// If a version has not been reached, the caller has to wait for it
    /// ([`crate::store::Store::wait_for_rv`]).
    ///
    /// # Errors
    /// If `rv` is below the horizon.
    pub fn events_from(self: &Arc<Self>, rv: u64) -> Result<Cursor, TooOld> {
        let state = self.read();
        let oldest = state.record.effective_horizon();
        if rv < oldest {
            return Err(TooOld {
                requested: rv,
                oldest,
            });
        }
        Ok(Cursor::new(
            Arc::clone(self),
            rv,
            state.last_epoch,
            self.wake.subscribe(),
            self.milestone.subscribe(),
        ))
    }

    /// Returns figures for metrics and the control API.
    #[must_use]
    pub fn stats(&self) -> ResourceStats {
        let applied = self.applied();
        let state = self.read();
        let compression = self.compression_of(&state);
        ResourceStats {
            objects: state.contents.len() as u64,
            bytes: compression.all.json_bytes,
            ring_events: state.ring.len(),
            ring_bytes: state.ring.bytes(),
            rv: state.current_rv(applied),
            horizon: state.record.effective_horizon(),
            cursors: self.wake.receiver_count(),
            compression,
            record: state.record.clone(),
        }
    }

    /// Waits until lists carry at least `rv`.
    pub(crate) async fn wait_for_rv(&self, rv: u64, timeout: Duration) -> Result<(), u64> {
        let mut commits = self.shared.commits.subscribe();
        // The sender lives as long as `self.shared`, so the wait ends only by success or timeout.
        let reached = commits.wait_for(|_| self.current_rv() >= rv);
        match tokio::time::timeout(timeout, reached).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(self.current_rv()),
        }
    }

    /// Publishes a new horizon, unless the resource was reset meanwhile.
    fn raise_horizon_of(&self, id: ResourceId, horizon: u64) {
        let mut state = self.write();
        if state.record.id == id {
            state.raise_horizon(horizon);
        }
    }

    /// Returns the view that a cursor of `epoch` at `rv` has.
    pub(super) fn look(&self, rv: u64, epoch: u64, max: usize) -> Look {
        let applied = self.applied();
        let state = self.read();
        if epoch < state.epoch {
            return Look::Ended;
        }
        let oldest = state.record.effective_horizon();
        if rv < state.ring.floor() {
            if rv < oldest {
                return Look::TooOld(oldest);
            }
            return Look::Older {
                id: state.record.id,
                floor: state.ring.floor(),
            };
        }
        match state.ring.after(rv, max) {
            events if events.is_empty() && epoch < state.last_epoch => {
                Look::Last(state.current_rv(applied))
            }
            events if events.is_empty() => Look::UpTo(state.current_rv(applied)),
            events => Look::Events(events),
        }
    }

    /// Returns events from the change log. A horizon that another server has raised is in force
    /// here from then on: the events that were dropped below it are missing.
    pub(super) async fn older(
        &self,
        id: ResourceId,
        after: u64,
        max: usize,
    ) -> Result<Vec<Arc<Event>>, LogError> {
        let page = self.log.events(id, after, max).await?;
        self.raise_horizon_of(id, page.horizon);
        Ok(page.events)
    }

    /// Returns the shared counter; to be read before the state, whose events it must not be ahead
    /// of.
    fn applied(&self) -> u64 {
        self.shared.applied.load(Ordering::Acquire)
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Resource({}, {} objects)",
            self.def.resource,
            self.read().contents.len()
        )
    }
}

/// See [`Resource::look`].
pub(super) enum Look {
    /// The next events.
    Events(Vec<Arc<Event>>),
    /// There is no event up to this version.
    UpTo(u64),
    /// The next events have left the ring, whose floor this is.
    Older { id: ResourceId, floor: u64 },
    /// The next events have left the log, which begins at this version.
    TooOld(u64),
    /// There is no event up to this version, nor behind it.
    Last(u64),
    /// The cursor has ended.
    Ended,
}
