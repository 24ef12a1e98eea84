//! Decisions when to train a dictionary, and when to compress objects anew with it. Pure.

use std::time::{Duration, Instant};

use crate::cache::{Bodies, Compression};

/// Fewest objects of a resource that a dictionary is trained for: it would take more memory than
/// fewer of them could give back.
const FEWEST_OBJECTS: u64 = 2000;
/// Fewest bytes of their texts.
const FEWEST_BYTES: u64 = 4 << 20;
/// Shortest and longest pause between two trainings for a resource.
const PAUSE: (Duration, Duration) = (Duration::from_mins(10), Duration::from_hours(24));
/// Growth of the number of objects since the last training after which there is another one: what
/// was trained from a few may not be good for all.
const GROWTH: u64 = 10;
/// Numerator and denominator of the growth of a compressed text, by its length as JSON, after which
/// the dictionary is replaced.
const WORSE: (u128, u128) = (5, 4);
/// Objects are compressed anew when at least one in so many has an older dictionary.
const OUTDATED: u64 = 50;

/// The trainings for one resource.
#[derive(Debug, Default)]
pub(super) struct Trainings {
    last: Option<Training>,
    /// The figures of the newest dictionary once all objects were compressed with it.
    baseline: Option<Bodies>,
}

#[derive(Debug)]
struct Training {
    at: Instant,
    /// The time after which there may be another one.
    pause: Duration,
    /// Objects at that time.
    objects: u64,
}

impl Trainings {
    /// Returns whether a dictionary is to be trained.
    pub fn is_due(&self, now: Instant, present: &Compression) -> bool {
        let Bodies {
            count, json_bytes, ..
        } = present.all;
        if count < FEWEST_OBJECTS || json_bytes < FEWEST_BYTES {
            return false;
        }
        let Some(last) = &self.last else {
            return true;
        };
        if now.duration_since(last.at) < last.pause {
            return false;
        }
        let baseline = self.baseline.as_ref();
        present.generation == 0
            || count >= last.objects.saturating_mul(GROWTH)
            || baseline.is_some_and(|then| is_worse(&present.newest, then))
    }

    /// Notes a training, and whether its dictionary was `taken`. After one that was not, the next
    /// pause is twice as long, and the present figures are what others are compared with.
    pub fn trained(&mut self, now: Instant, present: &Compression, taken: bool) {
        let pause = match &self.last {
            Some(last) if !taken => (last.pause * 2).min(PAUSE.1),
            _ => PAUSE.0,
        };
        self.last = Some(Training {
            at: now,
            pause,
            objects: present.all.count,
        });
        let settled = !taken && present.generation > 0;
        self.baseline = settled.then_some(present.newest);
    }

    /// Notes the figures of a new dictionary once it is used by nearly all objects.
    pub fn settle(&mut self, present: &Compression) {
        let is_used = present.newest.count > 0 && !is_worth_rewriting(present);
        if self.baseline.is_none() && present.generation > 0 && is_used {
            self.baseline = Some(present.newest);
        }
    }
}

/// Returns whether texts are compressed clearly worse now than `then`.
fn is_worse(now: &Bodies, then: &Bodies) -> bool {
    let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
    let (times, of) = WORSE;
    product(now.compressed_bytes, then.json_bytes) * of
        > product(then.compressed_bytes, now.json_bytes) * times
}

