//! The events that one watcher sees, compared with the writes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::ledger::{Expected, Fate, Key, Ledger, Op, Stamp, What};
use super::tally::{Flaw, Moment, Note, Tally};
use testreports::ReportKind;

/// Type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// ADDED.
    Added,
    /// MODIFIED.
    Modified,
    /// DELETED.
    Deleted,
}

/// One event, or an object of an initial list.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The key of the object.
    pub key: Key,
    /// The resourceVersion.
    pub version: u64,
    /// The stamp; `None` for an object that the harness did not write.
    pub stamp: Option<Stamp>,
}

/// The source of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A watch.
    Watch,
    /// A `RetryWatcher` of client-go, which ends at the first 410.
    RetryWatcher,
    /// An informer of client-go, which reports the state of its cache instead of every event.
    Informer,
}

/// The properties of a watcher.
#[derive(Clone, Debug)]
pub struct Nature {
    /// The name for messages.
    pub name: String,
    /// The kind that it watches.
    pub kind: ReportKind,
    /// True when it sees selected objects alone.
    pub selected: bool,
    /// True when it gets bookmarks.
    pub bookmarks: bool,
    /// The source of the events.
    pub source: Source,
    /// The index of its kube-apiserver.
    pub apiserver: usize,
}

#[derive(Default)]
struct Inner {
    started: bool,
    listed: Vec<Seen>,
    last: u64,
    /// The time at which it last learned of a version.
    heard: Option<Instant>,
    cache: HashMap<Key, Option<Stamp>>,
    versions: HashMap<Key, u64>,
    seen: HashSet<u64>,
    /// Deletions that were acknowledged when it asked for a list.
    gone: Option<HashMap<Key, u64>>,
    /// Writes that the last list may have come before or after.
    uncertain: HashSet<u64>,
    told: HashSet<u64>,
    /// True when it has listed again since the last check.
    listed_again: bool,
    given_up: HashSet<Key>,
}

/// An observer of one watcher. See the module.
pub struct Observer {
    /// The properties of the watcher.
    pub nature: Nature,
    ledger: Arc<Ledger>,
    tally: Arc<Tally>,
    inner: Mutex<Inner>,
}

