//! Items of a mirror: they keep their etcd versions.

use crds::control::ImportType;

use super::{LastEvent, Mark, Planner, event_type};
use crate::cache::{Effect, EventType, PreviousRef};
use crate::model::{Labels, ObjectKey};
use crate::store::engine::ImportEntry;

impl Planner {
    pub(super) fn mirror(&mut self, entry: ImportEntry) {
        match entry.type_ {
            ImportType::Object => self.listed(entry),
            ImportType::Added | ImportType::Modified | ImportType::Deleted => self.event(entry),
        }
    }

    /// Applies state from a listing, unless something newer is known.
    fn listed(&mut self, entry: ImportEntry) {
        let ImportEntry {
            key,
            uid,
            rv,
            object,
            ..
        } = entry;
        let stored = self.view.objects.get(&key).map(|o| o.rv);
        let last = self.view.events.get(&key).map(|e| e.rv);
        let Some(object) = object else {
            return self.unchanged();
        };
        if stored.max(last).is_some_and(|known| known >= rv) {
            return self.unchanged();
        }
        let type_ = if stored.is_some() {
            EventType::Modified
        } else {
            EventType::Added
        };
        self.log(
            (type_, Effect::State),
            &key,
            rv,
            object,
            PreviousRef::Unknown,
        );
        self.mark(&key, Some(Mark { uid, rv }));
        self.plan.record.newest_imported = self.plan.record.newest_imported.max(rv);
    }

    /// Applies an event of the watch. Events come in order, so one that is not newer than the
    /// newest is known. One that is older than a listing has been applied by it, but was not logged
    /// yet.
    fn event(&mut self, entry: ImportEntry) {
        let ImportEntry {
            type_,
            key,
            uid,
            rv,
            object,
        } = entry;
        let Some(object) = object else {
            return self.unchanged();
        };
        if rv <= self.plan.record.newest_logged {
            return self.unchanged();
        }
        let type_ = event_type(type_);
        let stale = self.view.objects.get(&key).is_some_and(|o| o.rv >= rv);
        let effect = if stale {
            Effect::Event
        } else {
            Effect::EventAndState
        };
        let previous = self.previous(type_, &key, rv, &object.labels);
        let deleted = type_ == EventType::Deleted;
        let last = LastEvent {
            rv,
            deleted,
            labels: object.labels.clone(),
        };
        self.log((type_, effect), &key, rv, object, previous);
        self.view.events.insert(key.clone(), last.clone());
        self.plan.events.insert(key.clone(), last);

        let newer = self.view.marks.get(&key).is_some_and(|m| m.rv >= rv);
        if !newer {
            self.mark(&key, (!deleted).then_some(Mark { uid, rv }));
        }
        let record = &mut self.plan.record;
        record.newest_logged = rv;
        record.mirrored = record.mirrored.max(rv);
        record.newest_imported = record.newest_imported.max(rv);
    }

    /// Returns the state before an event: the stored one, unless a listing brought that later; then
    /// the state that the event before it brought.
    fn previous(&self, type_: EventType, key: &ObjectKey, rv: u64, labels: &Labels) -> PreviousRef {
        if type_ == EventType::Added {
            return PreviousRef::None;
        }
        if let Some(stored) = self.view.objects.get(key).filter(|o| o.rv < rv) {
            return stored.reference();
        }
        match self.view.events.get(key) {
            Some(last) if !last.deleted => PreviousRef::At {
                rv: last.rv,
                labels: last.labels.clone(),
            },
            // A deletion carries the last state.
            _ if type_ == EventType::Deleted => PreviousRef::Labels(labels.clone()),
            _ => PreviousRef::Unknown,
        }
    }
}
