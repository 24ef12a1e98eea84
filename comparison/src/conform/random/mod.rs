//! Generated operations: random sequences are run as cases are, and those that differ are made
//! small.

mod objects;
mod operations;
mod patches;
mod raw;

use std::cell::Cell;
use std::time::{Duration, Instant};
use std::{fmt, iter};

use futures::{StreamExt as _, stream};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use super::ConformError;
use super::case::{Encoding, Row};
use super::compare::Difference;
use super::deviations::Deviation;
use super::ground::Ground;
use super::run::{Outcome, Sides, Variant};
use super::step::Step;
use super::target::Target;
use super::timing::Timing;
use super::variables::Variables;

/// Name of generated cases, for deviations.
pub const NAME: &str = "generated";
/// Most operations in a sequence.
const LENGTH: usize = 14;
/// Sequences that run beside each other.
const BESIDE: usize = 4;
/// Most sequences that differ: a run ends with them.
const FAILURES: usize = 6;
/// Number of repetitions of a sequence where both sides refused in other words.
const REPEATS: usize = 6;
/// Most attempts to make a failing sequence smaller.
const SHRINKS: usize = 150;

/// The outcome of generated operations.
#[derive(Debug, Default)]
pub struct Generated {
    /// Requests of sequences.
    pub operations: usize,
    /// Sequences that differed, made small.
    pub failures: Vec<Failure>,
    /// Sequences that were equal when they were repeated: with two mistakes in one object a
    /// kube-apiserver names one or the other, as its maps have no order.
    pub by_chance: usize,
    /// The times of requests, on the CRD's side and on ours.
    pub timing: [Timing; 2],
    /// The duration of the run.
    pub took: Duration,
}

/// A sequence with a difference between both sides.
#[derive(Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// True when it differed again when it was repeated.
    pub again: bool,
    /// The steps, as in a case file.
    pub steps: Vec<Value>,
    /// The differences.
    pub differences: Vec<Difference>,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "generated operations differ, with --seed {}:",
            self.seed
        )?;
        for difference in &self.differences {
            writeln!(out, "{difference}")?;
        }
        let size = if self.again {
            "The sequence, as small as it could be made"
        } else {
            "The sequence; repeated, it did not differ"
        };
        let steps = serde_yaml::to_string(&json!({"steps": self.steps})).unwrap_or_default();
        writeln!(out, "{size}:\n{steps}")
    }
}

/// One drawn sequence and the kind on which it runs.
struct Drawn<'a> {
    tree: Box<dyn ValueTree<Value = Vec<Vec<Value>>>>,
    target: &'a Target,
}

impl Drawn<'_> {
    /// Returns the number of requests.
    fn length(&self) -> usize {
        self.tree.current().iter().flatten().count()
    }
}

/// The outcome of a drawn sequence.
struct Tried {
    timing: [Timing; 2],
    /// The differences, however often it was repeated.
    differences: Vec<Difference>,
    /// True when something differed that did not when it was repeated.
    by_chance: bool,
}

impl Tried {
    /// Runs it, and again where both sides refused in other words.
    async fn new(drawn: &Drawn<'_>, sides: &Sides, deviations: &[Deviation]) -> Self {
        let mut outcome = attempt(drawn, sides).await;
        let timing = std::mem::take(&mut outcome.timing);
        let mut differences = unexplained(outcome, deviations);
        let mut repeats = 0;
        while !differences.is_empty() && differences.iter().all(only_words) && repeats < REPEATS {
            differences = unexplained(attempt(drawn, sides).await, deviations);
            repeats += 1;
        }
        Self {
            timing,
            by_chance: repeats > 0 && differences.is_empty(),
            differences,
        }
    }
}

/// Runs generated sequences until they have made that many operations, or several differ. `told` is
/// called with differences as they are found, before sequences are made small.
///
/// # Errors
/// If none can be drawn.
pub async fn run(
    ground: &Ground,
    operations: usize,
    seed: u64,
    deviations: &[Deviation],
    told: &dyn Fn(&Difference),
) -> Result<Generated, ConformError> {
    let begun = Instant::now();
    let mut runner = TestRunner::new_with_rng(Config::default(), rng(seed));
    let mut targets = ground.targets.iter().cycle();
    let sides = ground.sides();
    let failed = Cell::new(0);
    let mut planned = 0;
    let drawn = iter::from_fn(|| {
        if planned >= operations || failed.get() >= FAILURES {
            return None;
        }
        let one = draw(targets.next()?, &mut runner);
        planned += one.as_ref().map_or(0, Drawn::length);
        Some(one)
    });
    // The next on the same kind begins after this one, as those on kinds of the whole cluster
    // would disturb each other.
    let width = BESIDE.min(ground.targets.len()).max(1);
    let mut running = stream::iter(drawn)
        .map(|one| async {
            let one = one?;
            let tried = Tried::new(&one, sides, deviations).await;
            Ok::<_, ConformError>((one, tried))
        })
        .buffered(width);
    let mut generated = Generated::default();
    let mut different = Vec::new();
    while let Some(ran) = running.next().await {
        let (one, tried) = ran?;
        generated.operations += one.length();
        for (sum, timing) in generated.timing.iter_mut().zip(&tried.timing) {
            sum.merge(timing);
        }
        generated.by_chance += usize::from(tried.by_chance);
        tried.differences.iter().for_each(told);
        if !tried.differences.is_empty() {
            failed.set(failed.get() + 1);
            different.push((one, tried.differences));
        }
    }
    drop(running);
    for (one, differences) in different {
        let failure = shrink(one, differences, sides, seed, deviations).await;
        generated.failures.push(failure);
    }
    generated.took = begun.elapsed();
    Ok(generated)
}

