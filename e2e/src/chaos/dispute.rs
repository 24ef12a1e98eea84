//! Explains flaws by an APIService that somebody deleted while the server had the group. For a
//! moment both sides take writes; the operator merges them by a rule (`docs/migration.md`) and
//! names the writes that it dropped. These, and what clients saw in between, are no flaws.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use super::ledger::{Key, Ledger};
use super::tally::{Flaw, Suspect};

/// Time after its return for which a client may still be answered from the former state.
const UNDER_WAY: Duration = Duration::from_secs(2);

/// The time in which an APIService was away.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// A moment before it was deleted.
    pub from: Instant,
    /// The moment when it was seen to lead to the server again.
    pub to: Instant,
}

impl Window {
    /// Returns whether either side may have answered at that time.
    #[must_use]
    pub fn holds(&self, at: Instant) -> bool {
        self.from <= at && at <= self.to + UNDER_WAY
    }

    /// Returns whether a request that began at that time may have got to either side, however long
    /// it took.
    #[must_use]
    pub fn spans(&self, since: Instant) -> bool {
        self.from <= since && since <= self.to
    }
}

/// A round in which an APIService was deleted.
#[derive(Debug, Default)]
pub struct Dispute {
    /// The times when it was away.
    pub windows: Vec<Window>,
    /// Objects whose writes to etcd gave way to the server's, as the operator reports.
    pub dropped: HashSet<Key>,
}

impl Dispute {
    /// Returns the objects that were written to while an APIService was away.
    #[must_use]
    pub fn touched(&self, ledger: &Ledger) -> HashSet<Key> {
        let mut touched = HashSet::new();
        ledger.each(|key, history| {
            let ended = history.ops.iter().filter_map(|op| op.ended);
            if ended
                .into_iter()
                .any(|at| self.windows.iter().any(|window| window.holds(at)))
            {
                touched.insert(key.clone());
            }
        });
        touched
    }

    /// Returns whether the rule of the merge explains a suspect.
    #[must_use]
    pub fn explains(&self, suspect: &Suspect, touched: &HashSet<Key>) -> bool {
        let of = |keys: &HashSet<Key>| suspect.key.as_ref().is_some_and(|key| keys.contains(key));
        let mut windows = self.windows.iter();
        let then = windows.any(|window| window.holds(suspect.at) || window.spans(suspect.since));
        of(&self.dropped)
            || match suspect.flaw {
                Flaw::StaleRead | Flaw::RetryWatcherDead | Flaw::ExpiredWithBookmarks => then,
                Flaw::Missed | Flaw::Duplicated | Flaw::OutOfOrder | Flaw::Phantom => of(touched),
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::ledger::{Fate, What};
    use testreports::ReportKind;

    fn key(name: &str) -> Key {
        Key {
            kind: ReportKind::PolicyReport,
            namespace: "n".into(),
            name: name.into(),
        }
    }

    #[test]
    fn only_what_was_named_may_be_lost_and_only_what_was_written_then_may_be_missed() {
        let ledger = Ledger::default();
        let from = Instant::now();
        let stamp = ledger.begin(&key("written"), What::Create, false);
        ledger.end(&key("written"), stamp, Fate::Acknowledged, "1".into());
        let dispute = Dispute {
            windows: vec![Window {
                from,
                to: Instant::now(),
            }],
            dropped: [key("named")].into(),
        };
        let touched = dispute.touched(&ledger);
        let took = |since, at, flaw, name: &str| Suspect {
            flaw,
            key: Some(key(name)),
            since,
            at,
            text: String::new(),
        };
        let suspect = |flaw, name: &str, at| took(at, at, flaw, name);
        let later = from + Duration::from_mins(1);
        for (flaw, name, at, explained) in [
            (Flaw::Lost, "named", later, true),
            (Flaw::Lost, "written", from, false),
            (Flaw::Resurrected, "written", from, false),
            (Flaw::Missed, "written", later, true),
            (Flaw::Missed, "other", later, false),
            (Flaw::StaleRead, "other", from, true),
            (Flaw::StaleRead, "other", later, false),
            (Flaw::RetryWatcherDead, "none", from, true),
            (Flaw::RetryWatcherDead, "none", later, false),
        ] {
            let found = dispute.explains(&suspect(flaw, name, at), &touched);
            assert_eq!(found, explained, "{flaw:?} of {name}");
        }
        // A read that takes long began while either side answered; one that began later did not.
        let to = dispute.windows[0].to;
        let slow = to + 2 * UNDER_WAY;
        for (since, explained) in [(to, true), (to + Duration::from_millis(1), false)] {
            let read = took(since, slow, Flaw::StaleRead, "other");
            assert_eq!(dispute.explains(&read, &touched), explained);
        }
    }
}
