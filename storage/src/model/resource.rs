//! The record of a stored resource: everything known of it besides its objects.

use std::sync::Arc;

use crds::control::{GateSpec, GateState};
use jiff::Timestamp;

use super::GroupResource;

/// A resource that is to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceDef {
    /// Group and plural name.
    pub resource: GroupResource,
    /// Kind of its objects.
    pub kind: Arc<str>,
    /// True when objects live in namespaces.
    pub namespaced: bool,
}

/// The state of a gate, and the user who set it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateStatus {
    /// The state.
    pub state: GateState,
    /// See [`crds::control::GateSpec::settled`].
    pub settled: bool,
    /// User who set the state; reads of this user pass a held gate.
    pub holder: Option<Arc<str>>,
    /// See [`crds::control::GateSpec::released`].
    pub released: bool,
    /// The newest fencing token; see [`crds::control::GateSpec::fence`].
    pub fence: u64,
    /// The version that lists and bookmarks carry after the gate was open and is open no longer;
    /// other resources may raise the counter meanwhile.
    pub frozen: Option<u64>,
    /// The time since which it has been held.
    pub held_since: Option<Timestamp>,
    /// The duration of the last hold, in milliseconds.
    pub last_hold: Option<u64>,
}

/// The reason why a gate is not moved: 409.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateRefusal {
    /// Somebody has taken a newer token.
    #[error(
        "the fencing token {given} is not the newest one ({newest}): another operator has taken over"
    )]
    Fenced {
        /// The token that was given.
        given: u64,
        /// The newest token.
        newest: u64,
    },
    /// Etcd has everything, and the CRD may have been put in charge.
    #[error("the resource is released to its CRD: its gate can be closed, but not opened")]
    Released,
}

impl GateStatus {
    /// Refuses an old fencing token.
    ///
    /// # Errors
    /// [`GateRefusal::Fenced`].
    pub fn check_fence(&self, given: Option<u64>) -> Result<(), GateRefusal> {
        match given {
            Some(given) if given != self.fence => Err(GateRefusal::Fenced {
                given,
                newest: self.fence,
            }),
            _ => Ok(()),
        }
    }

    /// Returns whether reads of everybody pass although the gate is held: the stored objects are
    /// complete.
    #[must_use]
    pub fn serves_reads(&self) -> bool {
        match self.state {
            GateState::Open => true,
            GateState::Held => self.frozen.is_some() && !self.released,
            GateState::Closed => false,
        }
    }

    /// Returns whether the resource is being given back: its log is complete, and ends here unless
    /// the gate opens again.
    #[must_use]
    pub fn gives_back(&self) -> bool {
        self.state == GateState::Held && self.frozen.is_some()
    }

    /// Records the times of a change of state: since when it is held, and for how long it was.
    fn clock(&mut self, state: GateState, now: Timestamp) {
        if state == GateState::Held {
            self.held_since = self.held_since.or(Some(now));
        } else if let Some(since) = self.held_since.take() {
            let took = now.duration_since(since).as_millis();
            self.last_hold = Some(u64::try_from(took).unwrap_or(0));
        }
    }
}

/// Number of a resource in the database. A reset gives it a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceId(pub i64);

/// The position in the sequence of commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Number of the newest change, over all resources.
    pub seq: u64,
    /// Newest resourceVersion given to a write, or the floor it was raised to.
    pub counter: u64,
}

/// A resource as the database knows it; durable, and changed only by the committer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRecord {
    /// See [`ResourceId`].
    pub id: ResourceId,
    /// The definition that was asked for.
    pub def: ResourceDef,
    /// `metadata.uid` of the `StoredResource`.
    pub uid: Arc<str>,
    /// The time at which the resource was first stored.
    pub created: Timestamp,
    /// The gate of the resource.
    pub gate: GateStatus,
    /// The counter when the gate was first opened; from then on all writes are ours. `None`
    /// before that and after a reset.
    pub opened: Option<u64>,
    /// Oldest version from which a watch can resume; `None` until an import or the first opening
    /// sets it.
    pub horizon: Option<u64>,
    /// The etcd version up to which everything was sent: the newest event or bookmark; 0 for none.
    pub mirrored: u64,
    /// Newest etcd version of any imported item, listed objects included; 0 for none.
    pub newest_imported: u64,
    /// Newest version in the change log; 0 for none.
    pub newest_logged: u64,
    /// Number of imported marks: etcd copies that are not pruned yet.
    pub imported: u64,
}

impl ResourceRecord {
    /// Returns the version up to which the log is known to be complete without looking at the
    /// counter.
    ///
    /// Before the first opening it is the version that the mirror has reached, afterwards at least
    /// the version at the opening. Never 0, which lists may not carry.
    #[must_use]
    pub fn least_rv(&self) -> u64 {
        let reached = match self.opened {
            Some(opened) => opened,
            None => self.mirrored.max(self.newest_imported),
        };
        reached.max(self.newest_logged).max(1)
    }

    /// Sets the gate; see [`crate::store::Store::set_gate`]. `counter` is that of the store, which
    /// the first opening raises. Returns whether it is the first opening.
    pub(crate) fn set_gate(
        &mut self,
        gate: &GateSpec,
        holder: Option<&str>,
        counter: &mut u64,
    ) -> Result<bool, GateRefusal> {
        self.gate.check_fence(gate.fence)?;
        if self.gate.released && gate.state == GateState::Open {
            return Err(GateRefusal::Released);
        }
        self.freeze(gate, *counter);
        // To the millisecond, as it is stored.
        let now = Timestamp::from_millisecond(Timestamp::now().as_millisecond());
        self.gate.clock(gate.state, now.unwrap_or_default());
        self.gate.state = gate.state;
        self.gate.settled = gate.settled.unwrap_or(self.gate.settled);
        self.gate.holder = holder.map(Into::into);
        if gate.state == GateState::Closed && self.opened.is_some() {
            self.mirrored = 0;
        }
        if gate.state != GateState::Open || self.opened.is_some() {
            return Ok(false);
        }
        // Whoever resumes from an earlier version has to find everything after it above it.
        let floor = self.least_rv().max(self.horizon.unwrap_or(0));
        *counter = floor.max(*counter);
        let mirrored = self.newest_imported > 0 || self.mirrored > 0;
        let first = if mirrored { self.least_rv() } else { *counter };
        self.horizon = self.horizon.or(Some(first));
        self.opened = Some(*counter);
        Ok(true)
    }

    /// Fixes the version of lists and bookmarks when the gate is not open any more.
    fn freeze(&mut self, gate: &GateSpec, counter: u64) {
        let was_open = self.gate.state == GateState::Open && self.opened.is_some();
        self.gate.frozen = match gate.state {
            GateState::Open => None,
            _ if was_open => Some(counter),
            // Its CRD took writes meanwhile: what is stored is not all there is.
            GateState::Held if self.gate.state == GateState::Closed => None,
            _ => self.gate.frozen,
        };
        self.gate.released = match gate.state {
            GateState::Held => {
                let released = gate.released.unwrap_or(self.gate.released);
                released && self.gate.frozen.is_some()
            }
            GateState::Open | GateState::Closed => false,
        };
        let wanted = gate
            .resource_version
            .as_deref()
            .and_then(|text| text.parse().ok());
        if self.gate.released {
            self.gate.frozen = self.gate.frozen.max(wanted);
        }
    }

    /// Returns the horizon in force: without any import or opening, nothing older than now is
    /// known.
    #[must_use]
    pub fn effective_horizon(&self) -> u64 {
        self.horizon.unwrap_or_else(|| self.least_rv())
    }
}
