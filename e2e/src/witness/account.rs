//! The comparison of acknowledged writes with the events that were seen and the stored objects.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Serialize;

use super::Origin;
use super::ledger::{Ack, Did, Ledger};
use super::state::{ObjectState, State};
use super::watchers::{Log, Watcher, ack_key, seen_key};
use testreports::ReportKind;

/// Most examples of each kind of fault that are kept.
const EXAMPLES: usize = 20;

/// Kinds and beginnings of names of doubted objects; see [`Ledger::doubts`].
type Doubts = [(ReportKind, String)];

/// The result of the witness. All counts but those of requests, writes and events should be 0.
#[derive(Clone, Debug, Default, Serialize, PartialEq)]
pub struct Account {
    /// Requests that the writers and listers sent.
    pub requests: u64,
    /// Writes that were acknowledged.
    pub writes: u64,
    /// Events that the watchers saw.
    pub events: u64,
    /// Requests that failed or were answered as a healthy API does not answer.
    pub failed_requests: u64,
    /// Longest time from request to answer, in milliseconds.
    pub longest_wait_ms: u64,
    /// The request that waited longest.
    pub longest_request: String,
    /// Acknowledged writes that a watcher did not see, summed over watchers.
    pub events_missed: u64,
    /// Events that a watcher saw more than once.
    pub events_duplicated: u64,
    /// Events with a version not above that of the one before.
    pub events_out_of_order: u64,
    /// Events that no acknowledged write explains.
    pub events_unexplained: u64,
    /// Watchers that met a 410 or something else that they cannot survive.
    pub watchers_dead: u64,
    /// Times an informer had to list again.
    pub relists: u64,
    /// Watches that had to list once because they were the incumbent's.
    pub lists_expected: u64,
    /// Updates that met a conflict because the version was the incumbent's.
    pub conflicts_expected: u64,
    /// Objects that should be stored and are not.
    pub objects_lost: u64,
    /// Objects whose uid, version or content is not the acknowledged one, or that should be gone.
    pub objects_changed: u64,
    /// A few of the faults in words.
    pub examples: Vec<String>,
}

impl Account {
    /// Returns whether every acknowledged write was seen and kept, whatever requests failed.
    #[must_use]
    pub fn nothing_lost(&self) -> bool {
        Self {
            failed_requests: 0,
            ..self.clone()
        }
        .is_clean()
    }

    /// Returns whether no client noticed anything.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let noticed = Self {
            requests: 0,
            writes: 0,
            events: 0,
            longest_wait_ms: 0,
            longest_request: String::new(),
            lists_expected: 0,
            conflicts_expected: 0,
            examples: Vec::new(),
            ..self.clone()
        };
        noticed == Self::default()
    }

    fn example(&mut self, text: impl FnOnce() -> String) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(text());
        }
    }
}

/// Returns the whole account.
pub fn settle(
    ledger: &Ledger,
    watchers: &[Arc<Watcher>],
    before: &State,
    after: &State,
    origin: Origin,
) -> Account {
    let acks = ledger.acknowledged();
    let doubts = ledger.doubts();
    let failures = ledger.failures();
    let (longest, what) = ledger.longest();
    let mut account = Account {
        requests: ledger.so_far().0,
        writes: acks.len() as u64,
        failed_requests: failures.len() as u64,
        longest_wait_ms: u64::try_from(longest.as_millis()).unwrap_or(u64::MAX),
        longest_request: what,
        conflicts_expected: ledger.conflicts(),
        ..Account::default()
    };
    for watcher in watchers {
        let log = watcher.log();
        let expected: Vec<&Ack> = acks
            .iter()
            .filter(|ack| watcher.expects(ack, &log))
            .collect();
        events(&mut account, watcher, &log, &expected, &doubts);
    }
    objects(&mut account, &acks, (before, after), &doubts, origin);
    // Refused requests are many where something was broken on purpose; the rest is what matters then.
    let left = EXAMPLES.saturating_sub(account.examples.len());
    account.examples.extend(failures.into_iter().take(left));
    account
}

/// Returns whether a write of this object got no answer.
fn doubted(doubts: &Doubts, kind: ReportKind, name: &str) -> bool {
    doubts
        .iter()
        .any(|(of, start)| *of == kind && name.starts_with(start.as_str()))
}

