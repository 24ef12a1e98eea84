//! Every write of the harness, and its outcome.
//!
//! Each object counts its writes: [`Op::seq`] rises by one from write to write, also over a
//! deletion and a new object under the same name. The number and the unique id of the write are in
//! the object itself, so that an event is told apart from any other whatever uid and version it
//! has.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use testreports::ReportKind;

/// Kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Kind.
    pub kind: ReportKind,
    /// Namespace; empty for a kind of the cluster.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The object is created.
    Create,
    /// The object is changed.
    Update,
    /// The object is deleted; the sequence number of the deleted state.
    Delete(u64),
}

/// The known outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// No answer yet.
    Pending,
    /// Done.
    Acknowledged,
    /// Done or not: there was no answer, or no clear one.
    Doubted,
    /// Not done.
    Refused,
}

/// One write.
#[derive(Clone, Debug)]
pub struct Op {
    /// Unique in the run; rises from write to write.
    pub id: u64,
    /// Number among the writes of the object.
    pub seq: u64,
    /// The kind of the write.
    pub what: What,
    /// The known outcome.
    pub fate: Fate,
    /// Content that was acknowledged.
    pub content: String,
    /// The time of the answer.
    pub ended: Option<Instant>,
}

/// The state that must be stored under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// This write.
    Present {
        /// See [`Op::id`].
        id: u64,
        /// See [`Op::seq`].
        seq: u64,
        /// See [`Op::content`].
        content: String,
    },
    /// Nothing.
    Absent,
    /// Nobody can say.
    Unknown,
}

/// The writes of one object, in the order in which they were begun.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// True when it has the label that watchers select.
    pub selected: bool,
    /// The writes.
    pub ops: Vec<Op>,
}

impl History {
    /// Returns the acknowledged write with the highest number.
    fn last_acknowledged(&self) -> Option<&Op> {
        let acknowledged = self.ops.iter().filter(|op| op.fate == Fate::Acknowledged);
        acknowledged.max_by_key(|op| op.seq)
    }

    /// Returns the writes in words, each with the time since its answer.
    #[must_use]
    pub fn told(&self) -> String {
        let told = self.ops.iter().map(|op| {
            let ago = op.ended.map(|at| at.elapsed().as_secs_f64());
            let ago = ago.map_or_else(String::new, |ago| format!(" {ago:.1} s ago"));
            format!("{:?} {:?}{ago}", op.what, op.fate)
        });
        told.collect::<Vec<_>>().join(", ")
    }

    /// Returns the state that must be stored once nothing is pending.
    #[must_use]
    pub fn expected(&self) -> Expected {
        let last = self.last_acknowledged();
        let seq = last.map_or(0, |op| op.seq);
        let open = |op: &&Op| matches!(op.fate, Fate::Doubted | Fate::Pending);
        if self.ops.iter().filter(open).any(|op| op.seq > seq) {
            return Expected::Unknown;
        }
        match last {
            None => Expected::Absent,
            Some(op) if matches!(op.what, What::Delete(_)) => Expected::Absent,
            Some(op) => Expected::Present {
                id: op.id,
                seq,
                content: op.content.clone(),
            },
        }
    }

    /// Returns whether the object may be absent for a reader that began when `floor` was the last
    /// acknowledged write.
    fn may_be_absent(&self, floor: Floor) -> bool {
        let goes = |op: &Op| matches!(op.what, What::Delete(_)) && op.fate != Fate::Refused;
        floor.deleted || self.ops.iter().any(|op| op.seq > floor.seq && goes(op))
    }
}

/// The last write of an object that was acknowledged before a reader began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    seq: u64,
    deleted: bool,
}

/// The place of a write that gets its name from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Named,
    Unnamed,
    /// It was never answered, so its name will not be known.
    Lost,
}

#[derive(Default)]
struct Inner {
    next: u64,
    objects: HashMap<Key, History>,
    places: HashMap<u64, (Place, Option<Key>)>,
    background: BTreeMap<Key, String>,
    versions: HashMap<ReportKind, u64>,
}

