//! The experience of the clients: requests, failures, waits, and faults of the states that they
//! saw.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::watch;

use super::ledger::Key;

/// Examples that are kept.
const EXAMPLES: usize = 20;

/// The present move of the groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// No move.
    #[default]
    Rest,
    /// The server takes them over.
    Forward,
    /// The CRDs get them back.
    Back,
}

/// A fault that a client noticed. All of them should be counted 0 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// An acknowledged create or update is not in the state.
    Lost,
    /// An object whose deletion was acknowledged is there.
    Resurrected,
    /// A watcher did not see an acknowledged write.
    Missed,
    /// A watcher saw a write again.
    Duplicated,
    /// A watcher saw an older state than before.
    OutOfOrder,
    /// A watcher saw a write that nobody made.
    Phantom,
    /// A list or get is older than a state that was acknowledged or shown before.
    StaleRead,
    /// A `RetryWatcher` of client-go has ended.
    RetryWatcherDead,
    /// A watcher that gets bookmarks met a 410, or had to list again.
    ExpiredWithBookmarks,
    /// A request failed in a round without faults.
    FailedRequest,
}

/// Things that are counted and may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Note {
    /// Requests sent, each try counted.
    Requests,
    /// 429 or 503 with a time after which to try again.
    Throttled,
    /// 429 or 503 without one.
    RefusedWithoutRetryAfter,
    /// A request failed in a round with faults.
    FailedInDisturbedRounds,
    /// 409 to a write with the version that was read.
    Conflicts,
    /// A watcher without bookmarks met a 410.
    ExpiredWithoutBookmarks,
    /// A watcher met a 410 after its kube-apiserver was started anew, as it does with any CRD.
    ExpiredAfterRestart,
    /// An informer of client-go listed again in a round with faults, as it does after any answer
    /// but 429 to its watch.
    ListedAgainInDisturbedRounds,
    /// A watch with bookmarks ended while no group went to the server, in a round without faults.
    WatchesEnded,
    /// Events that watchers saw.
    Events,
    /// Lists that were compared with the acknowledged writes.
    Reads,
    /// A flaw that a deleted APIService explains: both sides took writes.
    ExplainedByDeletedApiService,
}

/// A possible flaw, judged when the round is over.
#[derive(Clone, Debug)]
pub struct Suspect {
    /// The flaw.
    pub flaw: Flaw,
    /// The object; none for a flaw of a whole list or watch.
    pub key: Option<Key>,
    /// The time at which the request began that has shown it; [`Suspect::at`] for one that a watch
    /// has shown.
    pub since: tokio::time::Instant,
    /// The time at which it was noticed.
    pub at: tokio::time::Instant,
    /// The flaw in words.
    pub text: String,
}

/// The present moment of the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Number of the round, from 1.
    pub round: u32,
    /// The present direction.
    pub direction: Direction,
    /// True when faults are made in this round.
    pub disturbed: bool,
    /// The kube-apiserver that was started anew in this round.
    pub restarted: Option<usize>,
    /// True if an APIService is deleted in this round.
    pub disputed: bool,
}

#[derive(Default)]
struct Inner {
    moment: Moment,
    flaws: BTreeMap<Flaw, u64>,
    notes: BTreeMap<Note, u64>,
    waits: BTreeMap<Direction, (Duration, String)>,
    disturbed_wait: Duration,
    suspects: Vec<Suspect>,
    examples: Vec<String>,
    /// Objects that were written while an APIService was away, in any round.
    merged: HashSet<Key>,
    /// The time of the last restart of each kube-apiserver that had one.
    restarts: BTreeMap<usize, Instant>,
}

/// The counts of a run. See the module.
pub struct Tally {
    began: Instant,
    requests: AtomicU64,
    inner: Mutex<Inner>,
    /// The kube-apiserver that is being started.
    starting: watch::Sender<Option<usize>>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            requests: AtomicU64::new(0),
            inner: Mutex::default(),
            starting: watch::Sender::new(None),
        }
    }
}