fn rng(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

fn draw<'a>(target: &'a Target, runner: &mut TestRunner) -> Result<Drawn<'a>, ConformError> {
    let tree = operations::sequences(target, LENGTH)
        .boxed()
        .new_tree(runner)
        .map_err(|reason| ConformError::Case {
            case: NAME.to_owned(),
            why: format!("none can be drawn: {reason}"),
        })?;
    Ok(Drawn { tree, target })
}

async fn attempt(drawn: &Drawn<'_>, sides: &Sides) -> Outcome {
    let row = match row(drawn) {
        Ok(row) => row,
        Err(why) => return Outcome::broken(NAME, &drawn.target.name(), &why),
    };
    let variant = Variant {
        row: &row,
        target: drawn.target,
        encoding: Encoding::Json,
    };
    variant.run(sides).await
}

fn row(drawn: &Drawn) -> Result<Row, String> {
    let steps = drawn.tree.current().into_iter().flatten();
    let steps: Result<Vec<_>, String> = steps.map(Step::parse).collect();
    let mut values = Variables::new();
    for item in operations::NAMES {
        values.insert(format!("object-{item}"), drawn.target.report(item));
        // Not an old one: how far the history goes back is not the same.
        values.insert(format!("rv-{item}"), json!("0"));
    }
    values.insert("token".to_owned(), json!(""));
    Ok(Row {
        name: NAME.to_owned(),
        steps: steps?,
        text: String::new(),
        values,
    })
}

fn unexplained(outcome: Outcome, deviations: &[Deviation]) -> Vec<Difference> {
    let known = |difference: &Difference| deviations.iter().any(|d| d.explains(difference));
    let mut differences = outcome.differences;
    differences.retain(|difference| !known(difference));
    differences
}

/// Returns whether only the message of a Status differs; a result of a report has a message, too.
fn only_words(difference: &Difference) -> bool {
    let status = difference.diff.contains("\"kind\": \"Status\"");
    status
        && [&difference.crd, &difference.ours].iter().all(|lines| {
            let mut lines = lines.lines();
            let message = lines
                .next()
                .is_some_and(|line| line.trim_start().starts_with("\"message\":"));
            message && lines.next().is_none()
        })
}

/// Makes a failing sequence small: each attempt runs on both sides anew.
async fn shrink(
    mut drawn: Drawn<'_>,
    mut differences: Vec<Difference>,
    sides: &Sides,
    seed: u64,
    deviations: &[Deviation],
) -> Failure {
    let mut smallest = drawn.tree.current();
    let again = !unexplained(attempt(&drawn, sides).await, deviations).is_empty();
    let mut more = again && drawn.tree.simplify();
    for _ in 0..SHRINKS {
        if !more {
            break;
        }
        let now = unexplained(attempt(&drawn, sides).await, deviations);
        more = if now.is_empty() {
            drawn.tree.complicate()
        } else {
            smallest = drawn.tree.current();
            differences = now;
            drawn.tree.simplify()
        };
    }
    Failure {
        seed,
        again,
        steps: smallest.into_iter().flatten().collect(),
        differences,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conform::compare::Place;

    #[test]
    fn only_the_words_of_a_refusal_differ_by_chance() {
        let of = |kind: &str, crd: &str, ours: &str| Difference {
            case: NAME.to_owned(),
            variant: String::new(),
            place: Place::Step(1),
            asked: String::new(),
            crd: crd.to_owned(),
            ours: ours.to_owned(),
            diff: format!("  \"kind\": \"{kind}\",\n"),
        };
        let message = |text: &str| format!("  \"message\": \"{text}\",\n");
        assert!(only_words(&of("Status", &message("a"), &message("b"))));
        assert!(!only_words(&of(
            "PolicyReport",
            &message("a"),
            &message("b")
        )));
        assert!(!only_words(&of("Status", &message("a"), "")));
        let two = format!("{}  \"code\": 400,\n", message("a"));
        assert!(!only_words(&of("Status", &two, &message("b"))));
    }
}
