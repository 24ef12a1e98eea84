//! The content of a resource: its record, its objects and its recent events.

use std::collections::HashMap;
use std::sync::Arc;

use super::shared::Shared;
use crate::cache::ring::Ring;
use crate::cache::snapshot::Contents;
use crate::cache::{Change, Effect, Event, EventType, Previous, PreviousRef};
use crate::model::{ObjectKey, ResourceRecord, StoredObject};

/// The part of a resource that readers and the committer lock.
pub(super) struct State {
    pub(super) record: ResourceRecord,
    pub(super) contents: Contents,
    pub(super) ring: Ring,
    /// Last object of each key that only an event brought, until the resource is opened: the
    /// state before the next such event.
    pub(super) replayed: HashMap<ObjectKey, Arc<StoredObject>>,
    /// The present epoch; cursors of an earlier one have ended.
    pub(super) epoch: u64,
    /// An epoch; cursors of an earlier one get the events that are left, and have ended then: no
    /// event comes any more.
    pub(super) last_epoch: u64,
}

impl State {
    pub(super) fn current_rv(&self, applied: u64) -> u64 {
        let least = self.record.least_rv();
        match (self.record.opened, self.record.gate.frozen) {
            (None, _) => least,
            (Some(_), None) => least.max(applied),
            (Some(_), Some(frozen)) => least.max(frozen),
        }
    }

    pub(super) fn raise_horizon(&mut self, horizon: u64) {
        if self.record.effective_horizon() < horizon {
            self.record.horizon = Some(horizon);
        }
    }

    /// Forgets everything, for a reset.
    pub(super) fn forget(&mut self, shared: &Shared) {
        self.contents = Contents::new(Arc::clone(&shared.indexed_labels));
        self.ring = Ring::new(shared.ring_limits, 0);
        self.replayed = HashMap::new();
        self.end_cursors();
    }

    pub(super) fn end_cursors(&mut self) {
        self.last_epoch += 1;
        self.epoch = self.last_epoch;
    }

    /// Applies one change; returns its event if it makes one.
    pub(super) fn change(&mut self, change: Change) -> Option<Arc<Event>> {
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
