//! The result of a run: a table for people, JSON for machines.

use std::fmt;

use serde_json::{Value, json};

use super::driver::Struck;
use super::tally::{Direction, Flaw, Note, Tally};

/// Names of the flaws, as in tables and JSON.
const FLAWS: [(Flaw, &str); 10] = [
    (Flaw::Lost, "lost"),
    (Flaw::Resurrected, "resurrected"),
    (Flaw::Missed, "missed"),
    (Flaw::Duplicated, "duplicated"),
    (Flaw::OutOfOrder, "out_of_order"),
    (Flaw::Phantom, "phantom_deletes"),
    (Flaw::RetryWatcherDead, "retry_watchers_dead"),
    (Flaw::ExpiredWithBookmarks, "expired_with_bookmarks"),
    (Flaw::FailedRequest, "failed_requests"),
    (Flaw::StaleRead, "stale_reads"),
];
/// Names of the things that may happen.
const NOTES: [(Note, &str); 12] = [
    (Note::Requests, "requests"),
    (Note::Events, "events"),
    (Note::Reads, "lists_compared"),
    (Note::WatchesEnded, "watches_ended"),
    (Note::Throttled, "throttled_requests"),
    (
        Note::RefusedWithoutRetryAfter,
        "refused_without_retry_after",
    ),
    (Note::FailedInDisturbedRounds, "failed_in_disturbed_rounds"),
    (Note::Conflicts, "conflicts"),
    (Note::ExpiredWithoutBookmarks, "expired_without_bookmarks"),
    (Note::ExpiredAfterRestart, "expired_after_restart"),
    (
        Note::ListedAgainInDisturbedRounds,
        "listed_again_in_disturbed_rounds",
    ),
    (
        Note::ExplainedByDeletedApiService,
        "explained_by_deleted_apiservice",
    ),
];

/// Longest holds that the servers report, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Holds {
    /// The longest hold on the way to the server.
    pub forward: Option<u64>,
    /// The longest hold on the way back.
    pub back: Option<u64>,
    /// The longest hold either way, in rounds without faults.
    pub undisturbed: Option<u64>,
}

