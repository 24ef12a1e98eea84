//! The cluster of the model: etcd with the CRD, our server, the kube-apiservers between them and
//! clients, and the answers that clients got.

mod strays;
mod watchers;

use std::collections::{BTreeMap, BTreeSet};

use crds::control::GateState;

pub use self::strays::Mark;
use self::watchers::{Source, Watcher};
use crate::migration::cluster::door::objects::Door;

/// Name of an object.
pub type Key = u8;
/// The number of kube-apiservers.
pub const APISERVERS: usize = 2;

/// An object and its content: the incarnation under its name, and the write that it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    pub incarnation: u32,
    pub write: u32,
}

/// A state of one key; `None` when it is deleted.
pub type State = Option<Object>;

/// One change in a log.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub at: u64,
    pub key: Key,
    pub state: State,
}

/// Objects with the versions at which they were written, and the log of all changes.
#[derive(Clone, Debug, Default)]
pub struct Store {
    /// Newest version: etcd's revision, or our counter.
    pub version: u64,
    /// Oldest version from which a watch can be resumed.
    pub horizon: u64,
    pub objects: BTreeMap<Key, (Object, u64)>,
    pub log: Vec<Event>,
}

impl Store {
    pub fn get(&self, key: Key) -> State {
        self.objects.get(&key).map(|(object, _)| *object)
    }

    /// Writes a change with the next version.
    pub fn write(&mut self, key: Key, state: State) {
        self.record(self.version + 1, key, state);
    }

    /// Records a change at a version that somebody else gave.
    pub fn record(&mut self, at: u64, key: Key, state: State) {
        self.version = self.version.max(at);
        match state {
            Some(object) => self.objects.insert(key, (object, at)),
            None => self.objects.remove(&key),
        };
        self.log.push(Event { at, key, state });
    }

    fn since(&self, version: u64) -> Vec<Event> {
        let newer = self.log.iter().filter(|event| event.at > version);
        newer.copied().collect()
    }

    pub fn raise(&mut self, version: u64) {
        self.version = self.version.max(version);
    }
}

/// The gate of our server, as far as decisions and clients know it.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    pub state: GateState,
    pub opened: bool,
    pub settled: bool,
    pub released: bool,
    pub frozen: Option<u64>,
}

/// Everything outside the operator.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a question of its own"
)]
pub struct Cluster {
    pub etcd: Store,
    pub server: Store,
    pub gate: Gate,
    /// Copies in etcd that the server knows of.
    pub marks: BTreeMap<Key, Mark>,
    /// Keys that clients have written at the server.
    pub touched: BTreeSet<Key>,
    /// True from the end of the mirrors on until etcd has everything: what etcd takes meanwhile
    /// passes the server by.
    pub in_charge: bool,
    /// The last of the writes to each key that have passed the server by, and of which nothing is
    /// known yet.
    pub strays: BTreeMap<Key, State>,
    /// A flaw that was noticed between two moves.
    flaw: Option<Flaw>,
    /// True once the APIService was deleted by hand: clients have met old states since.
    pub taken: bool,
    /// True while a copy that is gone from etcd was deleted there by a client.
    pub tells_deletions: bool,
    pub door: Door,
    /// True when the APIService leads to our server.
    pub ours: bool,
    /// The value of `ours` that each kube-apiserver knows, and last the one that our server knows.
    pub known: [bool; APISERVERS + 1],
    /// Every acknowledged change of each key.
    pub history: BTreeMap<Key, Vec<State>>,
    watchers: Vec<Watcher>,
    /// True when the server was brought up to etcd without a mirror: of several changes one event
    /// is left, and none of an object that came and went. A client that was connected has seen
    /// those from etcd; one that was away just then never hears of it.
    pub merged: bool,
    incarnations: u32,
    writes: u32,
}

/// An operation of a client.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Create,
    Update,
    Delete,
}

/// Something that must never be.
pub type Flaw = String;

impl Cluster {
    /// Returns a cluster whose CRD serves, with two watchers at each kube-apiserver.
    pub fn new() -> Self {
        Self {
            etcd: Store::default(),
            server: Store::default(),
            gate: Gate {
                state: GateState::Closed,
                opened: false,
                settled: false,
                released: false,
                frozen: None,
            },
            marks: BTreeMap::new(),
            touched: BTreeSet::new(),
            in_charge: false,
            strays: BTreeMap::new(),
            flaw: None,
            taken: false,
            tells_deletions: true,
            door: Door::Closed,
            ours: false,
            known: [false; APISERVERS + 1],
            history: BTreeMap::new(),
            watchers: (0..2 * APISERVERS).map(Watcher::new).collect(),
            merged: false,
            incarnations: 0,
            writes: 0,
        }
    }

    fn truth(&self, key: Key) -> State {
        let last = self.history.get(&key).and_then(|states| states.last());
        last.copied().flatten()
    }

