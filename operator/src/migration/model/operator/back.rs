//! The small steps of the way back.

use std::collections::BTreeMap;

use crds::control::GateState;

use super::script::Small;
use super::{Done, MARGIN, Objects, Omission, Operator};
use crate::migration::model::cluster::{Cluster, Event, Key, Object, State};

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
}