impl Tally {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the present moment of the run.
    #[must_use]
    pub fn moment(&self) -> Moment {
        self.inner().moment
    }

    /// Goes on to another moment of the run.
    pub fn go(&self, change: impl FnOnce(&mut Moment)) {
        change(&mut self.inner().moment);
    }

    /// Notes that a kube-apiserver is being started, or that none is.
    pub fn starting(&self, apiserver: Option<usize>) {
        if let Some(apiserver) = apiserver {
            self.inner().restarts.insert(apiserver, Instant::now());
        }
        self.starting.send_replace(apiserver);
    }

    /// Returns whether a kube-apiserver was started anew after `then`.
    #[must_use]
    pub fn restarted_since(&self, apiserver: usize, then: Instant) -> bool {
        let last = self.inner().restarts.get(&apiserver).copied();
        last.is_some_and(|last| last >= then)
    }

    /// Waits while a kube-apiserver is being started, as a load balancer has its clients do.
    pub async fn ready(&self, apiserver: usize) {
        let mut starting = self.starting.subscribe();
        // It ends well: the sender is here.
        drop(starting.wait_for(|now| *now != Some(apiserver)).await);
    }

    /// Returns the seconds since the start.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Counts one more of these.
    pub fn note(&self, note: Note) {
        if note == Note::Requests {
            self.requests.fetch_add(1, Ordering::Relaxed);
        } else {
            *self.inner().notes.entry(note).or_default() += 1;
        }
    }

    /// Returns the number of these.
    #[must_use]
    pub fn noted(&self, note: Note) -> u64 {
        if note == Note::Requests {
            return self.requests.load(Ordering::Relaxed);
        }
        self.inner().notes.get(&note).copied().unwrap_or_default()
    }

    /// Counts a flaw.
    pub fn flaw(&self, flaw: Flaw, text: impl FnOnce() -> String) {
        let seconds = self.seconds();
        let mut inner = self.inner();
        let count = inner.flaws.entry(flaw).or_default();
        *count += 1;
        // Some of each kind, so that one that comes often leaves room for the others.
        let few = *count <= 3;
        let moment = inner.moment;
        let example = format!(
            "[{seconds:.1} s, round {} {:?}] {flaw:?}: {}",
            moment.round,
            moment.direction,
            text()
        );
        tracing::warn!(example, "a flaw");
        if few && inner.examples.len() < EXAMPLES {
            inner.examples.push(example);
        }
    }

    /// Counts a flaw of an object, which may be explained at the end of the round.
    pub fn flaw_of(&self, flaw: Flaw, key: &Key, text: impl FnOnce() -> String) {
        self.suspect(flaw, Some(key), text);
    }

    /// Counts a flaw, which may be explained at the end of the round.
    pub fn suspect(&self, flaw: Flaw, key: Option<&Key>, text: impl FnOnce() -> String) {
        self.suspect_since(tokio::time::Instant::now(), flaw, key, text);
    }

    /// Counts a read, begun at `since`, that was older than a write acknowledged before. It may be
    /// explained at the end of the round.
    pub fn stale_read(
        &self,
        since: tokio::time::Instant,
        key: Option<&Key>,
        text: impl FnOnce() -> String,
    ) {
        self.suspect_since(since, Flaw::StaleRead, key, text);
    }

    fn suspect_since(
        &self,
        since: tokio::time::Instant,
        flaw: Flaw,
        key: Option<&Key>,
        text: impl FnOnce() -> String,
    ) {
        let seconds = self.seconds();
        let mut inner = self.inner();
        if inner.moment.disputed {
            let direction = inner.moment.direction;
            inner.suspects.push(Suspect {
                flaw,
                key: key.cloned(),
                since,
                at: tokio::time::Instant::now(),
                text: format!("found at {seconds:.1} s, {direction:?}: {}", text()),
            });
            return;
        }
        drop(inner);
        self.flaw(flaw, text);
    }

