//! The outcome of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::compare::Difference;
use super::deviations::Deviation;
use super::random::{Failure, Generated};
use super::run::Outcome;
use super::timing::Timing;

/// Number of slow cases that are named.
const SLOWEST: usize = 8;

/// The outcome of all cases of a run.
#[derive(Debug, Default)]
pub struct Report {
    cases: BTreeMap<String, bool>,
    variants: usize,
    /// Differences that nothing explains.
    pub different: Vec<Difference>,
    explained: usize,
    /// Names of deviations that explained a difference.
    used: BTreeSet<String>,
    /// Deviations of cases that were run, but explained nothing.
    pub unused: Vec<String>,
    forms: Vec<String>,
    /// Longest run of each case.
    slowest: BTreeMap<String, Duration>,
    timing: [Timing; 2],
    /// Generated operations.
    pub operations: usize,
    /// Sequences of generated operations that differed.
    pub failures: Vec<Failure>,
    /// Number of sequences that were equal when they were repeated.
    by_chance: usize,
    /// The duration of the run.
    pub took: Duration,
}

/// The figures of a run.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Cases, each row counted, however often it was run.
    pub cases: usize,
    /// Those among them that were the same on both sides.
    pub equal: usize,
    /// Those that differed as a deviation says.
    pub deviations: usize,
    /// Those that differed without a reason, deviations that explained nothing, and sequences of
    /// generated operations that differed.
    pub different: usize,
    /// Number of runs of cases, on each kind and in each encoding.
    pub runs: usize,
    /// Generated operations.
    pub operations: usize,
    /// Sequences of them that were equal only when they were repeated.
    pub equal_when_repeated: usize,
    /// The duration of the run.
    pub seconds: f64,
    /// Mean time of a request by verb.
    pub milliseconds: BTreeMap<String, BothSides>,
    /// Median time of a request by verb.
    pub median_milliseconds: BTreeMap<String, BothSides>,
}

/// A figure of both sides.
#[derive(Debug, Serialize)]
pub struct BothSides {
    /// The figure of the CRD.
    pub crd: f64,
    /// The figure of our server.
    pub ours: f64,
}

impl Report {
    /// Adds a case in one of its variants.
    pub fn add(&mut self, case: &str, outcome: Outcome, deviations: &[Deviation]) {
        self.variants += 1;
        let longest = self.slowest.entry(case.to_owned()).or_default();
        *longest = outcome.took.max(*longest);
        let equal = self.cases.entry(case.to_owned()).or_insert(true);
        for difference in outcome.differences {
            *equal = false;
            let mut known = false;
            for deviation in deviations.iter().filter(|d| d.explains(&difference)) {
                self.used.insert(deviation.name.clone());
                known = true;
            }
            if known {
                self.explained += 1;
            } else {
                self.different.push(difference);
            }
        }
        self.forms.extend(outcome.forms);
        for (sum, timing) in self.timing.iter_mut().zip(&outcome.timing) {
            sum.merge(timing);
        }
    }

    /// Adds generated operations.
    pub fn add_generated(&mut self, generated: Generated) {
        for (sum, timing) in self.timing.iter_mut().zip(&generated.timing) {
            sum.merge(timing);
        }
        self.operations += generated.operations;
        self.by_chance += generated.by_chance;
        self.took += generated.took;
        self.failures.extend(generated.failures);
    }

    /// Finds the deviations that explained nothing although their cases were run.
    pub fn close(&mut self, deviations: &[Deviation]) {
        for deviation in deviations {
            let ran = self.cases.keys().any(|case| deviation.concerns(case));
            if ran && !self.used.contains(&deviation.name) {
                self.unused.push(deviation.name.clone());
            }
        }
    }

