//! The small steps of the way forward.

use crds::control::GateState;
use jiff::SignedDuration;

use super::script::Small;
use super::{Done, Operator, ROOM};
use crate::migration::cluster::door::objects::Door;
use crate::migration::model::cluster::{Cluster, Key, Mark, State};
use crate::migration::plan::action::Action;

/// The token of a door that is opened for a way back.
const BACK: &str = "the way back";

impl Operator {
    pub(super) fn carry_out(&mut self, small: Small, cluster: &mut Cluster) -> Done {
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
                    cluster.marks.insert(key, Mark::of(object, at));
                }
                let position = self.memory.mirror.map_or(0, |(position, _)| position);
                self.memory.mirror = Some((position, true));
            }
            Small::Verify => self.memory.verified = true,
            Small::ApiService(ours) => {
                if ours {
                    // No two switches are at the same time.
                    self.now += SignedDuration::from_secs(1);
                    self.switched_at = Some(self.now);
                    self.pruned_at = None;
                }
                cluster.set_api_service(ours);
            }
            Small::Confirm(ours) if cluster.ours != ours => return Done::Failed,
            Small::Confirm(_) if !cluster.all_know() => return Done::NotYet,
            Small::Confirm(_) => {}
            Small::UndoUnlessOurs if cluster.ours => {}
            Small::UndoUnlessOurs => {
                self.memory.script = self.script(Action::Undo).into();
            }
            Small::Drain => self.drain(cluster),
            Small::Floor(margin) => {
                let version = cluster.etcd.version + margin;
                cluster.raise_counter(version);
            }
            Small::Wait => self.now += SignedDuration::from_secs(10),
            Small::OpenDoor { raised: true } => {
                cluster.etcd.raise(cluster.server.version + ROOM);
                let token = BACK.to_owned();
                cluster.change_crd(Door::Open { token });
            }
            Small::OpenDoor { raised: false } => {
                if !cluster.door.is_open() {
                    let token = self.token();
                    cluster.change_crd(Door::Open { token });
                }
            }
            Small::CloseDoor => cluster.change_crd(Door::Closed),
            Small::Look => self.memory.dropped = cluster.settle(),
            Small::MarkDropped => cluster.marks.append(&mut self.memory.dropped),
            Small::Prune => {
                if !cluster.door.is_open() {
                    return Done::Failed;
                }
                prune(cluster);
                self.pruned_at = Some(self.now);
            }
            back => return self.go_back(back, cluster),
        }
        Done::Yes
    }

    /// Ends the old watches; what the server lacks comes from the mirror, or from a list.
    fn drain(&mut self, cluster: &mut Cluster) {
        cluster.in_charge = true;
        cluster.tells_deletions = true;
        let position = self.memory.mirror.take().map(|(position, _)| position);
        if let Some(position) = position {
            import(cluster, position);
        } else {
            recover(cluster);
        }
        let token = self.token();
        if !cluster.door.is_open_for(&token) {
            cluster.change_crd(Door::Open { token });
        }
        self.memory.verified = false;
    }

    /// Returns the token of a door that is opened for the switch.
    fn token(&self) -> String {
        self.switched_at.unwrap_or(self.now).to_string()
    }
}

/// Begins the copy at the server anew.
fn reset(cluster: &mut Cluster) {
    cluster.set_gate(GateState::Closed, Some(false));
    cluster.gate.opened = false;
    cluster.gate.frozen = None;
    cluster.touched.clear();
    cluster.server.objects.clear();
    cluster.server.log.clear();
    cluster.server.horizon = cluster.etcd.horizon;
    cluster.marks.clear();
}

/// Takes over, at the server, what etcd has taken since `position`.
pub(super) fn import(cluster: &mut Cluster, position: u64) {
    let events: Vec<_> = cluster.etcd.log.clone();
    for event in events.into_iter().filter(|event| event.at > position) {
        take_over(cluster, event.at, event.key, event.state);
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
        take_over(cluster, at, key, state);
    }
}

/// Records a change of etcd at the server, and marks the copy.
fn take_over(cluster: &mut Cluster, at: u64, key: Key, state: State) {
    cluster.server.record(at, key, state);
    match state {
        Some(object) => cluster.marks.insert(key, Mark::of(object, at)),
        None => cluster.marks.remove(&key),
    };
}

/// Deletes the copies in etcd that are as they were copied.
fn prune(cluster: &mut Cluster) {
    cluster.tells_deletions = false;
    for (key, mark) in cluster.marks.clone() {
        if let Some(copy) = cluster.etcd.objects.get(&key) {
            if !mark.knows(*copy) {
                continue;
            }
            cluster.etcd.write(key, None);
        }
        cluster.marks.remove(&key);
    }
}
