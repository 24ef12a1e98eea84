//! Changes of a resource by the committer, in commit order.

use std::collections::HashMap;
use std::sync::Arc;

use crds::control::GateState;

use super::Resource;
use crate::cache::ring::Ring;
use crate::cache::snapshot::Contents;
use crate::cache::{Change, Event};
use crate::model::{ResourceRecord, StoredObject};

impl Resource {
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
}
