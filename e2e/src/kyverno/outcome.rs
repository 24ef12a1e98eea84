//! The result of a run: a table for people, JSON for machines.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

/// Longest time in milliseconds without an admission report that is always in order.
const GAP: i64 = 3000;
/// A baseline that is longer than this …
const SLOW_BASELINE: i64 = 2000;
/// … and the time that a switch may add to it then.
const ADDED: i64 = 1000;

/// Longest times between two admission reports, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gaps {
    /// The longest time without any switch.
    pub baseline: i64,
    /// The longest time on the way to the server.
    pub forward: i64,
    /// The longest time on the way back.
    pub back: i64,
}

impl Gaps {
    /// Returns the longest time that is in order.
    #[must_use]
    pub fn limit(&self) -> i64 {
        if self.baseline > SLOW_BASELINE {
            GAP.max(self.baseline + ADDED)
        } else {
            GAP
        }
    }

    /// Returns whether both ways are in order.
    #[must_use]
    pub fn are_short(&self) -> bool {
        self.forward.max(self.back) <= self.limit()
    }
}

/// A counter of Kyverno, as the audit log shows its watches.
#[derive(Clone, Debug, Serialize)]
pub struct Counter {
    /// The controller.
    pub controller: String,
    /// The kind that it counts.
    pub kind: String,
    /// Watches that were opened.
    pub watches: usize,
    /// Longest time without one, in milliseconds; the breaker is open then.
    pub longest_closed_ms: i64,
    /// True when one is open in the end.
    pub alive: bool,
}

/// A controller that stopped making reports.
#[derive(Clone, Debug, Serialize)]
pub struct Silent {
    /// The controller.
    pub controller: String,
    /// Seconds since its last report, at the end of the churn.
    pub seconds: Option<i64>,
}

/// A switch that was made.
#[derive(Clone, Debug, Serialize)]
pub struct Switch {
    /// Forward or back.
    pub way: &'static str,
    /// Seconds until the operator said that it is done.
    pub seconds: f64,
    /// Longest time between two admission reports, in milliseconds.
    pub gap_ms: i64,
    /// Longest time until an ephemeral report's POST was answered, in milliseconds.
    pub longest_post_ms: i64,
    /// POSTs of ephemeral reports that were refused.
    pub refused: u64,
    /// Drops of breakers.
    pub drops: u64,
}

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The database in which the servers store the reports.
    pub database: &'static str,
    /// The switches in their order.
    pub switches: Vec<Switch>,
    /// Operations of the churn, and those of them that failed.
    pub operations: (u64, u64),
    /// Drops of breakers without a switch, and with.
    pub drops: (u64, u64),
    /// See [`Gaps`].
    pub gaps: Gaps,
    /// Canaries.
    pub canaries: u64,
    /// Canaries without a report after a minute.
    pub canaries_lost: u64,
    /// Canaries that never got a report.
    pub canaries_never: u64,
    /// Longest time until a report, in milliseconds.
    pub canary_longest_ms: u64,
    /// The counters.
    pub counters: Vec<Counter>,
    /// Number of counters that should exist.
    pub counters_wanted: usize,
    /// Controllers that stopped.
    pub silent: Vec<Silent>,
    /// Restarts of containers of Kyverno.
    pub restarts: i32,
    /// Objects and reports in the end.
    pub objects: usize,
    /// Reports in the end.
    pub reports: usize,
    /// See `check`.
    pub without_one: Vec<String>,
    /// See `check`.
    pub without_owner: Vec<String>,
    /// See `check`.
    pub of_nothing: Vec<String>,
    /// Log lines about the version `legacy`.
    pub legacy: BTreeMap<String, u64>,
    /// Length in seconds.
    pub seconds: f64,
}

impl Outcome {
    /// Returns the number of counters whose watch does not come back, and of controllers that
    /// stopped without that.
    #[must_use]
    pub fn retry_watchers_dead(&self) -> usize {
        let alive = self.counters.iter().filter(|counter| counter.alive).count();
        let dead = self.counters_wanted.saturating_sub(alive);
        dead.max(self.silent.len())
    }

