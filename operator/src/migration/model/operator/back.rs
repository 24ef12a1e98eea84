//! The small steps of the way back.

use std::collections::BTreeMap;

use crds::control::GateState;

use super::script::Small;
use super::{Done, MARGIN, Objects, Omission, Operator};
use crate::migration::model::cluster::{Cluster, Event, Key, Mark, Object, State};

impl Operator {
    /// Carries out the small steps of the way back. In the hold a failure serves clients again.
    pub(super) fn go_back(&mut self, small: Small, cluster: &mut Cluster) -> Done {
        if !cluster.door.is_open() {
            if cluster.gate.state == GateState::Held {
                cluster.set_gate(GateState::Open, None);
            }
            return Done::Failed;
        }
        match small {
            // What clients have written since is in etcd's list, or a kube-apiserver answers from the
            // CRD.
            Small::Compare if !cluster.ours || !cluster.known[0] => return Done::Failed,
            Small::Compare => {
                cluster.tells_deletions = true;
                self.memory.copies = cluster.etcd.objects.clone();
                self.write_differences(cluster, &cluster.server.objects, true);
            }
            Small::BeforeCut => {
                let jumped = self.memory.goal > 0 && self.omission != Some(Omission::Cut);
                let cut = std::mem::take(&mut self.memory.cut);
                let objects = if jumped {
                    &cut
                } else {
                    &cluster.server.objects
                };
                self.write_differences(cluster, objects, true);
            }
            Small::Announce(key) if self.omission != Some(Omission::Marks) => {
                let (incarnation, at) = (None, 0);
                cluster.marks.insert(key, Mark { incarnation, at });
            }
            Small::Announce(_) => {}
            Small::WriteBack { key, .. } | Small::Flash(key, _)
                if !cluster.ours && self.is_conflict(cluster, key) =>
            {
                // What was announced is not made.
                if !self.memory.copies.contains_key(&key) {
                    cluster.marks.remove(&key);
                }
                return Done::Failed;
            }
            Small::WriteBack { key, state, marks } => self.write_back(cluster, key, state, marks),
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
                self.write_differences(cluster, &cluster.server.objects, false);
            }
            Small::ReopenUnlessOurs if cluster.ours => {}
            Small::ReopenUnlessOurs => {
                cluster.set_gate(GateState::Open, None);
                return Done::Failed;
            }
            Small::EndHold => cluster.release_gate(),
            other => unreachable!("{other:?} is no step of the way back"),
        }
        Done::Yes
    }

    fn write_differences(&mut self, cluster: &Cluster, wanted: &Objects, marks: bool) {
        let known = &self.memory.copies;
        let mut work = Vec::new();
        for (key, (object, _)) in wanted {
            if known.get(key).map(|(copy, _)| copy) != Some(object) {
                work.push((*key, Some(*object)));
            }
        }
        for key in known.keys() {
            // What the server does not know of was never copied, and is left.
            if !wanted.contains_key(key) && cluster.marks.contains_key(key) {
                work.push((*key, None));
            }
        }
        for (key, state) in work.into_iter().rev() {
            let small = Small::WriteBack { key, state, marks };
            self.memory.script.push_front(small);
            if !known.contains_key(&key) {
                self.memory.script.push_front(Small::Announce(key));
            }
        }
    }

    fn flash(&mut self, cluster: &Cluster) {
        let mut gone: BTreeMap<Key, Object> = BTreeMap::new();
        let behind = |event: &&Event| event.at > self.memory.goal;
        for event in cluster.server.log.iter().filter(behind) {
            if let Some(object) = event.state
                && !self.memory.copies.contains_key(&event.key)
                && cluster.server.get(event.key).is_none()
            {
                gone.insert(event.key, object);
            }
        }
        for (key, object) in gone {
            self.memory.script.push_front(Small::Flash(key, object));
            self.memory.script.push_front(Small::Announce(key));
        }
    }

    /// Returns whether a copy has changed since it was read.
    fn is_conflict(&self, cluster: &Cluster, key: Key) -> bool {
        self.omission != Some(Omission::Conflict)
            && cluster.etcd.objects.get(&key) != self.memory.copies.get(&key)
    }

    fn write_back(&mut self, cluster: &mut Cluster, key: Key, state: State, marks: bool) {
        let marks = marks && self.omission != Some(Omission::Marks);
        if cluster.etcd.get(key) != state {
            cluster.etcd.write(key, state);
        }
        if let Some(copy) = cluster.etcd.objects.get(&key) {
            self.memory.copies.insert(key, *copy);
            if marks {
                cluster.marks.insert(key, Mark::of(copy.0, copy.1));
            }
        } else {
            self.memory.copies.remove(&key);
            if marks {
                cluster.marks.remove(&key);
            }
        }
    }
}