fn events(account: &mut Account, watcher: &Watcher, log: &Log, expected: &[&Ack], doubts: &Doubts) {
    let name = watcher.name();
    account.events += log.events.len() as u64 + log.at_incumbent.unwrap_or(0);
    account.relists += u64::from(log.relists);
    account.lists_expected += u64::from(log.at_incumbent.is_some());
    if watcher.lags(log) {
        account.watchers_dead += 1;
        account.example(|| format!("{name} still watches at the incumbent"));
        return;
    }
    if let Some(why) = &log.died {
        account.watchers_dead += 1;
        account.example(|| format!("{name} died: {why}"));
    }
    let mut seen: HashMap<_, (u64, &str)> = HashMap::new();
    let mut last = log.since;
    for event in &log.events {
        seen.entry(seen_key(event)).or_insert((0, &event.name)).0 += 1;
        if event.version <= last {
            account.events_out_of_order += 1;
            account.example(|| format!("{name}: {event:?} came after version {last}"));
        }
        last = last.max(event.version);
    }
    for ack in expected {
        match seen.remove(&ack_key(ack)) {
            None => {
                account.events_missed += 1;
                account.example(|| format!("{name}: never saw {ack:?}"));
            }
            Some((times, _)) if times > 1 => {
                account.events_duplicated += times - 1;
                account.example(|| format!("{name}: saw {ack:?} {times} times"));
            }
            Some(_) => {}
        }
    }
    let of_writers = |name: &str| !doubted(doubts, watcher.kind(), name);
    for (event, (times, _)) in seen.into_iter().filter(|(_, (_, name))| of_writers(name)) {
        account.events_unexplained += times;
        account.example(|| format!("{name}: saw {event:?}, which nobody wrote"));
    }
}

/// Returns the state that must be stored at the end: the former state, changed by the acknowledged
/// writes.
fn expected_objects(
    acks: &[Ack],
    before: &State,
) -> BTreeMap<(ReportKind, (String, String)), Option<ObjectState>> {
    let mut expected: BTreeMap<_, _> = before
        .0
        .iter()
        .map(|(key, state)| (key.clone(), Some(state.clone())))
        .collect();
    for ack in acks {
        let state = (ack.did != Did::Delete).then(|| ack.state.clone());
        expected.insert((ack.kind, ack.key.clone()), state);
    }
    expected
}