    /// Returns whether the server takes requests: its gate is open, and as far as it knows they are
    /// sent to it.
    fn serves(&self) -> bool {
        self.gate.state == GateState::Open && self.known[APISERVERS]
    }

    /// Writes as a client. A request that is not served waits or is refused, and changes nothing.
    pub fn write(&mut self, via: usize, key: Key, op: Op) -> Result<(), Flaw> {
        let to_server = self.known[via];
        if to_server && !self.serves() {
            return Ok(());
        }
        if !to_server && self.in_charge {
            return self.write_past(key, op);
        }
        let truth = self.truth(key);
        let store = if to_server { &self.server } else { &self.etcd };
        if store.get(key) != truth {
            let found = store.get(key);
            return Err(format!("a client meets {found:?} of {key}, not {truth:?}"));
        }
        let Some(state) = self.next(op, truth) else {
            return Ok(());
        };
        if to_server {
            self.server.write(key, state);
            self.touched.insert(key);
        } else {
            self.etcd.write(key, state);
        }
        self.history.entry(key).or_default().push(state);
        Ok(())
    }

    /// Returns the state that an operation makes of this one; nothing where it is refused.
    fn next(&mut self, op: Op, state: State) -> Option<State> {
        self.writes += 1;
        let write = self.writes;
        match (op, state) {
            (Op::Create, None) => {
                self.incarnations += 1;
                Some(Some(Object {
                    incarnation: self.incarnations,
                    write,
                }))
            }
            (Op::Update, Some(object)) => Some(Some(Object { write, ..object })),
            (Op::Delete, Some(_)) => Some(None),
            _ => None,
        }
    }

    /// Sends bookmarks of the CRD, as they come every minute.
    pub fn bookmark_crd(&mut self) {
        self.bookmark(Source::Etcd, self.etcd.version);
    }

    /// Raises our counter, and tells the watches.
    pub fn raise_counter(&mut self, version: u64) {
        self.server.raise(version);
        self.bookmark(Source::Server, self.server.version);
    }

    /// Changes the CRD: all watches on it are drained, and caches begin anew.
    pub fn change_crd(&mut self, door: Door) {
        self.excuse_the_absent();
        self.door = door;
        self.etcd.version += 1;
        self.etcd.horizon = self.etcd.version;
        self.cut(Source::Etcd);
    }

    /// Moves the gate as the server does.
    pub fn set_gate(&mut self, state: GateState, settled: Option<bool>) {
        let was_open = self.gate.state == GateState::Open && self.gate.opened;
        self.gate.frozen = match state {
            GateState::Open => None,
            _ if was_open => Some(self.server.version),
            GateState::Held if self.gate.state == GateState::Closed => None,
            _ => self.gate.frozen,
        };
        if state != GateState::Held {
            self.gate.released = false;
        } else if was_open {
            self.watchers_come_along();
        }
        if state == GateState::Closed {
            if let Some(last) = self.gate.frozen {
                self.end_watches(last);
            }
            self.cut(Source::Server);
            self.put_etcd_in_charge();
        }
        self.gate.state = state;
        self.gate.settled = settled.unwrap_or(self.gate.settled);
        if state == GateState::Open && !self.gate.opened {
            self.gate.opened = true;
        }
    }

    /// Marks the gate as released, because etcd has everything: the last bookmark is etcd's
    /// revision.
    pub fn release_gate(&mut self) {
        self.gate.released = true;
        self.put_etcd_in_charge();
        self.gate.frozen = self.gate.frozen.max(Some(self.etcd.version));
    }

    /// Changes the APIService; each kube-apiserver notices in its own time.
    pub fn set_api_service(&mut self, ours: bool) {
        if !ours && !self.gate.opened {
            self.put_etcd_in_charge();
        }
        self.ours = ours;
    }

    /// Lets a kube-apiserver, or last our server, notice. What is open there goes on: watches on
    /// the CRD until it is changed, those on our server until the gate closes.
    pub fn notice(&mut self, who: usize) {
        self.known[who] = self.ours;
    }

    /// Returns whether every request is answered.
    pub fn is_served(&self) -> bool {
        self.all_know() && (!self.ours || self.serves())
    }

    /// Returns whether all have noticed where the APIService leads.
    pub fn all_know(&self) -> bool {
        self.known.iter().all(|known| *known == self.ours)
    }

    /// Checks the cluster after everything has come to rest.
    pub fn at_rest(&self, disturbed: bool) -> Result<(), Flaw> {
        let (store, name) = if self.ours {
            (&self.server, "the server")
        } else {
            (&self.etcd, "etcd")
        };
        if let Some(flaw) = self.untold(|_, _| true) {
            return Err(flaw);
        }
        let keys = self.history.keys().chain(store.objects.keys());
        for key in keys {
            if store.get(*key) != self.truth(*key) {
                return Err(format!(
                    "{name} has {:?} of {key}, not {:?}",
                    store.get(*key),
                    self.truth(*key)
                ));
            }
        }
        self.watchers_at_rest(disturbed)
    }
}
