//! The effect of an import on the stored state. Pure, like [`super::decide`]; the rules are those
//! of [`crds::control::ImportMode`].

mod mirror;
mod straggler;

use std::collections::{HashMap, HashSet};

use crds::control::{GateState, ImportMode, ImportType};

use super::decide::{Existing, Logged};
use super::engine::{ImportChunk, ImportEntry, ImportOutcome, Refusal};
use crate::cache::{Effect, EventType, PreviousRef};
use crate::model::{Encoded, Labels, ObjectKey, Position, ResourceRecord};

/// An etcd copy that was imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The uid; empty where a copy was about to be made, and has not been reported since.
    pub uid: String,
    pub rv: u64,
}

impl Mark {
    /// Returns whether it may stand for a copy with this uid.
    fn is_of(&self, uid: &str) -> bool {
        self.uid.is_empty() || self.uid == uid
    }
}

/// The last imported event of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastEvent {
    pub rv: u64,
    pub deleted: bool,
    pub labels: Labels,
}

/// The stored state of the keys of a chunk, as the transaction sees it.
#[derive(Debug, Default)]
pub(super) struct View {
    pub objects: HashMap<ObjectKey, Existing>,
    pub marks: HashMap<ObjectKey, Mark>,
    pub events: HashMap<ObjectKey, LastEvent>,
    /// Keys that a write of ours has touched since the gate was opened, as far as the change log
    /// knows. Needed for stragglers only.
    pub ours: HashSet<ObjectKey>,
}

/// The changes that the transaction has to write.
#[derive(Debug)]
pub(super) struct Plan {
    pub position: Position,
    pub record: ResourceRecord,
    pub logged: Vec<Logged>,
    /// Marks that were set, or removed where there is none.
    pub marks: HashMap<ObjectKey, Option<Mark>>,
    /// Last events that were set.
    pub events: HashMap<ObjectKey, LastEvent>,
    pub outcome: ImportOutcome,
}

/// Decides on a chunk, in its order.
pub(super) fn plan(
    chunk: ImportChunk,
    view: View,
    record: ResourceRecord,
    position: Position,
) -> Result<Plan, Refusal> {
    record
        .gate
        .check_fence(chunk.fence)
        .map_err(|refusal| refusal.to_string())?;
    admit(chunk.mode, &record)?;
    let had_events = record.newest_logged > 0;
    let plan = Plan {
        position,
        record,
        logged: Vec::new(),
        marks: HashMap::new(),
        events: HashMap::new(),
        outcome: ImportOutcome::default(),
    };
    let mut planner = Planner { view, plan };
    for entry in chunk.items {
        match chunk.mode {
            ImportMode::Mirror | ImportMode::Reset => planner.mirror(entry),
            ImportMode::Straggler => planner.straggler(entry),
            ImportMode::Pruned => planner.pruned(&entry),
            ImportMode::WrittenBack => planner.written_back(entry),
        }
    }
    let mut plan = planner.plan;
    if let Some(progress) = chunk.progress {
        plan.record.mirrored = plan.record.mirrored.max(progress);
    }
    if let Some(horizon) = chunk.horizon {
        plan.record.horizon = Some(match plan.record.horizon {
            // What was logged so far began at the old horizon: a lower one would promise events
            // that were passed over. A higher one says that something is missing in between.
            Some(old) if had_events => old.max(horizon),
            _ => horizon,
        });
    }
    Ok(plan)
}

/// Refuses a mode that the gate does not allow.
fn admit(mode: ImportMode, record: &ResourceRecord) -> Result<(), Refusal> {
    let name = &record.def.resource;
    match (mode, record.gate.state, record.opened) {
        (ImportMode::Mirror | ImportMode::Reset, GateState::Open, _) => Err(format!(
            "the gate of {name} is open: only Straggler and Pruned imports are taken"
        )),
        (ImportMode::Mirror | ImportMode::Reset, _, Some(_)) => Err(format!(
            "{name} has been served since its mirror began: close its gate and send a Reset first"
        )),
        (ImportMode::Straggler, _, None) => Err(format!(
            "the gate of {name} was never opened: what etcd has is still to be mirrored"
        )),
        (ImportMode::WrittenBack, GateState::Closed, _) | (ImportMode::WrittenBack, _, None) => {
            Err(format!(
                "{name} is not served: nothing of it is written back to etcd"
            ))
        }
        _ => Ok(()),
    }
}

/// Plans item by item; the view follows.
struct Planner {
    view: View,
    plan: Plan,
}

impl Planner {
    /// Logs a change and lets the view follow.
    fn log(
        &mut self,
        what: (EventType, Effect),
        key: &ObjectKey,
        rv: u64,
        object: Encoded,
        previous: PreviousRef,
    ) {
        let (uid, labels) = (object.uid.to_string(), object.labels.clone());
        let place = (key.clone(), rv);
        let plan = &mut self.plan;
        plan.logged.push(Logged::next(
            &mut plan.position,
            plan.record.id,
            what,
            place,
            true,
            object,
            previous,
        ));
        match what {
            (_, Effect::Event) => {}
            (EventType::Deleted, _) => {
                self.view.objects.remove(key);
            }
            _ => {
                let existing = Existing {
                    uid,
                    rv,
                    as_imported: true,
                    labels,
                };
                self.view.objects.insert(key.clone(), existing);
            }
        }
        self.plan.outcome.imported += 1;
    }

    fn unchanged(&mut self) {
        self.plan.outcome.unchanged += 1;
    }

    /// Sets or removes the mark of a key.
    fn mark(&mut self, key: &ObjectKey, mark: Option<Mark>) {
        let before = match &mark {
            Some(mark) => self.view.marks.insert(key.clone(), mark.clone()),
            None => self.view.marks.remove(key),
        };
        match (before.is_some(), mark.is_some()) {
            (false, true) => self.plan.record.imported += 1,
            (true, false) => {
                self.plan.record.imported = self.plan.record.imported.saturating_sub(1);
            }
            _ => {}
        }
        self.plan.marks.insert(key.clone(), mark);
    }

    /// Marks a copy that was written from what is stored here, or is about to be.
    fn written_back(&mut self, entry: ImportEntry) {
        let mark = Mark {
            uid: entry.uid,
            rv: entry.rv,
        };
        if self.view.marks.get(&entry.key) == Some(&mark) {
            return self.unchanged();
        }
        self.mark(&entry.key, Some(mark));
        self.plan.outcome.imported += 1;
    }

    /// Forgets the mark of a copy that is gone.
    fn pruned(&mut self, entry: &ImportEntry) {
        match self.view.marks.get(&entry.key) {
            Some(mark) if mark.is_of(&entry.uid) => {
                self.mark(&entry.key, None);
                self.plan.outcome.imported += 1;
            }
            _ => self.unchanged(),
        }
    }
}

/// Returns the type of the event that an item of etcd's watch stands for.
fn event_type(type_: ImportType) -> EventType {
    match type_ {
        ImportType::Object | ImportType::Added => EventType::Added,
        ImportType::Modified => EventType::Modified,
        ImportType::Deleted => EventType::Deleted,
    }
}