/// The ledger of writes. See the module.
#[derive(Default)]
pub struct Ledger {
    inner: Mutex<Inner>,
}

/// The identity of an event or an object, as it is written in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// See [`Op::seq`].
    pub seq: u64,
    /// See [`Op::id`].
    pub id: u64,
}

impl Ledger {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the objects that existed before the harness, with their contents.
    pub fn set_background(&self, objects: BTreeMap<Key, String>) {
        self.inner().background = objects;
    }

    /// Returns these objects. See [`Ledger::set_background`].
    #[must_use]
    pub fn background(&self) -> BTreeMap<Key, String> {
        self.inner().background.clone()
    }

    /// Returns the newest id so far.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.inner().next
    }

    /// Begins a write of this object, under the next number.
    pub fn begin(&self, key: &Key, what: What, selected: bool) -> Stamp {
        let mut inner = self.inner();
        let last = inner.objects.get(key);
        let last = last.and_then(|history| history.ops.iter().map(|op| op.seq).max());
        inner.begin(key, what, last.unwrap_or_default() + 1, selected)
    }

    /// Begins a write of this object that makes it `seq`, whatever was tried before.
    pub fn begin_at(&self, key: &Key, what: What, seq: u64, selected: bool) -> Stamp {
        self.inner().begin(key, what, seq, selected)
    }

    /// Begins a write that gets its name from the server.
    pub fn begin_unnamed(&self) -> Stamp {
        let mut inner = self.inner();
        inner.next += 1;
        let id = inner.next;
        inner.places.insert(id, (Place::Unnamed, None));
        Stamp { seq: 1, id }
    }

    /// Notes the name that the server assigned, with its acknowledgement.
    pub fn named(&self, stamp: Stamp, key: &Key, content: String, selected: bool) {
        let mut inner = self.inner();
        inner
            .places
            .insert(stamp.id, (Place::Named, Some(key.clone())));
        let history = inner.objects.entry(key.clone()).or_default();
        history.selected = selected;
        history.ops.push(Op {
            id: stamp.id,
            seq: stamp.seq,
            what: What::Create,
            fate: Fate::Acknowledged,
            content,
            ended: Some(Instant::now()),
        });
    }

    /// Notes that the server will not tell the name of this write: `done` or not, as far as is
    /// known.
    pub fn unnamed(&self, stamp: Stamp, fate: Fate) {
        let place = if fate == Fate::Refused {
            None
        } else {
            Some((Place::Lost, None))
        };
        let mut inner = self.inner();
        match place {
            Some(place) => inner.places.insert(stamp.id, place),
            None => inner.places.remove(&stamp.id),
        };
    }

    /// Notes the outcome of a write.
    pub fn end(&self, key: &Key, stamp: Stamp, fate: Fate, content: String) {
        let mut inner = self.inner();
        let ops = inner.objects.get_mut(key).map(|history| &mut history.ops);
        if let Some(op) = ops.and_then(|ops| ops.iter_mut().rev().find(|op| op.id == stamp.id)) {
            op.fate = fate;
            op.content = content;
            op.ended = Some(Instant::now());
        }
    }

    /// Raises the version that a list begun from now on must have.
    pub fn answered_at(&self, kind: ReportKind, version: u64) {
        let mut inner = self.inner();
        let known = inner.versions.entry(kind).or_default();
        *known = version.max(*known);
    }

    /// Returns this version. See [`Ledger::answered_at`].
    #[must_use]
    pub fn version_floor(&self, kind: ReportKind) -> u64 {
        self.inner()
            .versions
            .get(&kind)
            .copied()
            .unwrap_or_default()
    }

    /// Returns the acknowledged state of the objects of a kind in a namespace, or in all.
    #[must_use]
    pub fn floors(&self, kind: ReportKind, namespace: Option<&str>) -> HashMap<Key, Floor> {
        let inner = self.inner();
        let within = inner.objects.iter().filter(|(key, _)| {
            key.kind == kind && namespace.is_none_or(|namespace| key.namespace == namespace)
        });
        within
            .filter_map(|(key, history)| {
                let last = history.last_acknowledged()?;
                let deleted = matches!(last.what, What::Delete(_));
                let seq = last.seq;
                Some((key.clone(), Floor { seq, deleted }))
            })
            .collect()
    }

    /// Returns whether the state that a reader found of an object is as new as the floor it began
    /// with.
    #[must_use]
    pub fn fresh(&self, key: &Key, floor: Floor, found: Option<Stamp>) -> bool {
        match found {
            Some(found) if floor.deleted => found.seq > floor.seq,
            Some(found) => found.seq >= floor.seq,
            None => {
                let inner = self.inner();
                let history = inner.objects.get(key);
                history.is_none_or(|history| history.may_be_absent(floor))
            }
        }
    }

    /// Returns whether this write was begun, and on this object as far as is known.
    #[must_use]
    pub fn knows(&self, key: &Key, stamp: Stamp) -> bool {
        match self.inner().places.get(&stamp.id) {
            None => false,
            Some((_, None)) => true,
            Some((_, Some(of))) => of == key,
        }
    }

    /// Returns the deletion of the state with this sequence number; the newest where one was tried
    /// again.
    #[must_use]
    pub fn deletion(&self, key: &Key, of: u64) -> Option<Op> {
        let inner = self.inner();
        let ops = &inner.objects.get(key)?.ops;
        let deletes = |op: &&Op| op.what == What::Delete(of) && op.fate != Fate::Refused;
        ops.iter().rev().find(deletes).cloned()
    }

    /// Returns whether the object may have been deleted, once or more, since it had this number.
    #[must_use]
    pub fn deleted_since(&self, key: &Key, seq: u64) -> bool {
        let inner = self.inner();
        let Some(history) = inner.objects.get(key) else {
            return false;
        };
        let deletes =
            |op: &Op| matches!(op.what, What::Delete(of) if of >= seq) && op.fate != Fate::Refused;
        history.ops.iter().any(deletes)
    }

    /// Notes that writes of this object gave way to others: the state that was found counts from
    /// now on, and of several writes with the same number one.
    pub fn gave_way(&self, key: &Key, found: Option<Stamp>) {
        let mut inner = self.inner();
        let Some(history) = inner.objects.get_mut(key) else {
            return;
        };
        let kept = found.map_or(0, |found| found.seq);
        let mut numbers = HashSet::from([kept]);
        for op in history.ops.iter_mut().rev() {
            if op.fate != Fate::Acknowledged || found.is_some_and(|found| found.id == op.id) {
                continue;
            }
            let after = match found {
                Some(_) => op.seq > kept,
                None => !matches!(op.what, What::Delete(_)),
            };
            if after || !numbers.insert(op.seq) {
                op.fate = Fate::Refused;
            }
        }
    }

    /// Calls `each` with every object.
    pub fn each(&self, mut each: impl FnMut(&Key, &History)) {
        for (key, history) in &self.inner().objects {
            each(key, history);
        }
    }

    /// Returns the state that must be stored under a name; `None` where the harness never wrote.
    #[must_use]
    pub fn expected(&self, key: &Key) -> Option<Expected> {
        self.inner().objects.get(key).map(History::expected)
    }

    /// Returns the number of acknowledged writes.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        let inner = self.inner();
        let ops = inner.objects.values().flat_map(|history| &history.ops);
        ops.filter(|op| op.fate == Fate::Acknowledged).count() as u64
    }
}

impl Inner {
    fn begin(&mut self, key: &Key, what: What, seq: u64, selected: bool) -> Stamp {
        self.next += 1;
        let id = self.next;
        self.places.insert(id, (Place::Named, Some(key.clone())));
        let history = self.objects.entry(key.clone()).or_default();
        history.selected = selected;
        history.ops.push(Op {
            id,
            seq,
            what,
            fate: Fate::Pending,
            content: String::new(),
            ended: None,
        });
        Stamp { seq, id }
    }
}

#[cfg(test)]
mod tests;