impl Observer {
    /// Returns an observer of a watcher that has not begun.
    #[must_use]
    pub fn new(nature: Nature, ledger: Arc<Ledger>, tally: Arc<Tally>) -> Self {
        Self {
            nature,
            ledger,
            tally,
            inner: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flaw(&self, flaw: Flaw, text: impl FnOnce() -> String) {
        let name = &self.nature.name;
        self.tally.flaw(flaw, || format!("{name}: {}", text()));
    }

    fn flaw_of(&self, flaw: Flaw, key: &Key, text: impl FnOnce() -> String) {
        let name = &self.nature.name;
        self.tally
            .flaw_of(flaw, key, || format!("{name}: {}", text()));
    }

    /// Returns whether it is told the state of a cache.
    fn level(&self) -> bool {
        self.nature.source == Source::Informer
    }

    /// Returns whether it has its initial state.
    #[must_use]
    pub fn started(&self) -> bool {
        self.inner().started
    }

    /// Notes that it asks for a list: of an object that is being deleted meanwhile, the list may
    /// show nothing yet or nothing any more.
    pub fn asks(&self) {
        let mut gone = HashMap::new();
        self.ledger.each(|key, history| {
            let known = history
                .ops
                .iter()
                .filter(|op| matches!(op.what, What::Delete(_)) && op.fate == Fate::Acknowledged);
            if let Some(seq) = known.map(|op| op.seq).max() {
                gone.insert(key.clone(), seq);
            }
        });
        self.inner().gone = Some(gone);
    }

    /// Notes an object of the initial state, or of that after it lost its place.
    pub fn listed(&self, seen: Seen) {
        self.inner().listed.push(seen);
    }

    /// Notes that the initial state is complete, and is of this version.
    pub fn begun(&self, version: u64) {
        let mut inner = self.inner();
        let listed: HashMap<Key, Option<Stamp>> = inner
            .listed
            .drain(..)
            .map(|seen| (seen.key, seen.stamp))
            .collect();
        if version < inner.last {
            let last = inner.last;
            self.flaw(Flaw::OutOfOrder, || {
                format!("a list at {version} after {last}")
            });
        }
        inner.last = version.max(inner.last);
        inner.heard = Some(Instant::now());
        inner.started = true;
        self.pass_over(&mut inner, &listed);
        inner.cache = listed;
    }

    /// Marks the objects of a list, which are not to be seen any more.
    fn pass_over(&self, inner: &mut Inner, listed: &HashMap<Key, Option<Stamp>>) {
        let mut passed = Vec::new();
        let gone = inner.gone.take();
        let mut uncertain = HashSet::new();
        self.ledger.each(|key, history| {
            if !self.sees(key, history.selected) {
                return;
            }
            let shown = listed.get(key).copied().flatten();
            let deletions = history
                .ops
                .iter()
                .filter(|op| matches!(op.what, What::Delete(_)) && op.fate != Fate::Refused);
            let upto = shown.map_or_else(
                || deletions.map(|op| op.seq).max().unwrap_or_default(),
                |stamp| stamp.seq,
            );
            let sure = match (shown, &gone) {
                (None, Some(gone)) => gone.get(key).copied().unwrap_or_default(),
                _ => upto,
            };
            let between = |op: &&Op| sure < op.seq && op.seq <= upto;
            uncertain.extend(history.ops.iter().filter(between).map(|op| op.id));
            passed.extend(
                history
                    .ops
                    .iter()
                    .filter(|op| op.seq <= upto)
                    .map(|op| op.id),
            );
        });
        inner.seen.extend(passed);
        inner.uncertain = uncertain;
    }

    fn sees(&self, key: &Key, selected: bool) -> bool {
        key.kind == self.nature.kind && (selected || !self.nature.selected)
    }

    /// Notes a bookmark.
    pub fn bookmark(&self, version: u64) {
        let mut inner = self.inner();
        if version < inner.last {
            let last = inner.last;
            self.flaw(Flaw::OutOfOrder, || {
                format!("a bookmark at {version} after {last}")
            });
        }
        inner.last = version.max(inner.last);
        inner.heard = Some(Instant::now());
    }

    /// Notes an event.
    pub fn event(&self, type_: EventType, seen: &Seen) {
        self.tally.note(Note::Events);
        let mut inner = self.inner();
        inner.given_up.remove(&seen.key);
        inner.heard = Some(Instant::now());
        self.order(&mut inner, type_, seen);
        match type_ {
            EventType::Deleted => self.deleted(&mut inner, seen),
            EventType::Added | EventType::Modified => self.written(&mut inner, type_, seen),
        }
    }

    fn order(&self, inner: &mut Inner, type_: EventType, seen: &Seen) {
        // What an informer says of a deletion may be the object as it was before.
        if self.level() {
            let last = inner.versions.get(&seen.key).copied().unwrap_or_default();
            let known = inner.listed_again && inner.cache.get(&seen.key) == Some(&seen.stamp);
            let merged = known && self.tally.was_merged(&seen.key);
            if type_ != EventType::Deleted && seen.version <= last && !merged {
                self.flaw_of(Flaw::OutOfOrder, &seen.key, || {
                    format!("{type_:?} {seen:?} after {last}")
                });
            }
            inner.versions.insert(seen.key.clone(), seen.version);
            return;
        }
        if seen.version <= inner.last {
            let last = inner.last;
            self.flaw_of(Flaw::OutOfOrder, &seen.key, || {
                format!("{type_:?} {seen:?} after version {last}")
            });
        }
        inner.last = seen.version.max(inner.last);
    }

    fn written(&self, inner: &mut Inner, type_: EventType, seen: &Seen) {
        let before = inner.cache.insert(seen.key.clone(), seen.stamp);
        let Some(stamp) = seen.stamp else {
            // An informer that lists again compares versions, and etcd gives new ones to what is
            // written back.
            if self.level() && type_ == EventType::Modified && before == Some(None) {
                return;
            }
            self.flaw_of(Flaw::Phantom, &seen.key, || {
                format!("{type_:?} {seen:?}, which nobody writes")
            });
            return;
        };
        if !self.ledger.knows(&seen.key, stamp) {
            self.flaw_of(Flaw::Phantom, &seen.key, || {
                format!("{type_:?} {seen:?}, which nobody wrote")
            });
            return;
        }
        // As above, of what is written.
        if inner.listed_again && type_ == EventType::Modified && before == Some(Some(stamp)) {
            return;
        }
        if !inner.seen.insert(stamp.id) && !inner.uncertain.remove(&stamp.id) {
            self.flaw_of(Flaw::Duplicated, &seen.key, || {
                format!("{type_:?} {seen:?} again")
            });
            return;
        }
        let known = before.flatten().map_or(0, |stamp| stamp.seq);
        if stamp.seq <= known {
            self.flaw_of(Flaw::OutOfOrder, &seen.key, || {
                format!("{type_:?} {seen:?} after number {known}")
            });
            return;
        }
        let was_there = before.is_some();
        if was_there != (type_ == EventType::Modified) {
            self.flaw_of(Flaw::Phantom, &seen.key, || {
                let there = if was_there {
                    "is there"
                } else {
                    "is not there"
                };
                format!("{type_:?} {seen:?} of an object that {there}")
            });
        }
    }

    fn deleted(&self, inner: &mut Inner, seen: &Seen) {
        let known = inner.cache.remove(&seen.key);
        let Some(stamp) = seen.stamp else {
            self.flaw_of(Flaw::Phantom, &seen.key, || {
                format!("Deleted {seen:?}, which nobody deletes")
            });
            return;
        };
        if self.level() {
            if !self.ledger.deleted_since(&seen.key, stamp.seq) {
                self.flaw_of(Flaw::Phantom, &seen.key, || {
                    format!("Deleted {seen:?} lives on")
                });
            }
            return;
        }
        let Some(deletion) = self.ledger.deletion(&seen.key, stamp.seq) else {
            self.flaw_of(Flaw::Phantom, &seen.key, || {
                format!("Deleted {seen:?} lives on")
            });
            return;
        };
        if !inner.seen.insert(deletion.id) && !inner.uncertain.remove(&deletion.id) {
            self.flaw_of(Flaw::Duplicated, &seen.key, || {
                format!("Deleted {seen:?} again")
            });
        } else if known.is_none() {
            self.flaw_of(Flaw::OutOfOrder, &seen.key, || {
                format!("Deleted {seen:?} of an object that is not there")
            });
        }
    }

    /// Notes that it met a 410, or had to list again for another reason.
    pub fn expired(&self, why: &str) {
        let moment = self.tally.moment();
        self.inner().listed_again = self.level();
        if !self.nature.bookmarks {
            self.tally.note(Note::ExpiredWithoutBookmarks);
        } else if self.apiserver_restarted(moment) {
            self.tally.note(Note::ExpiredAfterRestart);
        } else if self.level() && moment.disturbed {
            self.tally.note(Note::ListedAgainInDisturbedRounds);
        } else {
            let flaw = if self.nature.source == Source::RetryWatcher {
                Flaw::RetryWatcherDead
            } else {
                Flaw::ExpiredWithBookmarks
            };
            let name = &self.nature.name;
            self.tally.suspect(flaw, None, || format!("{name}: {why}"));
        }
    }

    /// Returns whether its kube-apiserver was started anew in this round, or since it last learned of
    /// a version, which such a kube-apiserver does not know.
    fn apiserver_restarted(&self, moment: Moment) -> bool {
        let own = self.nature.apiserver;
        let heard = self.inner().heard;
        moment.restarted == Some(own)
            || heard.is_some_and(|heard| self.tally.restarted_since(own, heard))
    }

    /// Returns whether it knows all stored objects, as far as that is sure and was not counted.
    #[must_use]
    pub fn settled(&self) -> bool {
        let inner = self.inner();
        let mut settled = inner.started;
        self.ledger.each(|key, history| {
            let counts = self.sees(key, history.selected) && !inner.given_up.contains(key);
            if settled && counts {
                settled = agrees(&history.expected(), inner.cache.get(key).copied().flatten());
            }
        });
        settled
    }

    /// Counts the writes that it did not see, each once.
    pub fn settle(&self) {
        let mut inner = self.inner();
        inner.listed_again = false;
        let (mut missing, mut given_up) = (Vec::new(), Vec::new());
        self.ledger.each(|key, history| {
            if !self.sees(key, history.selected) {
                return;
            }
            let expected = history.expected();
            let held = inner.cache.get(key).copied().flatten();
            let agrees = agrees(&expected, held);
            if !agrees {
                given_up.push(key.clone());
            }
            if self.level() && agrees {
                return;
            }
            let acknowledged = |op: &&Op| op.fate == Fate::Acknowledged;
            let mut ops: Vec<&Op> = history.ops.iter().filter(acknowledged).collect();
            if self.level() {
                ops.sort_by_key(|op| op.seq);
                ops.drain(..ops.len().saturating_sub(1));
            }
            for op in ops {
                let seen = inner.seen.contains(&op.id) && !self.level();
                if !seen && !inner.told.contains(&op.id) {
                    missing.push((op.id, key.clone(), op.seq, op.what, held));
                }
            }
        });
        inner.given_up.extend(given_up);
        for (id, key, seq, what, held) in missing {
            inner.told.insert(id);
            self.flaw_of(Flaw::Missed, &key, || {
                format!("{what:?} number {seq} (write {id}) of {key:?}; it holds {held:?}")
            });
        }
    }
}

/// Returns whether a cache has the stored object.
fn agrees(expected: &Expected, held: Option<Stamp>) -> bool {
    match expected {
        Expected::Unknown => true,
        Expected::Absent => held.is_none(),
        Expected::Present { id, .. } => held.is_some_and(|stamp| stamp.id == *id),
    }
}

#[cfg(test)]
mod tests;
