//! The operator of the model: the real decisions, and every action as the small steps between which
//! anything may happen.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crds::control::GateState;
use crds::v1alpha1::spec::ApiOwner;
use crds::v1alpha1::status::MigrationPhase;
use jiff::{SignedDuration, Timestamp};

use super::cluster::{Cluster, Event, Key, Object, State};
use crate::apiservice::Holder;
use crate::migration::observe::state::{MirrorStage, Notes, Observed};
use crate::migration::plan::action::{Action, Decision, SwitchFrom};

use crate::migration::plan::target::{GroupTarget, Settings};
use crate::migration::plan::{self, tests as states};
use crate::migration::steps;

/// The room of the way back, smaller than the real one because there are few objects.
const ROOM: u64 = 20;
const MARGIN: u64 = 6;

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
}

/// One small step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Small {
    Gate(GateState, Option<bool>),
    /// The copy begins anew.
    MirrorReset,
    MirrorList,
    Verify,
    ApiService(bool),
    /// All kube-apiservers know where the APIService leads.
    Confirm,
    Drain,
    Floor,
    Wait,
    /// The CRD is changed; before the way back etcd's revision is raised above our counter.
    OpenDoor {
        raised: bool,
    },
    CloseDoor,
    /// The differences have to be written.
    Compare,
    /// The changes since the jump have to be written.
    BeforeCut,
    WriteBack(Key, State),
    /// An object that came and went does so in etcd.
    Flash(Key, Object),
    Jump,
    Follow,
    Rest,
    EndHold,
    Prune,
}

