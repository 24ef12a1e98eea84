//! The cluster of the model: etcd with the CRD, our server, the kube-apiservers between them and
//! clients, and the answers that clients got.

use std::collections::BTreeMap;

use crds::control::GateState;

use crate::migration::cluster::door::objects::Door;

/// Name of an object.
pub type Key = u8;
/// The number of kube-apiservers.
pub const APISERVERS: usize = 2;

/// An object and its content: the incarnation under its name, and the number of updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    pub incarnation: u32,
    pub updates: u32,
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

/// The origin of the events of an open watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Etcd,
    Server,
}

/// A client that watches, and comes back at once when its watch is cut by the other side.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a question of its own"
)]
pub struct Watcher {
    via: usize,
    bookmarks: bool,
    source: Option<Source>,
    /// True when its own connection is broken, and it has not come back yet.
    away: bool,
    /// True when it has come along with the way back that is under way.
    along: bool,
    /// True when it may be told 410 once: it takes no bookmarks, or was away when others were told
    /// more.
    excused: bool,
    /// True when it was away: of what was held it is told the last state only, and that perhaps
    /// again.
    repeats: bool,
    position: u64,
    /// The number of changes of each key that it has seen.
    seen: BTreeMap<Key, usize>,
    /// The number of times that it was told 410 without an excuse.
    pub expired: u32,
}

