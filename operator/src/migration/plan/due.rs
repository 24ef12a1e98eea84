//! The times at which something is due.

use std::time::Duration;

use crds::v1alpha1::spec::ApiOwner;
use jiff::{SignedDuration, Timestamp};

use super::target::{GroupTarget, Settings};
use crate::migration::observe::state::Observed;

/// Returns the time `duration` after `since`.
#[must_use]
pub fn after(since: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration)
        .ok()
        .and_then(|d| since.checked_add(d).ok())
        .unwrap_or(Timestamp::MAX)
}

/// Returns the time until which stragglers are looked for; `None` for one look.
#[must_use]
pub fn drained(o: &Observed, target: &GroupTarget) -> Option<Timestamp> {
    let window = target.settings.drain_window;
    let stays = target.owner == ApiOwner::Server && o.reverted.is_none();
    let since = o.notes.switched_at.filter(|_| stays && !window.is_zero())?;
    Some(after(since, window))
}

/// Returns the time at which the soak of a group that was switched at `since` is over: late writes
/// are looked for first.
#[must_use]
pub fn soaked(since: Timestamp, settings: &Settings) -> Timestamp {
    after(since, settings.drain_window + settings.soak)
}
