//! The result of a run: a table for people, JSON for machines.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use super::judge::End;

/// One action and its end.
#[derive(Clone, Debug, Serialize)]
pub struct Done {
    /// Seconds since the start.
    pub at: f64,
    /// The action.
    pub what: String,
    /// The end in words.
    pub end: String,
    /// Seconds until then.
    pub seconds: f64,
}

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Seed of the run.
    pub seed: u64,
    /// Actions that were carried out, or refused.
    pub edits: u64,
    /// Conditions that said what was not so, or did not say what was.
    pub untrue_conditions: u64,
    /// Actions after which clients were not served within a minute, and nobody said what to do; or
    /// which came to no end within four.
    pub stuck: u64,
    /// Actions after which a condition said what a person has to do, who did it.
    pub told: u64,
    /// Acknowledged writes that are not in the state; deletions are writes, too.
    pub lost: u64,
    /// Containers of ours that ended by a fault of their own.
    pub crashes: u64,
    /// Acknowledged writes.
    pub writes: u64,
    /// The times without an answer, in milliseconds, longest first.
    pub outages_ms: Vec<u64>,
    /// The reason why the run ended early.
    pub stopped: Option<String>,
    /// The actions.
    pub actions: Vec<Done>,
    /// The first faults in words.
    pub examples: Vec<String>,
    /// Length in seconds.
    pub seconds: f64,
}

impl Outcome {
    /// Counts an end; returns it in words.
    pub fn count(&mut self, what: &str, end: &End) -> String {
        let (count, text) = match end {
            End::Fine => return "fine".to_owned(),
            End::Busy(what) => return format!("served, and busy: {what}"),
            End::Told(remedy) => {
                self.told += 1;
                return format!("told: {remedy}");
            }
            End::Untrue(why) => (&mut self.untrue_conditions, format!("untrue: {why}")),
            End::Stuck(why) => (&mut self.stuck, format!("stuck: {why}")),
        };
        *count += 1;
        self.examples.push(format!("{what}: {text}"));
        text
    }

    /// Counts what conditions have said although it was not so.
    pub fn contradicted(&mut self, what: &str, untrue: impl IntoIterator<Item = String>) {
        for text in untrue {
            self.untrue_conditions += 1;
            self.examples.push(format!("{what}: {text}"));
        }
    }

    /// Returns whether the run came to its end, every condition was true, nothing was lost, nothing
    /// crashed and nobody was stuck.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.stopped.is_none()
            && self.untrue_conditions + self.lost + self.crashes + self.stuck == 0
    }

    /// Returns the figures under the names that scripts rely on.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "seed": self.seed,
            "edits": self.edits,
            "untrue_conditions": self.untrue_conditions,
            "outages_ms": self.outages_ms,
            "lost": self.lost,
            "crashes": self.crashes,
            "stuck": self.stuck,
            "told": self.told,
            "writes": self.writes,
            "stopped": self.stopped,
            "actions": self.actions,
            "examples": self.examples,
            "seconds": self.seconds,
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Seed {}: {} actions in {:.0} s, beside {} acknowledged writes",
            self.seed, self.edits, self.seconds, self.writes
        )?;
        let longest = self.outages_ms.first().copied().unwrap_or_default();
        let counts = [
            ("untrue conditions", self.untrue_conditions),
            ("lost", self.lost),
            ("crashes", self.crashes),
            ("stuck", self.stuck),
            ("ended by a person, as told", self.told),
            ("outages", self.outages_ms.len() as u64),
            ("longest outage (ms)", longest),
        ];
        for (name, count) in counts {
            writeln!(f, "{name:<38}{count:>14}")?;
        }
        if let Some(why) = &self.stopped {
            writeln!(f, "The run ended early: {why}")?;
        }
        for example in &self.examples {
            writeln!(f, "  {example}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_untrue_lost_crashed_or_stuck_fails_a_run() {
        let mut outcome = Outcome::default();
        let busy = End::Busy("a".to_owned());
        for end in [End::Fine, busy, End::Told("kubectl".to_owned())] {
            outcome.count("a", &end);
        }
        outcome.outages_ms = vec![20_000];
        assert!(outcome.is_clean());
        assert_eq!(outcome.told, 1);
        let faults: [fn(&mut Outcome); 6] = [
            |outcome| drop(outcome.count("a", &End::Untrue("b".to_owned()))),
            |outcome| drop(outcome.count("a", &End::Stuck("b".to_owned()))),
            |outcome| outcome.contradicted("a", ["b".to_owned()]),
            |outcome| outcome.lost = 1,
            |outcome| outcome.crashes = 1,
            |outcome| outcome.stopped = Some("b".to_owned()),
        ];
        for worsen in faults {
            let mut bad = outcome.clone();
            worsen(&mut bad);
            assert!(!bad.is_clean(), "{bad}");
        }
    }

    #[test]
    fn the_json_has_the_names_that_scripts_rely_on() {
        let json = Outcome::default().to_json();
        for name in [
            "edits",
            "untrue_conditions",
            "lost",
            "crashes",
            "stuck",
            "seed",
        ] {
            assert!(json[name].is_u64(), "{name}");
        }
        assert!(json["outages_ms"].is_array());
    }
}
