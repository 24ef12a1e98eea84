//! The clients that watch, and what they are told.

use std::collections::BTreeMap;

use crds::control::GateState;

use super::{APISERVERS, Cluster, Flaw, Key, Store};

/// The origin of the events of an open watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Etcd,
    Server,
}

/// A client that watches, and comes back at once when its watch is cut by the other side.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a question of its own"
)]
pub(super) struct Watcher {
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

impl Watcher {
    pub(super) fn new(n: usize) -> Self {
        Self {
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
        }
    }
}

impl Cluster {
    /// Delivers to every watcher what there is; each comes back where it was cut.
    pub fn pump(&mut self) -> Result<(), Flaw> {
        if let Some(flaw) = self.flaw.take() {
            return Err(flaw);
        }
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
    pub(super) fn watchers_come_along(&mut self) {
        for watcher in &mut self.watchers {
            watcher.along = watcher.bookmarks && watcher.source == Some(Source::Server);
        }
    }

    /// Lets a watcher come back.
    pub fn come_back(&mut self, n: usize) {
        self.watchers[n].away = false;
    }

    /// Excuses the watchers that are away: from now on they are told new things, and too many.
    pub(super) fn excuse_the_absent(&mut self) {
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
        if self.taken {
            // It is told of old states.
            return Ok(());
        }
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
    pub(super) fn bookmark(&mut self, source: Source, version: u64) {
        let there = |w: &&mut Watcher| w.bookmarks && w.source == Some(source);
        for watcher in self.watchers.iter_mut().filter(there) {
            watcher.position = watcher.position.max(version);
        }
    }

    /// Ends the watches on our server: with a bookmark, and with 410 for those that take none.
    pub(super) fn end_watches(&mut self, last: u64) {
        self.bookmark(Source::Server, last);
        for n in 0..self.watchers.len() {
            let watcher = &self.watchers[n];
            if !watcher.bookmarks && watcher.source == Some(Source::Server) {
                self.expire(n, Source::Etcd);
            }
        }
    }

    pub(super) fn cut(&mut self, source: Source) {
        let there = |w: &&mut Watcher| w.source == Some(source);
        for watcher in self.watchers.iter_mut().filter(there) {
            watcher.source = None;
        }
    }

    /// Checks that every watcher has seen everything, after it has come to rest.
    pub(super) fn watchers_at_rest(&self, disturbed: bool) -> Result<(), Flaw> {
        let watchers = self.watchers.iter().enumerate();
        for (n, watcher) in watchers.filter(|_| !self.taken) {
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