fn objects(
    account: &mut Account,
    acks: &[Ack],
    (before, after): (&State, &State),
    doubts: &Doubts,
    origin: Origin,
) {
    let expected = expected_objects(acks, before);
    let sure = |key: &(ReportKind, (String, String))| !doubted(doubts, key.0, &key.1.1);
    for (key, wanted) in expected.iter().filter(|(key, _)| sure(key)) {
        match (wanted, after.0.get(key)) {
            (Some(_), None) => {
                account.objects_lost += 1;
                account.example(|| format!("{key:?} is lost"));
            }
            (Some(wanted), Some(found)) if !found.is(wanted, origin) => {
                account.objects_changed += 1;
                account.example(|| format!("{key:?} should be {wanted:?} and is {found:?}"));
            }
            (None, Some(_)) => {
                account.objects_changed += 1;
                account.example(|| format!("{key:?} was deleted and is there"));
            }
            _ => {}
        }
    }
    for key in after
        .0
        .keys()
        .filter(|key| !expected.contains_key(key) && sure(key))
    {
        account.objects_changed += 1;
        account.example(|| format!("{key:?} is there and nobody made it"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::watchers::{EventType, Seen, Style};

    fn watcher() -> Watcher {
        Watcher::new(
            ReportKind::PolicyReport,
            Style::Informer,
            Origin::Kubernetes,
        )
    }

    fn ack(did: Did, name: &str, version: u64) -> Ack {
        Ack {
            kind: ReportKind::PolicyReport,
            did,
            key: ("n".into(), name.into()),
            state: ObjectState {
                uid: name.into(),
                version,
                checksum: "c".into(),
                content: "c".into(),
            },
        }
    }

    fn seen(type_: EventType, uid: &str, version: u64) -> Seen {
        Seen {
            type_,
            uid: uid.into(),
            name: uid.into(),
            version,
        }
    }

    fn log(events: Vec<Seen>) -> Log {
        Log {
            since: 5,
            events,
            ..Log::default()
        }
    }

    #[test]
    fn what_was_seen_once_and_in_order_is_clean() {
        let acks = [
            ack(Did::Create, "a", 6),
            ack(Did::Update, "a", 7),
            ack(Did::Delete, "a", 7),
        ];
        let log = log(vec![
            seen(EventType::Added, "a", 6),
            seen(EventType::Modified, "a", 7),
            seen(EventType::Deleted, "a", 9),
        ]);
        let mut account = Account::default();
        events(
            &mut account,
            &watcher(),
            &log,
            &acks.iter().collect::<Vec<_>>(),
            &[],
        );
        assert!(account.is_clean(), "{account:?}");
    }

    #[test]
    fn every_fault_of_a_watch_is_counted_as_what_it_is() {
        let acks = [
            ack(Did::Create, "a", 6),
            ack(Did::Create, "b", 7),
            ack(Did::Create, "c", 8),
        ];
        let log = log(vec![
            seen(EventType::Added, "c", 8),
            seen(EventType::Added, "a", 6),
            seen(EventType::Added, "c", 8),
            seen(EventType::Modified, "x", 10),
        ]);
        let mut account = Account::default();
        events(
            &mut account,
            &watcher(),
            &log,
            &acks.iter().collect::<Vec<_>>(),
            &[],
        );
        assert_eq!(account.events_missed, 1, "b");
        assert_eq!(account.events_duplicated, 1, "c");
        assert_eq!(account.events_out_of_order, 2, "a, and c again");
        assert_eq!(account.events_unexplained, 1, "x");
        assert!(!account.is_clean());
    }

    #[test]
    fn a_write_without_an_answer_may_have_happened_or_not() {
        let log = log(vec![seen(EventType::Added, "doubted-x1", 6)]);
        let mut account = Account::default();
        let doubts = [(ReportKind::PolicyReport, "doubted-".to_owned())];
        events(&mut account, &watcher(), &log, &[], &doubts);
        let after = State(
            [(
                (ReportKind::PolicyReport, ("n".into(), "doubted-x1".into())),
                ack(Did::Create, "d", 6).state,
            )]
            .into(),
        );
        let states = (&State::default(), &after);
        objects(&mut account, &[], states, &doubts, Origin::Kubernetes);
        assert!(account.is_clean(), "{account:?}");
    }

    #[test]
    fn after_the_incumbent_only_what_follows_the_list_counts() {
        let watcher = Watcher::new(ReportKind::PolicyReport, Style::Informer, Origin::Incumbent);
        let acks = [
            ack(Did::Create, "before", 3),
            ack(Did::Delete, "before", 3),
            ack(Did::Delete, "listed", 2),
            ack(Did::Create, "after", 6),
        ];
        let mut log = log(vec![
            seen(EventType::Added, "after", 6),
            seen(EventType::Deleted, "listed", 7),
        ]);
        log.listed.insert("listed".into());
        assert!(watcher.lags(&log));
        log.at_incumbent = Some(9);
        let mut account = Account::default();
        let expected = acks.iter().filter(|ack| watcher.expects(ack, &log));
        let expected: Vec<_> = expected.collect();
        assert_eq!(expected.len(), 2);
        events(&mut account, &watcher, &log, &expected, &[]);
        assert!(account.is_clean(), "{account:?}");
        assert_eq!((account.lists_expected, account.events), (1, 11));
    }

    #[test]
    fn the_final_state_is_compared_object_by_object() {
        let state = |acks: &[Ack]| {
            State(
                acks.iter()
                    .map(|a| ((a.kind, a.key.clone()), a.state.clone()))
                    .collect(),
            )
        };
        let before = state(&[ack(Did::Create, "kept", 1), ack(Did::Create, "lost", 2)]);
        let acks = [
            ack(Did::Create, "new", 6),
            ack(Did::Create, "gone", 7),
            ack(Did::Delete, "gone", 7),
            ack(Did::Create, "moved", 8),
        ];
        let after = state(&[
            ack(Did::Create, "kept", 1),
            ack(Did::Create, "new", 6),
            ack(Did::Create, "gone", 7),
            ack(Did::Create, "moved", 9),
        ]);
        let mut account = Account::default();
        objects(
            &mut account,
            &acks,
            (&before, &after),
            &[],
            Origin::Kubernetes,
        );
        assert_eq!(
            (account.objects_lost, account.objects_changed),
            (1, 2),
            "{account:?}"
        );
        let mut account = Account::default();
        objects(
            &mut account,
            &acks,
            (&before, &after),
            &[],
            Origin::Incumbent,
        );
        let counts = (account.objects_lost, account.objects_changed);
        assert_eq!(counts, (1, 1), "the version is not compared: {account:?}");
    }
}
