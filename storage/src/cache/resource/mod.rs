//! One stored resource in memory.

mod compression;
mod past;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use arc_swap::ArcSwap;
use crds::control::GateState;
pub use past::SnapshotError;
use tokio::sync::watch;

use super::ring::Ring;
use super::snapshot::Contents;
use super::{
    Change, Compression, Cursor, Effect, Event, EventType, Log, LogError, Previous, PreviousRef,
    RingLimits, Snapshot,
};
use crate::model::{
    Dictionary, GateStatus, ObjectKey, Position, ResourceDef, ResourceId, ResourceRecord,
    StoredObject,
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

/// The state that all resources of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The counter as of the last commit that is in the cache. Raised after its events are.
    pub applied: AtomicU64,
    /// Position of the cache; sent after each commit has been applied.
    pub commits: watch::Sender<Position>,
    /// Labels with an index.
    pub indexed_labels: Arc<[String]>,
    pub ring_limits: RingLimits,
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

struct State {
    record: ResourceRecord,
    contents: Contents,
    ring: Ring,
    /// Last object of each key that only an event brought, until the resource is opened: the
    /// state before the next such event.
    replayed: HashMap<ObjectKey, Arc<StoredObject>>,
    /// The present epoch; cursors of an earlier one have ended.
    epoch: u64,
    /// An epoch; cursors of an earlier one get the events that are left, and have ended then: no
    /// event comes any more.
    last_epoch: u64,
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

    /// Takes over a committed record: gate, horizon, progress of the mirror.
    pub(crate) fn apply_record(&self, record: ResourceRecord) {
        let gate = record.gate.clone();
        let epoch = {
            let mut state = self.write();
            if record.id != state.record.id {
                state.forget(&self.shared);
            }
            if gate.state == GateState::Closed && state.record.gate.state != GateState::Closed {
                state.last_epoch += 1;
            }
            if record.opened.is_some() {
                state.replayed = HashMap::new();
            }
            state.record = record;
            state.last_epoch
        };
        // Nothing comes up to there any more, and whoever waits for the rest knows that it has it.
        if let Some(version) = gate.frozen {
            self.reach_milestone(version);
        }
        self.gate
            .send_if_modified(|g| std::mem::replace(g, gate.clone()) != gate);
        self.wake.send_replace(epoch);
    }

    /// Publishes a milestone of the counter that all resources share; a resource whose gate is not
    /// open does not follow.
    pub(crate) fn reach_milestone_of_counter(&self, counter: u64) {
        let follows = self.read().record.gate.frozen.is_none();
        if follows {
            self.reach_milestone(counter);
        }
    }

    /// Publishes `version` as a milestone: every watcher is told of it by a bookmark, once it has
    /// seen everything up to it.
    pub(crate) fn reach_milestone(&self, version: u64) {
        self.milestone.send_if_modified(|known| {
            let higher = version > *known;
            *known = version.max(*known);
            higher
        });
    }

    /// Takes over committed changes, in commit order. All changes of one commit come in one call,
    /// so that no reader sees a part of them. Returns the event of each change that makes one.
    pub(crate) fn apply(&self, changes: Vec<Change>) -> Vec<Option<Arc<Event>>> {
        let (events, epoch) = {
            let mut state = self.write();
            let events = changes.into_iter().map(|c| state.change(c)).collect();
            (events, state.last_epoch)
        };
        self.wake.send_replace(epoch);
        events
    }

    /// Publishes a new horizon, before anything below it is dropped.
    pub(crate) fn raise_horizon(&self, horizon: u64) {
        self.write().raise_horizon(horizon);
    }

    /// Publishes a new horizon, unless the resource was reset meanwhile.
    fn raise_horizon_of(&self, id: ResourceId, horizon: u64) {
        let mut state = self.write();
        if state.record.id == id {
            state.raise_horizon(horizon);
        }
    }

    /// Replaces the content of memory by that of the database; ends all cursors, whose clients come
    /// back with the version that they have.
    pub(crate) fn reload(
        &self,
        record: ResourceRecord,
        objects: impl IntoIterator<Item = StoredObject>,
    ) {
        let mut contents = Contents::new(Arc::clone(&self.shared.indexed_labels));
        for object in objects {
            contents.put(Arc::new(object));
        }
        let gate = record.gate.clone();
        let epoch = {
            let mut state = self.write();
            state.forget(&self.shared);
            let floor = record.newest_logged.max(record.effective_horizon());
            state.ring = Ring::new(self.shared.ring_limits, floor);
            state.contents = contents;
            state.record = record;
            state.last_epoch
        };
        self.gate
            .send_if_modified(|g| std::mem::replace(g, gate.clone()) != gate);
        self.wake.send_replace(epoch);
    }

    /// Ends all cursors.
    pub(crate) fn end_cursors(&self) {
        let epoch = {
            let mut state = self.write();
            state.end_cursors();
            state.last_epoch
        };
        self.wake.send_replace(epoch);
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

impl State {
    fn current_rv(&self, applied: u64) -> u64 {
        let least = self.record.least_rv();
        match (self.record.opened, self.record.gate.frozen) {
            (None, _) => least,
            (Some(_), None) => least.max(applied),
            (Some(_), Some(frozen)) => least.max(frozen),
        }
    }

    fn raise_horizon(&mut self, horizon: u64) {
        if self.record.effective_horizon() < horizon {
            self.record.horizon = Some(horizon);
        }
    }

    /// Forgets everything, for a reset.
    fn forget(&mut self, shared: &Shared) {
        self.contents = Contents::new(Arc::clone(&shared.indexed_labels));
        self.ring = Ring::new(shared.ring_limits, 0);
        self.replayed = HashMap::new();
        self.end_cursors();
    }

    fn end_cursors(&mut self) {
        self.last_epoch += 1;
        self.epoch = self.last_epoch;
    }

    /// Applies one change; returns its event if it makes one.
    fn change(&mut self, change: Change) -> Option<Arc<Event>> {
        let Change {
            type_,
            effect,
            seq,
            object,
            previous,
        } = change;
        let present = self.contents.get(&object.key).cloned();
        match (effect, type_) {
            (Effect::Event, _) => {}
            (_, EventType::Deleted) => {
                self.contents.remove(&object.key);
            }
            (_, EventType::Added | EventType::Modified) => {
                self.contents.put(Arc::clone(&object));
            }
        }
        if effect == Effect::State {
            return None;
        }
        let previous = match previous {
            PreviousRef::None => Previous::None,
            PreviousRef::Unknown => Previous::Unknown,
            PreviousRef::Labels(labels) => Previous::Labels(labels),
            PreviousRef::At { rv, labels } => [present.as_ref(), self.replayed.get(&object.key)]
                .into_iter()
                .flatten()
                .find(|o| o.rv == rv)
                .map_or(Previous::Labels(labels), |o| Previous::Known(Arc::clone(o))),
        };
        if effect == Effect::Event {
            self.replayed
                .insert(object.key.clone(), Arc::clone(&object));
        }
        self.record.newest_logged = object.rv;
        let event = Arc::new(Event::new(type_, seq, object, previous));
        self.ring.push(Arc::clone(&event));
        Some(event)
    }
}
