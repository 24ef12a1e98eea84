//! The outcome of writes, decided from the stored state. Pure: every engine that can read the
//! stored state inside its transaction decides like this.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use crds::control::GateState;

use super::engine::{Op, OpKind, OpOutcome};
use crate::cache::{Change, Effect, EventType, PreviousRef};
use crate::model::projection::Projection;
use crate::model::{Encoded, Labels, ObjectKey, Position, ResourceId, packed};

/// The facts of a stored object that a transaction needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Existing {
    pub uid: String,
    pub rv: u64,
    pub as_imported: bool,
    pub labels: Labels,
}

impl Existing {
    pub fn reference(&self) -> PreviousRef {
        PreviousRef::At {
            rv: self.rv,
            labels: self.labels.clone(),
        }
    }
}

/// Returns the result of changes: the objects that are gone, and those that are there. A key may
/// change more than once in an import; its last state counts.
pub(super) fn last_states(logged: &[Logged]) -> (Vec<&Logged>, Vec<&Logged>) {
    let mut last: HashMap<(ResourceId, &ObjectKey), &Logged> = HashMap::new();
    for change in logged.iter().filter(|l| l.change.effect != Effect::Event) {
        last.insert((change.resource, &change.change.object.key), change);
    }
    last.into_values()
        .partition(|l| l.change.type_ == EventType::Deleted)
}

/// A change and the text that goes into the database for it.
#[derive(Debug)]
pub(super) struct Logged {
    pub resource: ResourceId,
    pub change: Change,
    pub json: String,
    /// The text as SQLite keeps it, where it was packed already.
    pub packed: Option<Box<[u8]>>,
    /// The projection of the object.
    pub projection: Option<Box<Projection>>,
}

impl Logged {
    /// Returns whether the log keeps its text: state from a listing has it in `objects` only.
    pub fn has_text(&self) -> bool {
        self.change.effect != Effect::State
    }

    /// Packs the text, unless it is packed.
    pub fn pack(&mut self) -> io::Result<()> {
        if self.packed.is_none() {
            self.packed = Some(packed::pack(&self.json)?);
        }
        Ok(())
    }

    /// Returns the bytes that it adds to the log.
    pub fn bytes(&self) -> i64 {
        if !self.has_text() {
            return 0;
        }
        i64::try_from(self.json.len()).unwrap_or(i64::MAX)
    }

    /// Returns the next change after `position`, which advances.
    pub fn next(
        position: &mut Position,
        resource: ResourceId,
        (type_, effect): (EventType, Effect),
        (key, rv): (ObjectKey, u64),
        as_imported: bool,
        mut object: Encoded,
        previous: PreviousRef,
    ) -> Self {
        position.seq += 1;
        let json = std::mem::take(&mut object.json);
        let packed = object.packed.take();
        let projection = object.projection.take();
        let object = Arc::new(object.into_object(key, rv, as_imported));
        let change = Change {
            type_,
            effect,
            seq: position.seq,
            object,
            previous,
        };
        Self {
            resource,
            change,
            json,
            packed,
            projection,
        }
    }
}

/// Decides on each write, at most one a key: returns the outcomes, and the changes of those that
/// are made. Each gets the next version and the next seq.
pub(super) fn decide(
    ops: Vec<Op>,
    gates: &HashMap<ResourceId, GateState>,
    existing: &HashMap<(ResourceId, ObjectKey), Existing>,
    position: &mut Position,
) -> (Vec<OpOutcome>, Vec<Logged>) {
    let mut logged = Vec::with_capacity(ops.len());
    let outcomes = ops
        .into_iter()
        .map(|op| {
            // The number of a resource that was reset meanwhile is unknown.
            let gate = gates.get(&op.resource).copied().unwrap_or_default();
            if gate != GateState::Open {
                return OpOutcome::Gate(gate);
            }
            let stored = existing.get(&(op.resource, op.key.clone()));
            let (type_, previous) = match check(&op, stored) {
                Ok(change) => change,
                Err(outcome) => return outcome,
            };
            position.counter += 1;
            let place = (op.key, position.counter);
            let what = (type_, Effect::EventAndState);
            logged.push(Logged::next(
                position,
                op.resource,
                what,
                place,
                false,
                op.object,
                previous,
            ));
            OpOutcome::Written
        })
        .collect();
    (outcomes, logged)
}

/// Returns the change that a write makes, or the reason why it makes none.
fn check(op: &Op, stored: Option<&Existing>) -> Result<(EventType, PreviousRef), OpOutcome> {
    let stored = match (&op.kind, stored) {
        (OpKind::Create, None) => return Ok((EventType::Added, PreviousRef::None)),
        (OpKind::Create, Some(_)) => return Err(OpOutcome::AlreadyExists),
        (_, None) => return Err(OpOutcome::NotFound),
        (_, Some(stored)) => stored,
    };
    let (type_, uid, rv) = match &op.kind {
        OpKind::Delete {
            expected_uid,
            expected_rv,
        } => (EventType::Deleted, expected_uid.as_deref(), *expected_rv),
        OpKind::Update { expected_rv } => {
            (EventType::Modified, Some(&*op.object.uid), *expected_rv)
        }
        OpKind::Create => (EventType::Added, None, None),
    };
    if uid.is_some_and(|uid| uid != stored.uid) || rv.is_some_and(|rv| rv != stored.rv) {
        return Err(OpOutcome::Conflict {
            uid: stored.uid.clone(),
            rv: stored.rv,
        });
    }
    Ok((type_, stored.reference()))
}