    /// Returns whether Kyverno noticed nothing.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.drops.1 == 0
            && self.canaries_lost == 0
            && self.retry_watchers_dead() == 0
            && self.without_one.is_empty()
            && self.without_owner.is_empty()
            && self.of_nothing.is_empty()
            && self.restarts == 0
            && self.gaps.are_short()
    }

    /// Returns the figures under the names that scripts rely on.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "database": self.database,
            "breaker_drops": self.drops.1,
            "breaker_drops_baseline": self.drops.0,
            "canaries": self.canaries,
            "canaries_lost": self.canaries_lost,
            "canaries_never_reported": self.canaries_never,
            "canary_longest_ms": self.canary_longest_ms,
            "retry_watchers_dead": self.retry_watchers_dead(),
            "reports_without_owner": self.without_owner.len(),
            "objects_without_one_report": self.without_one.len(),
            "reports_of_deleted_objects": self.of_nothing.len(),
            "longest_gap_admission_ms_baseline": self.gaps.baseline,
            "longest_gap_admission_ms_forward": self.gaps.forward,
            "longest_gap_admission_ms_back": self.gaps.back,
            "gap_limit_ms": self.gaps.limit(),
            "legacy_log_lines": self.legacy.values().sum::<u64>(),
            "objects": self.objects,
            "reports": self.reports,
            "operations": self.operations.0,
            "operations_failed": self.operations.1,
            "kyverno_restarts": self.restarts,
            "seconds": self.seconds,
            "clean": self.is_clean(),
            "switches": self.switches,
            "counters": self.counters,
            "silent_controllers": self.silent,
            "examples": {
                "objects_without_one_report": first(&self.without_one),
                "reports_without_owner": first(&self.without_owner),
                "reports_of_deleted_objects": first(&self.of_nothing),
                "legacy_log_lines": self.legacy,
            },
        })
    }
}

/// Number of examples that are shown.
const EXAMPLES: usize = 10;

fn first(all: &[String]) -> &[String] {
    &all[..all.len().min(EXAMPLES)]
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = self.to_json();
        for (name, value) in json.as_object().into_iter().flatten() {
            if !value.is_object() && !value.is_array() {
                writeln!(f, "{:<38}{value:>14}", name.replace('_', " "))?;
            }
        }
        for name in ["switches", "counters", "silent_controllers"] {
            for value in json[name].as_array().into_iter().flatten() {
                writeln!(f, "{name}: {value}")?;
            }
        }
        for (name, value) in json["examples"].as_object().into_iter().flatten() {
            for example in value.as_array().into_iter().flatten() {
                writeln!(f, "{name}: {example}")?;
            }
        }
        for (line, count) in &self.legacy {
            writeln!(f, "legacy, {count} times: {line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_baseline_moves_the_limit() {
        let gaps = |baseline, forward| Gaps {
            baseline,
            forward,
            back: 0,
        };
        assert!(gaps(1900, 3000).are_short() && !gaps(1900, 3001).are_short());
        assert!(gaps(2500, 3500).are_short() && !gaps(2500, 3501).are_short());
        assert!(gaps(2001, 3001).are_short());
    }

    #[test]
    fn a_missing_counter_is_dead() {
        let mut outcome = Outcome::default();
        assert!(outcome.is_clean());
        outcome.counters_wanted = 1;
        assert_eq!(outcome.retry_watchers_dead(), 1);
        assert!(!outcome.is_clean());
        outcome.counters.push(Counter {
            controller: "a".into(),
            kind: "b".into(),
            watches: 1,
            longest_closed_ms: 0,
            alive: true,
        });
        assert!(outcome.is_clean());
        outcome.drops = (3, 0);
        assert!(outcome.is_clean());
        outcome.drops.1 = 1;
        assert_eq!(outcome.to_json()["breaker_drops"], 1);
        assert!(!outcome.is_clean() && outcome.to_string().contains("breaker drops"));
    }

    #[test]
    fn a_restart_or_a_report_of_nothing_is_noticed() {
        let restarted = Outcome {
            restarts: 1,
            ..Outcome::default()
        };
        assert!(!restarted.is_clean());
        let left = Outcome {
            of_nothing: vec!["polr default/a".into()],
            ..Outcome::default()
        };
        assert!(!left.is_clean());
    }
}
