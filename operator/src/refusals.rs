//! The refusal of a right. A kube-apiserver that has just started refuses everything until it has read
//! its RBAC rules, so a refusal stands for a missing right only when it stays.

use std::time::Duration;

use tokio::time::Instant;

/// Time for which refusals may be those of a kube-apiserver that has just started.
pub const GRACE: Duration = Duration::from_secs(30);
/// Shortest pause before the next attempt.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// Time after which a refusal has nothing to do with the one before.
const APART: Duration = Duration::from_mins(2);

/// The meaning of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It may pass. The next attempt is due after this time.
    Passing(Duration),
    /// The right is missing.
    Missing,
}

/// The refusals of one attempt that is made again and again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refusals {
    /// The first and the newest of those without another outcome between them.
    row: Option<(Instant, Instant)>,
}

impl Refusals {
    /// Notes that the attempt was refused, and returns the meaning of that.
    pub fn refused(&mut self, now: Instant) -> Meaning {
        let first = match self.row {
            Some((first, last)) if now.saturating_duration_since(last) < APART => first,
            _ => now,
        };
        self.row = Some((first, now));
        meaning(now.saturating_duration_since(first))
    }

    /// Notes that the attempt had another outcome.
    pub fn ended(&mut self) {
        self.row = None;
    }

    /// Returns the time after which the next attempt is due, while the newest refusal may pass.
    #[must_use]
    pub fn pause(&self) -> Option<Duration> {
        let (first, last) = self.row?;
        match meaning(last.saturating_duration_since(first)) {
            Meaning::Passing(pause) => Some(pause),
            Meaning::Missing => None,
        }
    }
}

/// Returns the meaning of a refusal where there was nothing else for some time.
fn meaning(refused_for: Duration) -> Meaning {
    let left = GRACE.saturating_sub(refused_for);
    if left.is_zero() {
        return Meaning::Missing;
    }
    // That time doubles with each attempt. The last one is made when the grace ends.
    Meaning::Passing(refused_for.min(left).max(SHORTEST_PAUSE))
}

/// Returns the words about a refusal that may pass.
#[must_use]
pub fn passing(message: &str) -> String {
    format!(
        "{message}; it is tried again for {} s first, because a kube-apiserver that has just \
         started refuses for a moment what is allowed",
        GRACE.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Attempts are made when they are due, and all of them are refused.
    #[test]
    fn a_refusal_that_stays_means_that_the_right_is_missing() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let (mut now, mut attempts) = (start, Vec::new());
        while let Meaning::Passing(pause) = refusals.refused(now) {
            assert_eq!(refusals.pause(), Some(pause));
            attempts.push((now - start).as_secs());
            now += pause;
        }
        assert_eq!(attempts, [0, 1, 2, 4, 8, 16]);
        assert_eq!(now - start, GRACE);
        assert_eq!(refusals.pause(), None);
        // It stays so for as long as it is refused.
        let later = now + seconds(60);
        assert_eq!(refusals.refused(later), Meaning::Missing);
    }

    #[test]
    fn attempts_out_of_turn_change_nothing() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        for tenth in 0..300 {
            let at = start + Duration::from_millis(100 * tenth);
            assert!(matches!(refusals.refused(at), Meaning::Passing(_)));
        }
        assert_eq!(refusals.refused(start + GRACE), Meaning::Missing);
    }

    #[test]
    fn another_outcome_and_a_long_time_begin_anew() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let first = Meaning::Passing(SHORTEST_PAUSE);
        assert_eq!(refusals.refused(start), first);
        refusals.ended();
        assert_eq!(refusals.pause(), None);
        assert_eq!(refusals.refused(start + seconds(40)), first);
        let later = start + seconds(40) + APART;
        assert_eq!(refusals.refused(later), first);
    }
}
