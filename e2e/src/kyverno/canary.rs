//! Canaries: objects whose report is made at their admission only, and must be there a minute
//! after.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest time until the report.
pub const LIMIT: Duration = Duration::from_mins(1);

/// One canary.
#[derive(Clone, Debug)]
struct Canary {
    namespace: String,
    name: String,
    made: Instant,
    /// The time at which its report was seen.
    reported: Option<Instant>,
    lost: bool,
    deleted: bool,
}

/// All canaries, by uid.
#[derive(Debug, Default)]
pub struct Canaries {
    all: Mutex<BTreeMap<String, Canary>>,
}

/// The counts of canaries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// All canaries.
    pub made: u64,
    /// Canaries without a report after [`LIMIT`].
    pub lost: u64,
    /// Lost canaries that never got a report.
    pub never: u64,
    /// Longest time until a report, in milliseconds.
    pub longest_ms: u64,
}

impl Canaries {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Canary>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one more.
    pub fn made(&self, uid: String, namespace: String, name: String) {
        let canary = Canary {
            namespace,
            name,
            made: Instant::now(),
            reported: None,
            lost: false,
            deleted: false,
        };
        self.all().insert(uid, canary);
    }

    /// Notes that reports have been seen; returns the names of those that are late since now.
    pub fn seen(&self, reports: &HashSet<String>) -> Vec<String> {
        let mut late = Vec::new();
        for (uid, canary) in self.all().iter_mut() {
            if canary.reported.is_some() || canary.deleted {
                continue;
            }
            if reports.contains(uid) {
                canary.reported = Some(Instant::now());
            } else if !canary.lost && canary.made.elapsed() > LIMIT {
                canary.lost = true;
                late.push(format!("{}/{} ({uid})", canary.namespace, canary.name));
            }
        }
        late
    }

    /// Returns whether the report of each was seen, or is late.
    pub fn settled(&self) -> bool {
        self.all().values().all(|c| c.reported.is_some() || c.lost)
    }

    /// Returns the oldest with a report, as namespace and name, which is to be deleted; every
    /// fourth stays.
    pub fn take(&self) -> Option<(String, String)> {
        let mut all = self.all();
        let mut candidates: Vec<_> = all
            .values_mut()
            .filter(|canary| !canary.deleted && canary.reported.is_some())
            .filter(|canary| !canary.name.ends_with(['0', '4', '8']))
            .collect();
        candidates.sort_by_key(|canary| canary.made);
        let canary = candidates.into_iter().next()?;
        canary.deleted = true;
        Some((canary.namespace.clone(), canary.name.clone()))
    }

    /// Returns one that lives, as namespace and name, to be changed.
    pub fn some(&self, number: u64) -> Option<(String, String)> {
        let all = self.all();
        let living: Vec<_> = all.values().filter(|canary| !canary.deleted).collect();
        let place = usize::try_from(number).ok()? % living.len().max(1);
        let canary = living.get(place)?;
        Some((canary.namespace.clone(), canary.name.clone()))
    }

    /// Returns the counts until now.
    pub fn counts(&self) -> Counts {
        let all = self.all();
        let count = |of: &dyn Fn(&Canary) -> bool| {
            u64::try_from(all.values().filter(|canary| of(canary)).count()).unwrap_or(u64::MAX)
        };
        let waits = all.values().filter_map(|c| Some(c.reported? - c.made));
        let longest = waits.max().unwrap_or_default().as_millis();
        Counts {
            made: count(&|_| true),
            lost: count(&|canary| canary.lost),
            never: count(&|canary| canary.lost && canary.reported.is_none()),
            longest_ms: u64::try_from(longest).unwrap_or(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_is_deleted_only_with_its_report() {
        let canaries = Canaries::default();
        canaries.made("a".into(), "n".into(), "c1".into());
        canaries.made("b".into(), "n".into(), "c4".into());
        assert_eq!(canaries.take(), None);
        let late = canaries.seen(&HashSet::from(["a".to_owned(), "b".to_owned()]));
        assert!(late.is_empty() && canaries.settled());
        assert_eq!(canaries.take(), Some(("n".into(), "c1".into())));
        assert_eq!(canaries.take(), None);
        assert_eq!(canaries.some(7), Some(("n".into(), "c4".into())));
        let counts = canaries.counts();
        assert_eq!((counts.made, counts.lost, counts.never), (2, 0, 0));
    }
}
