//! The knowledge of the clients of all servers about their writes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Nobody has heard of the write: it was made or not, and if so, once.
const OPEN: u64 = 1;
/// The answer said that it was not made.
const REFUSED: u64 = 2;
/// Versions are above this, so that they can be told from the marks.
pub const FIRST_VERSION: u64 = 1000;

/// The fate of each write, by its number. Numbers begin at 1.
pub struct Ledger {
    fates: Vec<AtomicU64>,
    next: AtomicU64,
    acknowledged: AtomicU64,
    newest: AtomicU64,
}

impl Ledger {
    /// For at most `capacity` writes.
    pub fn new(capacity: usize) -> Self {
        Self {
            fates: (0..=capacity).map(|_| AtomicU64::new(0)).collect(),
            next: AtomicU64::new(1),
            acknowledged: AtomicU64::new(0),
            newest: AtomicU64::new(0),
        }
    }

    /// A number for a write that is about to be sent, while there is room for one.
    pub fn begin(&self) -> Option<u64> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let fate = self.fates.get(usize::try_from(id).ok()?)?;
        fate.store(OPEN, Ordering::Release);
        Some(id)
    }

    /// The write was made and has this version.
    pub fn acknowledge(&self, id: u64, rv: u64) {
        assert!(rv > FIRST_VERSION, "version {rv}");
        self.fate(id).store(rv, Ordering::Release);
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        self.newest.fetch_max(rv, Ordering::Relaxed);
    }

    /// The write was not made.
    pub fn refuse(&self, id: u64) {
        self.fate(id).store(REFUSED, Ordering::Release);
    }

    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// The newest version that was acknowledged.
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }

    pub fn capacity(&self) -> usize {
        self.fates.len()
    }

    /// Writes that were begun.
    pub fn begun(&self) -> u64 {
        self.next.load(Ordering::Relaxed) - 1
    }

    /// Compares writes behind `since` with what one client has seen: the version of each write's
    /// event, by number.
    pub fn compare(&self, seen: &[u64], since: u64) -> Comparison {
        let mut result = Comparison::default();
        let since = usize::try_from(since).unwrap() + 1;
        for (fate, seen) in self.fates.iter().zip(seen).skip(since) {
            match (fate.load(Ordering::Acquire), *seen) {
                (0 | REFUSED, 0) => {}
                (0 | REFUSED, _) => result.invented += 1,
                (OPEN, 0) => result.never_made += 1,
                (OPEN, _) => result.made_unheard += 1,
                (_, 0) => result.lost += 1,
                (acknowledged, seen) if acknowledged == seen => result.seen += 1,
                _ => result.other_version += 1,
            }
        }
        result
    }

    fn fate(&self, id: u64) -> &AtomicU64 {
        &self.fates[usize::try_from(id).unwrap()]
    }
}

/// The result of [`Ledger::compare`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Acknowledged and seen.
    pub seen: u64,
    /// Acknowledged, and not seen.
    pub lost: u64,
    /// Seen with another version than was acknowledged.
    pub other_version: u64,
    /// Seen, although the answer said that it was not made.
    pub invented: u64,
    /// Made, without anybody having heard of it.
    pub made_unheard: u64,
    /// Not made, without anybody having heard of it.
    pub never_made: u64,
}

impl Comparison {
    pub fn is_clean(&self) -> bool {
        self.lost + self.other_version + self.invented == 0
    }
}
