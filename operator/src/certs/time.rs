//! Moments and the time between them, within what a [`Timestamp`] can be.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Returns `time + duration`, at most the end of time.
#[must_use]
pub(super) fn plus(time: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration)
        .ok()
        .and_then(|duration| time.checked_add(duration).ok())
        .unwrap_or(Timestamp::MAX)
}

/// Returns `time - duration`, at least the beginning of time.
#[must_use]
pub(super) fn minus(time: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration)
        .ok()
        .and_then(|duration| time.checked_sub(duration).ok())
        .unwrap_or(Timestamp::MIN)
}

/// Returns the time between two moments; zero where the second is the earlier one.
#[must_use]
pub(super) fn between(from: Timestamp, to: Timestamp) -> Duration {
    let passed: SignedDuration = to.duration_since(from);
    Duration::try_from(passed).unwrap_or_default()
}
