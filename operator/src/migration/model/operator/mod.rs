//! The operator of the model: the real decisions, and every action as the small steps between which
//! anything may happen.

mod back;
mod forward;
mod script;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crds::v1alpha1::spec::ApiOwner;
use crds::v1alpha1::status::MigrationPhase;
use jiff::Timestamp;

use self::forward::import;
use self::script::Small;
use super::cluster::{Cluster, Key, Mark, Object};
use crate::apiservice::Holder;
use crate::migration::cluster::door::objects::Door;
use crate::migration::observe::state::{MirrorStage, Notes, Observed};
use crate::migration::plan::action::{Action, Decision, SwitchFrom};
use crate::migration::plan::target::{GroupTarget, Settings};
use crate::migration::plan::{self, tests as states};
use crate::migration::steps;

/// The room of the way back, smaller than the real one because there are few objects.
const ROOM: u64 = 20;
const MARGIN: u64 = 6;
/// More than etcd takes in any run: no version of an object is one of its copy as well.
const RETAKE_MARGIN: u64 = 10_000;

/// A step that is left out, to see that the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omission {
    /// The kube-apiservers are not waited for on the way to the server.
    Confirm,
    /// The counter does not jump before the hold.
    Jump,
    /// Changes behind the jump are written below it.
    Cut,
    /// Requests are not held while the rest is written.
    Hold,
    /// The floor is not raised above etcd's revision.
    Floor,
    /// Copies that were made are not known to the process that comes after.
    Marks,
    /// The gate opens before the old watches are drained.
    Drain,
    /// A switch that was cut off after the drain is undone where the CRDs are wanted.
    Finish,
    /// The look for writes past the server does not wait for the kube-apiservers.
    Laggards,
    /// Writes past the server that were dropped are not marked.
    Dropped,
    /// The way back overwrites what has passed the server by.
    Conflict,
}

/// The result of a small step.
enum Done {
    Yes,
    NotYet,
    /// The step has failed, and the operator gives the action up.
    Failed,
}

type Objects = BTreeMap<Key, (Object, u64)>;

/// The memory of the operator.
#[derive(Clone, Debug, Default)]
struct Memory {
    script: VecDeque<Small>,
    interruptible: bool,
    /// The position of the mirror, and true when the list is copied.
    mirror: Option<(u64, bool)>,
    verified: bool,
    /// The copies that the way back knows to be in etcd.
    copies: Objects,
    /// Writes past the server that were dropped, and are in etcd.
    dropped: BTreeMap<Key, Mark>,
    /// The version that the counter has jumped to, and the objects that the server had then.
    goal: u64,
    cut: Objects,
}

/// The operator; see the module.
#[derive(Clone, Debug)]
pub struct Operator {
    pub owner: ApiOwner,
    suspended: bool,
    omission: Option<Omission>,
    memory: Memory,
    now: Timestamp,
    switched_at: Option<Timestamp>,
    pruned_at: Option<Timestamp>,
}

impl Operator {
    pub fn new(omission: Option<Omission>) -> Self {
        Self {
            owner: ApiOwner::Server,
            suspended: false,
            omission,
            memory: Memory::default(),
            now: Timestamp::UNIX_EPOCH,
            switched_at: None,
            pruned_at: None,
        }
    }

    /// Kills the operator and starts it again.
    pub fn crash(&mut self) {
        self.memory = Memory::default();
    }

    /// Lets the user want the other owner.
    pub fn flip(&mut self) {
        self.owner = match self.owner {
            ApiOwner::Server => ApiOwner::Crd,
            ApiOwner::Crd => ApiOwner::Server,
        };
        self.interrupt();
    }

    /// Lets the user suspend its work, or resume it.
    pub fn suspend(&mut self, suspended: bool) {
        if self.suspended != suspended {
            self.suspended = suspended;
            self.interrupt();
        }
    }

    pub fn suspended(&self) -> bool {
        self.suspended
    }