    /// Returns the figures.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let different: BTreeSet<_> = self.different.iter().map(|d| &d.case).collect();
        let equal = self.cases.values().filter(|equal| **equal).count();
        Figures {
            cases: self.cases.len(),
            equal,
            deviations: self.cases.len() - equal - different.len(),
            different: different.len() + self.unused.len() + self.failures.len(),
            runs: self.variants,
            operations: self.operations,
            equal_when_repeated: self.by_chance,
            seconds: round(self.took.as_secs_f64()),
            milliseconds: both(self.timing.each_ref().map(Timing::mean)),
            median_milliseconds: both(self.timing.each_ref().map(Timing::median)),
        }
    }

    /// Returns the figures in a sentence.
    #[must_use]
    pub fn summary(&self) -> String {
        let figures = self.figures();
        format!(
            "{} cases in {} runs, {} operations: {} equal, {} as their deviations say, {} different; {:.0} s",
            figures.cases,
            figures.runs,
            figures.operations,
            figures.equal,
            figures.deviations,
            figures.different,
            figures.seconds
        )
    }

    /// Returns the cases that took longest, in words.
    fn slow(&self) -> String {
        let mut slowest: Vec<_> = self.slowest.iter().collect();
        slowest.sort_by_key(|(_, took)| std::cmp::Reverse(**took));
        let words = slowest
            .iter()
            .take(SLOWEST)
            .map(|(case, took)| format!("{case} {:.1} s", took.as_secs_f64()));
        words.collect::<Vec<_>>().join(", ")
    }

    /// Returns whether both sides did the same except for known differences.
    #[must_use]
    pub fn good(&self) -> bool {
        self.different.is_empty() && self.unused.is_empty() && self.failures.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.different {
            writeln!(out, "{difference}")?;
        }
        for name in &self.unused {
            writeln!(
                out,
                "the deviation '{name}' explained nothing: is it still there?"
            )?;
        }
        for failure in &self.failures {
            writeln!(out, "{failure}")?;
        }
        if let Some(first) = self.forms.first() {
            let count = self.forms.len();
            writeln!(
                out,
                "{count} answers are written in another form (order of keys, numbers), the first: {first}"
            )?;
        }
        if self.by_chance > 0 {
            let count = self.by_chance;
            writeln!(
                out,
                "{count} generated sequences were equal only when repeated"
            )?;
        }
        writeln!(out, "longest: {}", self.slow())?;
        let figures = self.figures();
        writeln!(
            out,
            "{:<18}{:>12}{:>12}{:>12}{:>12}",
            "ms a request", "CRD mean", "ours mean", "CRD median", "ours median"
        )?;
        for (verb, mean) in &figures.milliseconds {
            let (crd, ours) = (mean.crd, mean.ours);
            let median = &figures.median_milliseconds[verb];
            let (crd_median, ours_median) = (median.crd, median.ours);
            writeln!(
                out,
                "{verb:<18}{crd:>12.2}{ours:>12.2}{crd_median:>12.2}{ours_median:>12.2}"
            )?;
        }
        writeln!(out, "{}", self.summary())
    }
}

/// Returns times of both sides by verb.
fn both([crd, ours]: [BTreeMap<&'static str, f64>; 2]) -> BTreeMap<String, BothSides> {
    let both = |(verb, time): (&&'static str, &f64)| {
        let sides = BothSides {
            crd: round(*time),
            ours: round(ours.get(verb).copied().unwrap_or_default()),
        };
        ((*verb).to_owned(), sides)
    };
    crd.iter().map(both).collect()
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conform::compare::Place;

    fn outcome(case: &str) -> Outcome {
        Outcome {
            differences: vec![Difference {
                case: case.to_owned(),
                variant: "v".to_owned(),
                place: Place::Step(1),
                asked: "GET /".to_owned(),
                crd: "504\n".to_owned(),
                ours: "410\n".to_owned(),
                diff: "-504\n+410\n".to_owned(),
            }],
            ..Outcome::default()
        }
    }

    fn known(case: &str) -> Vec<Deviation> {
        let text = format!("[{{name: n, reason: r, cases: [{case}], crd: '504'}}]");
        serde_yaml::from_str(&text).unwrap()
    }

    #[test]
    fn a_difference_without_a_reason_fails() {
        let mut report = Report::default();
        report.add("a", outcome("a"), &[]);
        report.add("b", Outcome::default(), &[]);
        report.close(&[]);
        assert!(!report.good());
        let figures = report.figures();
        assert_eq!((figures.cases, figures.equal, figures.different), (2, 1, 1));
        assert!(report.to_string().contains("-504\n+410"));
    }

    #[test]
    fn a_deviation_explains_it() {
        let mut report = Report::default();
        report.add("a", outcome("a"), &known("a"));
        report.close(&known("a"));
        assert!(report.good());
        assert_eq!(report.figures().deviations, 1);
    }

    #[test]
    fn a_deviation_that_is_gone_fails() {
        let mut report = Report::default();
        report.add("a", Outcome::default(), &known("a"));
        report.close(&known("a"));
        assert!(!report.good());
        assert_eq!(report.figures().different, 1);
    }

    #[test]
    fn a_deviation_of_a_case_that_was_not_run_is_left_alone() {
        let mut report = Report::default();
        report.add("a", Outcome::default(), &known("b"));
        report.close(&known("b"));
        assert!(report.good());
    }
}