/// Returns whether enough objects are compressed with an older dictionary for all to be gone
/// through.
pub(super) fn is_worth_rewriting(present: &Compression) -> bool {
    let outdated = present.outdated();
    outdated > 0 && outdated.saturating_mul(OUTDATED) >= present.all.count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `count` objects of 12 kB, each of which takes `compressed` bytes.
    fn bodies(count: u64, compressed: u64) -> Bodies {
        Bodies {
            count,
            json_bytes: count * 12_000,
            compressed_bytes: count * compressed,
        }
    }

    fn present(generation: u64, count: u64, compressed: u64) -> Compression {
        let bodies = bodies(count, compressed);
        Compression {
            generation,
            all: bodies,
            newest: bodies,
            ..Compression::default()
        }
    }

    /// Returns the trainings after a first one for 10,000 objects, which take 500 bytes each since.
    fn settled(now: Instant) -> Trainings {
        let mut trainings = Trainings::default();
        trainings.trained(now, &present(1, 10_000, 1400), true);
        trainings.settle(&present(1, 10_000, 500));
        trainings
    }

    #[test]
    fn the_first_one_waits_for_enough_objects() {
        let now = Instant::now();
        let trainings = Trainings::default();
        assert!(!trainings.is_due(now, &Compression::default()));
        assert!(!trainings.is_due(now, &present(0, FEWEST_OBJECTS - 1, 1400)));
        assert!(trainings.is_due(now, &present(0, FEWEST_OBJECTS, 1400)));
        let mut small = present(0, 100_000, 10);
        small.all.json_bytes = FEWEST_BYTES - 1;
        assert!(!trainings.is_due(now, &small));
    }

    #[test]
    fn another_one_waits_until_texts_are_compressed_clearly_worse() {
        let now = Instant::now();
        let trainings = settled(now);
        let later = now + PAUSE.0;
        assert!(!trainings.is_due(later, &present(1, 10_000, 500)));
        assert!(!trainings.is_due(later, &present(1, 10_000, 625)));
        assert!(trainings.is_due(later, &present(1, 10_000, 626)));
        // Fewer objects, however bad, are not worth it.
        assert!(!trainings.is_due(later, &present(1, FEWEST_OBJECTS - 1, 2000)));
    }

    #[test]
    fn another_one_waits_for_the_pause() {
        let now = Instant::now();
        let trainings = settled(now);
        let almost = now + PAUSE.0.saturating_sub(Duration::from_millis(1));
        assert!(!trainings.is_due(almost, &present(1, 10_000, 5000)));
    }

    #[test]
    fn many_more_objects_are_a_reason() {
        let now = Instant::now();
        let trainings = settled(now);
        let later = now + PAUSE.0;
        assert!(!trainings.is_due(later, &present(1, 99_999, 500)));
        assert!(trainings.is_due(later, &present(1, 100_000, 500)));
    }

    #[test]
    fn a_dictionary_that_is_not_taken_makes_the_next_pause_longer() {
        let mut now = Instant::now();
        let mut trainings = Trainings::default();
        let uniform = present(0, 10_000, 100);
        for minutes in [10, 20, 40, 80] {
            trainings.trained(now, &uniform, false);
            let pause = Duration::from_mins(minutes);
            assert!(!trainings.is_due(now + pause / 2, &uniform));
            now += pause;
            assert!(trainings.is_due(now, &uniform), "after {minutes} minutes");
        }
        for _ in 0..20 {
            trainings.trained(now, &uniform, false);
        }
        assert!(trainings.is_due(now + PAUSE.1, &uniform));
    }

    #[test]
    fn what_no_dictionary_makes_better_is_the_new_measure() {
        let now = Instant::now();
        let mut trainings = settled(now);
        let worse = present(1, 10_000, 700);
        trainings.trained(now + PAUSE.0, &worse, false);
        let later = now + PAUSE.1;
        assert!(!trainings.is_due(later, &worse));
        assert!(trainings.is_due(later, &present(1, 10_000, 876)));
    }

    #[test]
    fn figures_are_compared_only_once_the_dictionary_is_used() {
        let now = Instant::now();
        let mut trainings = Trainings::default();
        trainings.trained(now, &present(1, 10_000, 1400), true);
        let mut first = present(1, 10_000, 1400);
        first.newest = bodies(10, 100);
        trainings.settle(&first);
        let later = now + PAUSE.0;
        assert!(!trainings.is_due(later, &present(1, 10_000, 500)));
    }

    #[test]
    fn large_sums_are_compared() {
        let huge = Bodies {
            count: 1 << 50,
            json_bytes: 1 << 60,
            compressed_bytes: 1 << 58,
        };
        assert!(!is_worse(&huge, &huge));
        assert!(is_worse(&huge, &bodies(1, 100)));
        assert!(!is_worse(&Bodies::default(), &Bodies::default()));
    }

    #[test]
    fn a_few_outdated_bodies_are_left_alone() {
        let mut compression = present(1, 10_000, 500);
        for (newest, worth) in [(10_000, false), (9801, false), (9800, true), (0, true)] {
            compression.newest = bodies(newest, 500);
            assert_eq!(is_worth_rewriting(&compression), worth, "{newest}");
        }
        assert!(!is_worth_rewriting(&Compression::default()));
    }
}
