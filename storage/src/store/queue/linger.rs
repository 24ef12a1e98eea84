//! Waiting for a moment before a transaction, so that it takes more writes along.
//!
//! Clients that write again as soon as they are answered fall into two halves: one is committed
//! while the other queues. Each write waits for two commits then, and each commit takes along half
//! of the writes that it could. Where a commit takes long compared with the way from an answer to
//! the next write, it pays to wait for the clients who were just answered.

use std::time::Duration;

/// Duration below which a commit is not worth waiting before.
const SLOW: Duration = Duration::from_micros(800);
/// Divisor of a commit's time for the longest wait before the next.
const PART: u32 = 4;
/// Longest wait.
const LONGEST: Duration = Duration::from_millis(2);
/// Most transactions that go without, after waits in vain, before it is tried again.
const MOST_SKIPPED: u32 = 64;

/// Decides whether to wait, and for how many writes.
#[derive(Debug, Default)]
pub(super) struct Linger {
    /// Writes that were under way when the last transaction ended: in it and behind it.
    expected: usize,
    /// The duration of the last transaction.
    took: Duration,
    /// Number of transactions that go without.
    skip: u32,
    /// Number of transactions that go without after the next wait in vain.
    penalty: u32,
}

impl Linger {
    /// Notes that a transaction took `took`, with `expected` writes under way.
    pub fn committed(&mut self, expected: usize, took: Duration) {
        self.expected = expected;
        self.took = took;
    }

    /// Returns the time to wait before the next transaction; `None` where that would not pay: for a
    /// lone client never.
    pub fn patience(&mut self) -> Option<Duration> {
        if self.expected < 2 || self.took < SLOW {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        Some((self.took / PART).min(LONGEST))
    }

    /// Returns whether as many writes wait as can be expected.
    pub fn is_reached(&self, writes: usize) -> bool {
        writes >= self.expected
    }

    /// Notes whether all came in time.
    pub fn ended(&mut self, came: bool) {
        self.penalty = if came {
            0
        } else {
            (self.penalty * 2).clamp(1, MOST_SKIPPED)
        };
        self.skip = self.penalty;
    }
}

/// Waits for less than the runtime's clock can tell, which counts milliseconds.
pub(super) async fn nap(length: Duration) {
    // A thread that cannot be had is no reason to wait.
    let _ = tokio::task::spawn_blocking(move || std::thread::sleep(length)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_lone_client_and_a_fast_disk_are_not_waited_for() {
        let mut linger = Linger::default();
        assert_eq!(linger.patience(), None, "nothing is known yet");
        linger.committed(1, 100 * MS);
        assert_eq!(linger.patience(), None);
        linger.committed(16, MS / 2);
        assert_eq!(linger.patience(), None);
    }

    #[test]
    fn the_wait_is_a_part_of_the_commit_and_bounded() {
        let mut linger = Linger::default();
        linger.committed(16, 4 * MS);
        assert_eq!(linger.patience(), Some(MS));
        assert!(!linger.is_reached(15) && linger.is_reached(16));
        linger.committed(16, 1000 * MS);
        assert_eq!(linger.patience(), Some(LONGEST));
    }

    #[test]
    fn waits_in_vain_become_rare() {
        let mut linger = Linger::default();
        let mut waits = 0;
        for _ in 0..1000 {
            linger.committed(16, 4 * MS);
            if linger.patience().is_some() {
                waits += 1;
                linger.ended(false);
            }
        }
        assert!((10..30).contains(&waits), "{waits}");
        while linger.patience().is_none() {}
        linger.ended(true);
        assert!(linger.patience().is_some(), "it pays again");
    }
}