impl Holds {
    /// Adds one more hold.
    pub fn add(&mut self, direction: Direction, disturbed: bool, hold: Option<u64>) {
        let longest = match direction {
            Direction::Forward => &mut self.forward,
            Direction::Back => &mut self.back,
            Direction::Rest => return,
        };
        *longest = hold.max(*longest);
        if !disturbed {
            self.undisturbed = hold.max(self.undisturbed);
        }
    }
}

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Times that the groups went to the server and back.
    pub round_trips: u32,
    /// Seed of the run.
    pub seed: u64,
    /// Faults that were made.
    pub faults: Vec<Struck>,
    /// The reason why the run ended early.
    pub stopped: Option<String>,
    /// Acknowledged writes.
    pub writes: u64,
    /// The longest holds.
    pub holds: Holds,
    /// The flaws by name.
    pub flaws: Vec<(&'static str, u64)>,
    /// The other counts by name.
    pub notes: Vec<(&'static str, u64)>,
    /// The first flaws in words.
    pub examples: Vec<String>,
    /// Longest wait of a write in rounds without faults: forward, back, between, in milliseconds.
    pub waits: [u64; 3],
    /// Longest wait of a write in rounds with faults, in milliseconds.
    pub disturbed_wait: u64,
    /// Length in seconds.
    pub seconds: f64,
}

impl Outcome {
    /// Takes over the counts.
    pub fn count(&mut self, tally: &Tally) {
        let ms = |wait: std::time::Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.flaws = FLAWS.map(|(flaw, name)| (name, tally.flaws(flaw))).to_vec();
        self.notes = NOTES.map(|(note, name)| (name, tally.noted(note))).to_vec();
        self.examples = tally.examples();
        self.waits = [Direction::Forward, Direction::Back, Direction::Rest]
            .map(|direction| ms(tally.longest(direction).0));
        self.disturbed_wait = ms(tally.longest_disturbed());
        self.seconds = tally.seconds();
    }

    /// Returns whether the run came to its end and no client noticed anything.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.stopped.is_none() && self.flaws.iter().all(|(_, count)| *count == 0)
    }

    /// Returns the number of times that a flaw was found.
    #[must_use]
    pub fn flaw(&self, flaw: Flaw) -> u64 {
        let name = FLAWS
            .iter()
            .find(|(of, _)| *of == flaw)
            .map(|(_, name)| *name);
        let count = self.flaws.iter().find(|(of, _)| Some(*of) == name);
        count.map_or(0, |(_, count)| *count)
    }

    /// Returns the figures under the names that scripts rely on.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let [forward, back, rest] = self.waits;
        let mut json = json!({
            "round_trips": self.round_trips,
            "seed": self.seed,
            "seconds": self.seconds,
            "writes": self.writes,
            "longest_hold_forward_ms": self.holds.forward.unwrap_or(forward),
            "longest_hold_back_ms": self.holds.back.unwrap_or(back),
            "longest_hold_in_undisturbed_rounds_ms": self.holds.undisturbed,
            "longest_wait_forward_ms": forward,
            "longest_wait_back_ms": back,
            "longest_wait_between_ms": rest,
            "longest_wait_in_disturbed_rounds_ms": self.disturbed_wait,
            "faults": self.faults,
            "stopped": self.stopped,
            "examples": self.examples,
        });
        if let Some(json) = json.as_object_mut() {
            let counts = self.flaws.iter().chain(&self.notes);
            json.extend(counts.map(|(name, count)| ((*name).to_owned(), json!(count))));
        }
        json
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row =
            |name: &str, value: u64| writeln!(f, "{:<38}{value:>14}", name.replace('_', " "));
        row("round_trips", self.round_trips.into())?;
        row("writes", self.writes)?;
        for (name, count) in self.notes.iter().chain(&self.flaws) {
            row(name, *count)?;
        }
        let json = self.to_json();
        let waits = json.as_object().into_iter().flatten();
        for (name, value) in waits.filter(|(name, _)| name.starts_with("longest")) {
            row(name, value.as_u64().unwrap_or_default())?;
        }
        for fault in &self.faults {
            let Struck {
                round,
                direction,
                what,
                at,
            } = fault;
            writeln!(f, "fault: round {round}, {direction:?}, {at:.1} s: {what}")?;
        }
        for example in &self.examples {
            writeln!(f, "  {example}")?;
        }
        if let Some(why) = &self.stopped {
            writeln!(f, "The run ended early: {why}")?;
        }
        writeln!(f, "seed {}, {:.0} s", self.seed, self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_the_names_that_scripts_rely_on() {
        let tally = Tally::default();
        let mut outcome = Outcome::default();
        outcome.count(&tally);
        assert!(outcome.is_clean());
        let json = outcome.to_json();
        for name in [
            "round_trips",
            "lost",
            "resurrected",
            "missed",
            "duplicated",
            "out_of_order",
            "phantom_deletes",
            "retry_watchers_dead",
            "failed_requests",
            "throttled_requests",
            "stale_reads",
            "longest_hold_forward_ms",
            "longest_hold_back_ms",
            "seed",
        ] {
            assert!(json[name].is_number(), "{name}");
        }
        assert!(json["faults"].is_array() && json["examples"].is_array());
        tally.flaw(Flaw::Lost, || "x".into());
        outcome.count(&tally);
        assert!(!outcome.is_clean());
        assert_eq!(outcome.flaw(Flaw::Lost), 1);
        assert!(outcome.to_string().contains("lost"));
    }

    #[test]
    fn what_the_server_tells_of_a_hold_goes_before_what_is_measured() {
        let mut outcome = Outcome {
            waits: [5, 6, 7],
            ..Outcome::default()
        };
        assert_eq!(outcome.to_json()["longest_hold_back_ms"], 6);
        outcome.holds.add(Direction::Back, false, Some(3));
        outcome.holds.add(Direction::Back, true, Some(9));
        outcome.holds.add(Direction::Back, false, None);
        let json = outcome.to_json();
        assert_eq!(json["longest_hold_back_ms"], 9);
        assert_eq!(json["longest_hold_in_undisturbed_rounds_ms"], 3);
    }
}