    fn interrupt(&mut self) {
        if self.memory.interruptible {
            self.memory.script.clear();
        }
    }

    /// Lets the operator hear that somebody has taken the APIService away. A way back ends there
    /// until etcd has everything.
    pub fn hear(&mut self, cluster: &Cluster) {
        if !cluster.ours && self.memory.script.contains(&Small::EndHold) {
            self.memory.script.clear();
        }
    }

    /// Lets the mirror follow what etcd has taken.
    pub fn mirror(&mut self, cluster: &mut Cluster) {
        let Some((position, listed)) = self.memory.mirror else {
            return;
        };
        if listed {
            import(cluster, position);
            self.memory.mirror = Some((cluster.etcd.version, true));
        }
    }

    /// Takes the next small step; returns the phase where there is none to take.
    pub fn step(&mut self, cluster: &mut Cluster) -> Option<MigrationPhase> {
        let Some(small) = self.memory.script.pop_front() else {
            return self.decide(cluster);
        };
        match self.carry_out(small, cluster) {
            Done::Yes => {}
            Done::NotYet => self.memory.script.push_front(small),
            Done::Failed => self.memory.script.clear(),
        }
        None
    }

    fn decide(&mut self, cluster: &Cluster) -> Option<MigrationPhase> {
        if self.owner == ApiOwner::Crd || self.suspended {
            self.memory.mirror = None;
        }
        match plan::plan(&self.look(cluster), &self.target()) {
            Decision::Run(action) => {
                let action = self.unless_left_out(action);
                self.memory.interruptible = steps::is_interruptible(action);
                self.memory.script = self.script(action).into();
                self.memory.copies.clear();
                self.memory.goal = 0;
                None
            }
            Decision::Idle {
                wake: Some(wake), ..
            } => {
                self.now = wake;
                None
            }
            Decision::Idle { phase, .. } => Some(phase),
            Decision::Wait { problem, .. } => unreachable!("{problem:?}"),
        }
    }

    /// Returns the action, or what is done in its place where it is left out.
    fn unless_left_out(&self, action: Action) -> Action {
        let finishes = action == Action::Switch(SwitchFrom::Confirm) && self.owner == ApiOwner::Crd;
        if finishes && self.omission == Some(Omission::Finish) {
            Action::Undo
        } else {
            action
        }
    }

    fn target(&self) -> GroupTarget {
        let target = states::target();
        GroupTarget {
            owner: self.owner,
            suspended: self.suspended,
            settings: Settings {
                soak: Duration::from_secs(10),
                ..target.settings
            },
            ..target
        }
    }

    fn look(&self, cluster: &Cluster) -> Observed {
        let gate = &cluster.gate;
        let crd = states::crd("policyreports");
        let crd = match &cluster.door {
            Door::Open { token } => states::with_door(&crd, token),
            Door::Closed => crd,
        };
        let mut resource = states::resource("policyreports", gate.state, gate.settled, Some(crd));
        resource.stored.status.opened = gate.opened;
        resource.stored.status.released = gate.released;
        resource.stored.status.objects = cluster.server.objects.len() as u64;
        resource.stored.status.imported = cluster.marks.len() as u64;
        let holder = if cluster.ours {
            Holder::Ours
        } else {
            Holder::Crd
        };
        Observed {
            resources: vec![resource],
            versions: vec![states::version(holder)],
            notes: Notes {
                switched_at: self.switched_at.filter(|_| cluster.ours),
                pruned_at: self.pruned_at.filter(|_| cluster.ours),
                etcd_bytes: 0,
                ..Notes::default()
            },
            control_available: true,
            mirrors: match self.memory.mirror {
                None => MirrorStage::Missing,
                Some((_, false)) => MirrorStage::Copying,
                Some((_, true)) => MirrorStage::Following,
            },
            verified: self.memory.verified && self.memory.mirror.is_some(),
            now: self.now,
            ..Observed::default()
        }
    }
}