/// Everything outside the operator.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub etcd: Store,
    pub server: Store,
    pub gate: Gate,
    /// Copies in etcd that the server knows of.
    pub marks: BTreeMap<Key, State>,
    pub door: Door,
    /// True when the APIService leads to our server.
    pub ours: bool,
    /// The value of `ours` that each kube-apiserver knows, and last the one that our server knows.
    pub known: [bool; APISERVERS + 1],
    /// Every acknowledged change of each key.
    pub history: BTreeMap<Key, Vec<State>>,
    pub watchers: Vec<Watcher>,
    /// True when the server was brought up to etcd without a mirror: of several changes one event
    /// is left, and none of an object that came and went. A client that was connected has seen
    /// those from etcd; one that was away just then never hears of it.
    pub merged: bool,
    incarnations: u32,
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
        let watcher = |n| Watcher {
            via: n % APISERVERS,
            bookmarks: n < APISERVERS,
            source: None,
            away: false,
            along: false,
            excused: n >= APISERVERS,
            repeats: false,
            position: 0,
            seen: BTreeMap::new(),
            expired: 0,
        };
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
            door: Door::Closed,
            ours: false,
            known: [false; APISERVERS + 1],
            history: BTreeMap::new(),
            watchers: (0..2 * APISERVERS).map(watcher).collect(),
            merged: false,
            incarnations: 0,
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
        let truth = self.truth(key);
        let store = if to_server {
            &mut self.server
        } else {
            &mut self.etcd
        };
        if store.get(key) != truth {
            let found = store.get(key);
            return Err(format!("a client meets {found:?} of {key}, not {truth:?}"));
        }
        let state = match (op, truth) {
            (Op::Create, None) => {
                self.incarnations += 1;
                Some(Object {
                    incarnation: self.incarnations,
                    updates: 0,
                })
            }
            (Op::Update, Some(object)) => Some(Object {
                updates: object.updates + 1,
                ..object
            }),
            (Op::Delete, Some(_)) => None,
            _ => return Ok(()),
        };
        store.write(key, state);
        self.history.entry(key).or_default().push(state);
        Ok(())
    }

    /// Delivers to every watcher what there is; each comes back where it was cut.
    pub fn pump(&mut self) -> Result<(), Flaw> {
        for n in 0..self.watchers.len() {
            self.connect(n);
            self.deliver(n)?;
        }
        Ok(())
    }

    fn connect(&mut self, n: usize) {
        let watcher = &self.watchers[n];
        if watcher.away || watcher.source.is_some() {
            return;
        }
        let source = if self.known[watcher.via] {
            let past = self.gate.state == GateState::Held && self.gate.frozen.is_some();
            if !self.serves() && !past {
                return;
            }
            Source::Server
        } else {
            Source::Etcd
        };
        let store = self.store(source);
        if watcher.position > store.version {
            // It waits for that version.
            return;
        }
        let expired = watcher.position < store.horizon;
        self.watchers[n].source = Some(source);
        if expired {
            self.expire(n, source);
        }
    }

    /// Tells a watcher 410, which then lists.
    fn expire(&mut self, n: usize, source: Source) {
        let version = self.store(source).version;
        let all = self
            .history
            .iter()
            .map(|(key, states)| (*key, states.len()));
        let seen = all.collect();
        let watcher = &mut self.watchers[n];
        watcher.expired += u32::from(!watcher.excused);
        watcher.excused = !watcher.bookmarks;
        watcher.repeats = false;
        watcher.position = version;
        watcher.seen = seen;
    }

    /// Breaks the connection of a watcher.
    pub fn leave(&mut self, n: usize) {
        let watcher = &mut self.watchers[n];
        watcher.source = None;
        watcher.away = true;
        watcher.repeats = true;
        watcher.excused |= !watcher.along;
    }

    /// Notes the watchers that come along when requests are held on the way back: those that are
    /// connected now may leave and come back unnoticed.
    fn watchers_come_along(&mut self) {
        for watcher in &mut self.watchers {
            watcher.along = watcher.bookmarks && watcher.source == Some(Source::Server);
        }
    }

    /// Lets a watcher come back.
    pub fn come_back(&mut self, n: usize) {
        self.watchers[n].away = false;
    }

    /// Excuses the watchers that are away: from now on they are told new things, and too many.
    fn excuse_the_absent(&mut self) {
        for watcher in &mut self.watchers {
            watcher.along = false;
            watcher.excused |= watcher.away;
        }
    }

    fn store(&self, source: Source) -> &Store {
        match source {
            Source::Etcd => &self.etcd,
            Source::Server => &self.server,
        }
    }

    fn deliver(&mut self, n: usize) -> Result<(), Flaw> {
        let Some(source) = self.watchers[n].source else {
            return Ok(());
        };
        let events = self.store(source).since(self.watchers[n].position);
        for event in events {
            let states = self.history.get(&event.key).map_or(&[][..], Vec::as_slice);
            let watcher = &mut self.watchers[n];
            let seen = watcher.seen.entry(event.key).or_default();
            let next = states[*seen..].iter().position(|s| *s == event.state);
            let last = seen.checked_sub(1).map(|last| states[last]);
            match next {
                Some(0) => *seen += 1,
                _ if watcher.repeats && last == Some(event.state) => {}
                // What came and went is shown to come and go once more.
                _ if watcher.repeats
                    && last == Some(None)
                    && states[..*seen].contains(&event.state) => {}
                Some(skipped) if self.merged || watcher.repeats => *seen += skipped + 1,
                _ => {
                    return Err(format!(
                        "watcher {n} at {source:?} is told {event:?}; it has seen {seen} of {states:?}"
                    ));
                }
            }
            watcher.position = event.at;
        }
        Ok(())
    }

    /// Sends a bookmark to every watch on `source`.
    fn bookmark(&mut self, source: Source, version: u64) {
        let there = |w: &&mut Watcher| w.bookmarks && w.source == Some(source);
        for watcher in self.watchers.iter_mut().filter(there) {
            watcher.position = watcher.position.max(version);
        }
    }

    /// Ends the watches on our server: with a bookmark, and with 410 for those that take none.
    fn end_watches(&mut self, last: u64) {
        self.bookmark(Source::Server, last);
        for n in 0..self.watchers.len() {
            let watcher = &self.watchers[n];
            if !watcher.bookmarks && watcher.source == Some(Source::Server) {
                self.expire(n, Source::Etcd);
            }
        }
    }

    fn cut(&mut self, source: Source) {
        let there = |w: &&mut Watcher| w.source == Some(source);
        for watcher in self.watchers.iter_mut().filter(there) {
            watcher.source = None;
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
        self.gate.frozen = self.gate.frozen.max(Some(self.etcd.version));
    }

    /// Changes the APIService; each kube-apiserver notices in its own time.
    pub fn set_api_service(&mut self, ours: bool) {
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
        for (n, watcher) in self.watchers.iter().enumerate() {
            if watcher.expired > 0 && !disturbed {
                return Err(format!("watcher {n} was told 410"));
            }
            if self.merged && watcher.repeats {
                continue;
            }
            for (key, states) in &self.history {
                let seen = watcher.seen.get(key).copied().unwrap_or_default();
                if seen != states.len() {
                    return Err(format!(
                        "watcher {n} has seen {seen} of {states:?} of {key}"
                    ));
                }
            }
        }
        Ok(())
    }
}
