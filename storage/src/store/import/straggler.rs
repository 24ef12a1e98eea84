//! Writes that reached etcd unseen, after the switch.

use crds::control::{DigestItem, ImportType};

use super::{Mark, Planner, event_type};
use crate::cache::{Effect, EventType, PreviousRef};
use crate::store::decide::Existing;
use crate::store::engine::ImportEntry;

impl Planner {
    /// Applies an unseen write with a version of our own, unless a write of ours is newer.
    pub(super) fn straggler(&mut self, entry: ImportEntry) {
        match entry.type_ {
            ImportType::Deleted => self.unseen_deletion(entry),
            ImportType::Object | ImportType::Added | ImportType::Modified => {
                self.unseen_state(entry);
            }
        }
    }

    fn unseen_state(&mut self, entry: ImportEntry) {
        let mark = self.view.marks.get(&entry.key);
        if mark.is_some_and(|m| m.uid == entry.uid && m.rv >= entry.rv || m.uid.is_empty()) {
            return self.unchanged();
        }
        let stored = self.view.objects.get(&entry.key);
        // What was imported and is not stored any more was deleted here.
        let deleted_here = stored.is_none() && mark.is_some_and(|m| m.uid == entry.uid);
        if self.is_ours(&entry) || deleted_here {
            return self.conflict(&entry);
        }
        // An object that was created anew under the same name is a change of uid in one event:
        // what a client sees that lists again.
        let (type_, previous) = match stored {
            None => (EventType::Added, PreviousRef::None),
            Some(stored) => (EventType::Modified, stored.reference()),
        };
        let mark = Mark {
            uid: entry.uid.clone(),
            rv: entry.rv,
        };
        let key = entry.key.clone();
        self.write(type_, entry, previous);
        self.mark(&key, Some(mark));
    }

    fn unseen_deletion(&mut self, entry: ImportEntry) {
        let key = entry.key.clone();
        let stored = self.view.objects.get(&key);
        let previous = stored
            .filter(|o| o.uid == entry.uid)
            .map(Existing::reference);
        let Some(previous) = previous else {
            // Gone on both sides; only the mark of the copy is left.
            return self.pruned(&entry);
        };
        if self.is_ours(&entry) {
            return self.conflict(&entry);
        }
        let type_ = event_type(entry.type_);
        self.write(type_, entry, previous);
        if self.view.marks.contains_key(&key) {
            self.mark(&key, None);
        }
    }

    /// Logs an ordinary write.
    fn write(&mut self, type_: EventType, entry: ImportEntry, previous: PreviousRef) {
        let Some(object) = entry.object else {
            return self.unchanged();
        };
        self.plan.position.counter += 1;
        let rv = self.plan.position.counter;
        self.log(
            (type_, Effect::EventAndState),
            &entry.key,
            rv,
            object,
            previous,
        );
        self.plan.record.newest_logged = rv;
    }

    /// Returns whether a write of ours has touched the key.
    fn is_ours(&self, entry: &ImportEntry) -> bool {
        let stored = self.view.objects.get(&entry.key);
        stored.is_some_and(|o| !o.as_imported) || self.view.ours.contains(&entry.key)
    }

    fn conflict(&mut self, entry: &ImportEntry) {
        self.plan.outcome.conflicts.push(DigestItem {
            namespace: entry.key.namespace().to_owned(),
            name: entry.key.name().to_owned(),
            uid: entry.uid.clone(),
            resource_version: entry.rv.to_string(),
            ..DigestItem::default()
        });
    }
}