/// The result of a small step.
enum Done {
    Yes,
    NotYet,
    /// The action is given up.
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
    copies: BTreeMap<Key, State>,
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
        let crd = if cluster.door {
            states::with_door(&crd, "t")
        } else {
            crd
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

    fn script(&self, action: Action) -> Vec<Small> {
        use GateState::{Closed, Held, Open};
        let gate = |state| Small::Gate(state, None);
        let mut script = match action {
            Action::CloseGates => vec![gate(Closed)],
            Action::Mirror => vec![Small::MirrorReset, Small::MirrorList],
            Action::Verify => vec![Small::Verify],
            Action::Switch(from) => {
                let all = vec![
                    Small::Gate(Held, Some(false)),
                    Small::ApiService(true),
                    Small::Confirm,
                    Small::Drain,
                    Small::Floor,
                    gate(Open),
                ];
                let skipped = match from {
                    SwitchFrom::Hold => 0,
                    SwitchFrom::Patch => 1,
                    SwitchFrom::Confirm => 2,
                };
                let mut all: Vec<_> = all.into_iter().skip(skipped).collect();
                if skipped > 0 {
                    all.insert(0, Small::Gate(Held, Some(false)));
                }
                all
            }
            Action::Reopen => vec![gate(Open)],
            Action::Settle => vec![Small::Gate(Open, Some(true))],
            Action::CloseDoor => vec![Small::CloseDoor],
            Action::Soak => vec![Small::Wait],
            Action::Prune => vec![Small::OpenDoor { raised: false }, Small::Prune],
            Action::Undo => vec![Small::ApiService(false), gate(Closed)],
            Action::Back => vec![
                Small::OpenDoor { raised: true },
                Small::Compare,
                Small::Jump,
                Small::BeforeCut,
                Small::Follow,
                gate(Held),
                Small::Follow,
                Small::Rest,
                Small::EndHold,
                Small::ApiService(false),
                Small::Confirm,
                gate(Closed),
            ],
            Action::Release => vec![Small::ApiService(false), Small::Confirm, gate(Closed)],
            Action::Register | Action::Retake | Action::Refresh | Action::ImportDatabase => {
                unreachable!("nobody in the model brings {action:?} about")
            }
        };
        let omitted = |small: &Small| match self.omission {
            Some(Omission::Confirm) => *small == Small::Confirm,
            Some(Omission::Jump) => *small == Small::Jump,
            Some(Omission::Floor) => *small == Small::Floor,
            Some(Omission::Drain) => *small == Small::Drain,
            Some(Omission::Hold) => matches!(action, Action::Back) && *small == gate(Held),
            Some(Omission::Marks | Omission::Cut) | None => false,
        };
        script.retain(|small| !omitted(small));
        script
    }

    fn carry_out(&mut self, small: Small, cluster: &mut Cluster) -> Done {
        match small {
            Small::Gate(state, settled) => cluster.set_gate(state, settled),
            Small::MirrorReset => {
                self.memory.verified = false;
                // The watch is opened as far back as the watch cache reaches.
                self.memory.mirror = Some((cluster.etcd.horizon, false));
                reset(cluster);
            }
            Small::MirrorList => {
                for (key, (object, at)) in cluster.etcd.objects.clone() {
                    cluster.server.objects.insert(key, (object, at));
                    cluster.marks.insert(key, Some(object));
                }
                let position = self.memory.mirror.map_or(0, |(position, _)| position);
                self.memory.mirror = Some((position, true));
            }
            Small::Verify => self.memory.verified = true,
            Small::ApiService(ours) => {
                if ours {
                    self.switched_at = Some(self.now);
                    self.pruned_at = None;
                }
                cluster.set_api_service(ours);
            }
            Small::Confirm if !cluster.all_know() => return Done::NotYet,
            Small::Confirm => {}
            Small::Drain => self.drain(cluster),
            Small::Floor => {
                let version = cluster.etcd.version;
                cluster.raise_counter(version);
            }
            Small::Wait => self.now += SignedDuration::from_secs(10),
            Small::OpenDoor { raised } => {
                if raised {
                    let above = cluster.server.version + ROOM;
                    cluster.etcd.raise(above);
                }
                cluster.change_crd(true);
            }
            Small::CloseDoor => cluster.change_crd(false),
            Small::Prune => {
                if !cluster.door {
                    return Done::Failed;
                }
                prune(cluster);
                self.pruned_at = Some(self.now);
            }
            back => return self.go_back(back, cluster),
        }
        Done::Yes
    }

    /// Carries out the small steps of the way back. In the hold a failure serves clients again.
    fn go_back(&mut self, small: Small, cluster: &mut Cluster) -> Done {
        if !cluster.door {
            if cluster.gate.state == GateState::Held {
                cluster.set_gate(GateState::Open, None);
            }
            return Done::Failed;
        }
        match small {
            Small::Compare => {
                let there = cluster.etcd.objects.iter();
                self.memory.copies = there.map(|(k, (o, _))| (*k, Some(*o))).collect();
                self.write_differences(cluster, &cluster.server.objects);
            }
            Small::BeforeCut => {
                let jumped = self.memory.goal > 0 && self.omission != Some(Omission::Cut);
                let cut = std::mem::take(&mut self.memory.cut);
                let objects = if jumped {
                    &cut
                } else {
                    &cluster.server.objects
                };
                self.write_differences(cluster, objects);
            }
            Small::WriteBack(key, state) => self.write_back(cluster, key, state),
            Small::Jump => {
                let known = cluster.server.version.max(cluster.etcd.version);
                self.memory.goal = known + MARGIN;
                self.memory.cut.clone_from(&cluster.server.objects);
                cluster.raise_counter(self.memory.goal);
            }
            Small::Follow => {
                if cluster.etcd.version > self.memory.goal
                    && cluster.gate.state == GateState::Open
                    && self.memory.goal > 0
                {
                    // Outgrown.
                    return Done::Failed;
                }
                let goal = self.memory.goal.max(cluster.server.version);
                cluster.etcd.raise(goal);
            }
            Small::Flash(key, object) => {
                cluster.etcd.write(key, Some(object));
                cluster.etcd.write(key, None);
            }
            Small::Rest => {
                self.flash(cluster);
                self.write_differences(cluster, &cluster.server.objects);
            }
            Small::EndHold => cluster.release_gate(),
            other => unreachable!("{other:?} is no step of the way back"),
        }
        Done::Yes
    }

    fn write_differences(&mut self, cluster: &Cluster, wanted: &Objects) {
        let known = &self.memory.copies;
        let mut work = Vec::new();
        for (key, (object, _)) in wanted {
            if known.get(key).copied().flatten() != Some(*object) {
                work.push(Small::WriteBack(*key, Some(*object)));
            }
        }
        for (key, state) in known {
            let gone = state.is_some() && !wanted.contains_key(key);
            // What the server does not know of was never copied, and is left.
            if gone && cluster.marks.contains_key(key) {
                work.push(Small::WriteBack(*key, None));
            }
        }
        for small in work.into_iter().rev() {
            self.memory.script.push_front(small);
        }
    }

    fn flash(&mut self, cluster: &Cluster) {
        let mut gone: BTreeMap<Key, Object> = BTreeMap::new();
        let behind = |event: &&Event| event.at > self.memory.goal;
        for event in cluster.server.log.iter().filter(behind) {
            let known = self.memory.copies.get(&event.key).copied().flatten();
            if let Some(object) = event.state
                && known.is_none()
                && cluster.server.get(event.key).is_none()
            {
                gone.insert(event.key, object);
            }
        }
        let flashes = gone
            .into_iter()
            .map(|(key, object)| Small::Flash(key, object));
        for flash in flashes {
            self.memory.script.push_front(flash);
        }
    }

    fn write_back(&mut self, cluster: &mut Cluster, key: Key, state: State) {
        if self.omission != Some(Omission::Marks) {
            cluster.marks.insert(key, state);
        }
        if cluster.etcd.get(key) != state {
            cluster.etcd.write(key, state);
        }
        self.memory.copies.insert(key, state);
        if state.is_none() {
            cluster.marks.remove(&key);
        }
    }

    /// Ends the old watches; what the server lacks comes from the mirror, or from a list.
    fn drain(&mut self, cluster: &mut Cluster) {
        let position = self.memory.mirror.take().map(|(position, _)| position);
        if let Some(position) = position {
            import(cluster, position);
        } else {
            recover(cluster);
        }
        cluster.change_crd(true);
        self.memory.verified = false;
    }
}

/// Begins the copy at the server anew.
fn reset(cluster: &mut Cluster) {
    cluster.set_gate(GateState::Closed, Some(false));
    cluster.gate.opened = false;
    cluster.gate.frozen = None;
    cluster.server.objects.clear();
    cluster.server.log.clear();
    cluster.server.horizon = cluster.etcd.horizon;
    cluster.marks.clear();
}

/// Takes over, at the server, what etcd has taken since `position`.
fn import(cluster: &mut Cluster, position: u64) {
    let events: Vec<_> = cluster.etcd.log.clone();
    for event in events.into_iter().filter(|event| event.at > position) {
        cluster.server.record(event.at, event.key, event.state);
        cluster.marks.insert(event.key, event.state);
        if event.state.is_none() {
            cluster.marks.remove(&event.key);
        }
    }
}

/// Takes over, at the server, what differs, as the events that were lost.
fn recover(cluster: &mut Cluster) {
    cluster.merged = true;
    let mut lost: Vec<(u64, Key, State)> = Vec::new();
    for (key, (object, at)) in &cluster.etcd.objects {
        if cluster.server.get(*key) != Some(*object) {
            lost.push((*at, *key, Some(*object)));
        }
    }
    for key in cluster.server.objects.keys() {
        if !cluster.etcd.objects.contains_key(key) {
            let log = cluster.etcd.log.iter().rev();
            let at = log.clone().find(|event| event.key == *key);
            lost.push((
                at.map_or(cluster.etcd.version, |event| event.at),
                *key,
                None,
            ));
        }
    }
    lost.sort_by_key(|(at, ..)| *at);
    for (at, key, state) in lost {
        cluster.server.record(at, key, state);
        cluster.marks.insert(key, state);
        if state.is_none() {
            cluster.marks.remove(&key);
        }
    }
}

/// Deletes the copies in etcd that are as they were copied.
fn prune(cluster: &mut Cluster) {
    for (key, state) in std::mem::take(&mut cluster.marks) {
        if cluster.etcd.get(key) == state && state.is_some() {
            cluster.etcd.write(key, None);
        }
    }
}
