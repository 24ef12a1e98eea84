//! Writes of clients to etcd that pass the server by, after somebody has deleted the APIService.

use std::collections::{BTreeMap, BTreeSet};

use super::{Cluster, Flaw, Key, Object, Op, State};

/// The state in which the server knows a copy in etcd: the incarnation, none where it is about to be
/// made, and the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub incarnation: Option<u32>,
    pub at: u64,
}

impl Mark {
    pub fn of(object: Object, at: u64) -> Self {
        Self {
            incarnation: Some(object.incarnation),
            at,
        }
    }

    /// Returns whether it is of this state in etcd.
    pub fn knows(self, (object, at): (Object, u64)) -> bool {
        self == Self::of(object, at)
    }
}

impl Cluster {
    /// Writes to etcd although the server is in charge.
    pub(super) fn write_past(&mut self, key: Key, op: Op) -> Result<(), Flaw> {
        if !self.taken {
            return Err(format!("a client writes {key} past the server"));
        }
        if let Some(state) = self.next(op, self.etcd.get(key)) {
            self.etcd.write(key, state);
            if state.is_some() || self.marks.contains_key(&key) {
                self.strays.insert(key, state);
            } else {
                // It came and went, and was no copy.
                self.strays.remove(&key);
            }
        }
        Ok(())
    }

    /// Lets somebody delete the APIService; the CRD gets one of its own at once.
    pub fn take_away(&mut self) {
        self.taken |= self.ours;
        self.ours = false;
    }

    /// Takes over or drops what has passed the server by; whatever is dropped is named. Returns the
    /// dropped writes that lie in etcd.
    pub fn settle(&mut self) -> BTreeMap<Key, Mark> {
        let overwritten = self.overwritten();
        let mut dropped = BTreeMap::new();
        for key in self.known_keys() {
            let etcd = self.etcd.objects.get(&key).copied();
            let mark = self.marks.get(&key).copied();
            let server = self.server.objects.get(&key).copied();
            let imported = server.filter(|_| !self.touched.contains(&key));
            let of_server = imported.map(|(object, at)| Mark::of(object, at));
            match etcd {
                Some(etcd) if mark.or(of_server).is_none_or(|mark| !mark.knows(etcd)) => {
                    let (object, at) = etcd;
                    let is_copy = self.server.get(key) == Some(object);
                    if !is_copy && self.gives_way(key, object, mark) {
                        dropped.insert(key, Mark::of(object, at));
                    } else {
                        if !is_copy {
                            self.import_stray(key, Some(object));
                        }
                        self.marks.insert(key, Mark::of(object, at));
                    }
                }
                None if self.tells_deletions
                    && server.is_some()
                    && mark.is_some_and(|m| m.incarnation.is_some())
                    && !self.touched.contains(&key) =>
                {
                    self.import_stray(key, None);
                    self.marks.remove(&key);
                }
                _ => continue,
            }
            self.strays.remove(&key);
        }
        // Of an object that is not there any more, nobody misses anything.
        self.strays.retain(|_, state| state.is_some());
        self.flaw = overwritten.or_else(|| self.untold(|_, _| true));
        dropped
    }

    /// Returns every name that anybody has heard of.
    fn known_keys(&self) -> BTreeSet<Key> {
        let stored = self.etcd.objects.keys().chain(self.server.objects.keys());
        stored.chain(self.marks.keys()).copied().collect()
    }

    /// Returns whether an unknown state in etcd gives way to what the server has made of the object.
    fn gives_way(&self, key: Key, etcd: Object, mark: Option<Mark>) -> bool {
        let announced = mark.is_some_and(|mark| mark.incarnation.is_none());
        let is_its_copy = mark.is_some_and(|mark| mark.incarnation == Some(etcd.incarnation));
        let deleted = self.server.get(key).is_none() && is_its_copy;
        announced || deleted || self.touched.contains(&key)
    }

    /// Writes at the server what has passed it by.
    fn import_stray(&mut self, key: Key, state: State) {
        self.server.write(key, state);
        self.history.entry(key).or_default().push(state);
    }

    /// Puts etcd in charge: what has passed the server by is as good as any other write.
    pub(super) fn put_etcd_in_charge(&mut self) {
        self.in_charge = false;
        self.flaw = self.overwritten();
        for (key, state) in std::mem::take(&mut self.strays) {
            self.history.entry(key).or_default().push(state);
        }
    }

    /// Returns the flaw that a write past the server was overwritten: nobody can tell of it.
    fn overwritten(&self) -> Option<Flaw> {
        self.untold(|key, state| self.etcd.get(key) != state)
    }

    /// Returns the flaw that nobody tells of a write past the server, where there is one such.
    pub(super) fn untold(&self, such: impl Fn(Key, State) -> bool) -> Option<Flaw> {
        let mut strays = self.strays.iter();
        let (key, stray) = strays.find(|(key, state)| such(**key, **state))?;
        Some(format!("nobody tells of {stray:?} of {key}"))
    }
}