    /// Ends the round: a suspect that is not explained is a flaw.
    pub fn judge(&self, explains: impl Fn(&Suspect) -> bool) {
        let suspects = std::mem::take(&mut self.inner().suspects);
        for suspect in suspects {
            if explains(&suspect) {
                tracing::info!(?suspect, "explained");
                self.note(Note::ExplainedByDeletedApiService);
            } else {
                self.flaw(suspect.flaw, || suspect.text.clone());
            }
        }
    }

    /// Notes objects that were written while an APIService was away.
    pub fn merged(&self, keys: HashSet<Key>) {
        self.inner().merged.extend(keys);
    }

    /// Returns whether an object was written while an APIService was away. What etcd has of it may
    /// have a version below the one that the server gave it when it took the write over.
    #[must_use]
    pub fn was_merged(&self, key: &Key) -> bool {
        self.inner().merged.contains(key)
    }

    /// Counts a failed request: a flaw unless faults are being made.
    pub fn failed(&self, text: String) {
        if self.moment().disturbed {
            tracing::info!(text, "a request failed in a disturbed round");
            self.note(Note::FailedInDisturbedRounds);
        } else {
            self.flaw(Flaw::FailedRequest, || text);
        }
    }

    /// Returns the number of flaws of a kind.
    #[must_use]
    pub fn flaws(&self, flaw: Flaw) -> u64 {
        self.inner().flaws.get(&flaw).copied().unwrap_or_default()
    }

    /// Returns the number of all flaws together.
    #[must_use]
    pub fn all_flaws(&self) -> u64 {
        self.inner().flaws.values().sum()
    }

    /// Notes that a write waited this long for its answer.
    pub fn waited(&self, took: Duration, what: &str) {
        let mut inner = self.inner();
        let moment = inner.moment;
        if moment.disturbed {
            inner.disturbed_wait = took.max(inner.disturbed_wait);
            return;
        }
        let longest = inner.waits.entry(moment.direction).or_default();
        if took > longest.0 {
            *longest = (took, what.to_owned());
        }
    }

    /// Returns the longest wait in a direction, and the write that waited.
    #[must_use]
    pub fn longest(&self, direction: Direction) -> (Duration, String) {
        let inner = self.inner();
        inner.waits.get(&direction).cloned().unwrap_or_default()
    }

    /// Returns the longest wait in rounds with faults.
    #[must_use]
    pub fn longest_disturbed(&self) -> Duration {
        self.inner().disturbed_wait
    }

    /// Returns the first flaws in words.
    #[must_use]
    pub fn examples(&self) -> Vec<String> {
        self.inner().examples.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_disturbed_rounds_are_told_apart() {
        let tally = Tally::default();
        tally.failed("one".into());
        tally.go(|moment| moment.disturbed = true);
        tally.failed("two".into());
        assert_eq!(tally.flaws(Flaw::FailedRequest), 1);
        assert_eq!(tally.noted(Note::FailedInDisturbedRounds), 1);
        assert_eq!(tally.all_flaws(), 1);
        assert_eq!(tally.examples().len(), 1);
    }

    #[test]
    fn waits_are_those_of_a_direction() {
        let tally = Tally::default();
        tally.go(|moment| moment.direction = Direction::Back);
        tally.waited(Duration::from_millis(5), "a");
        tally.waited(Duration::from_millis(3), "b");
        let longest = (Duration::from_millis(5), "a".to_owned());
        assert_eq!(tally.longest(Direction::Back), longest);
        assert_eq!(tally.longest(Direction::Forward).0, Duration::ZERO);
    }

    #[tokio::test]
    async fn requests_wait_for_the_kube_apiserver_that_is_being_started() {
        let tally = Tally::default();
        tally.starting(Some(1));
        tally.ready(0).await;
        {
            let ready = tally.ready(1);
            tokio::pin!(ready);
            let early = tokio::time::timeout(Duration::from_millis(50), ready.as_mut());
            assert!(early.await.is_err());
            tally.starting(None);
            ready.await;
        }
        tally.ready(1).await;
    }
}
