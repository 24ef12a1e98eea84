//! The times when a watch ends and when it sends bookmarks. Pure.

use std::time::Duration;

use rand::RngExt as _;
use tokio::time::Instant;

/// Shortest duration of a watch that does not give one; the longest is twice that, so that watches
/// which began together do not end together.
const MIN_TIMEOUT: Duration = Duration::from_mins(30);
/// Interval of bookmarks, lengthened by up to a quarter.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// Time before the end of a watch at which it sends one more bookmark, so that the next one begins
/// up to date.
const BEFORE_END: Duration = Duration::from_secs(2);

/// The times of one watch.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// The time of its end.
    pub end: Instant,
    interval: Duration,
}

impl Schedule {
    /// Returns a watch that begins at `now` and lasts `timeout`, or a random time where none is
    /// given (or zero).
    #[must_use]
    pub fn new(now: Instant, timeout: Option<Duration>) -> Self {
        let mut rng = rand::rng();
        let timeout = timeout
            .filter(|timeout| !timeout.is_zero())
            .unwrap_or_else(|| MIN_TIMEOUT.mul_f64(1.0 + rng.random::<f64>()));
        // A watch of centuries ends as late as the clock can say.
        let end = now
            .checked_add(timeout)
            .unwrap_or_else(|| now + MIN_TIMEOUT * 1000);
        Self {
            end,
            interval: BOOKMARK_INTERVAL.mul_f64(1.0 + rng.random::<f64>() / 4.0),
        }
    }

    /// Returns the time of the next bookmark after `now`.
    #[must_use]
    pub fn next_bookmark(&self, now: Instant) -> Instant {
        let regular = now + self.interval;
        match self.end.checked_sub(BEFORE_END) {
            Some(last) if last > now && last < regular => last,
            _ => regular,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_when_asked_or_at_random() {
        let now = Instant::now();
        let short = Schedule::new(now, Some(Duration::from_secs(5)));
        assert_eq!(short.end - now, Duration::from_secs(5));
        for unsaid in [None, Some(Duration::ZERO)] {
            let length = Schedule::new(now, unsaid).end - now;
            assert!(
                length >= MIN_TIMEOUT && length <= 2 * MIN_TIMEOUT,
                "{length:?}"
            );
        }
        let endless = Schedule::new(now, Some(Duration::MAX));
        assert!(endless.end > now + 2 * MIN_TIMEOUT);
    }

    #[test]
    fn bookmarks_each_minute_and_before_the_end() {
        let now = Instant::now();
        let long = Schedule::new(now, Some(Duration::from_mins(10)));
        let first = long.next_bookmark(now) - now;
        assert!(first >= Duration::from_mins(1) && first <= Duration::from_secs(75));
        let late = now + Duration::from_secs(570);
        assert_eq!(long.next_bookmark(late), long.end - BEFORE_END);
        let short = Schedule::new(now, Some(Duration::from_secs(1)));
        assert!(short.next_bookmark(now) > short.end);
    }
}
