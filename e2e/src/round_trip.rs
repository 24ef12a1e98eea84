//! The way back of a line that has come to its end: reports go to etcd again, under load, and every
//! one that nobody writes is compared with its former state.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crds::v1alpha1::status::MigrationPhase;
use serde_json::{Value, json};

use crate::access::Access;
use crate::chaos::{self, ChaosError, ChaosOptions, Direction, Harness, NodeDriver};
use crate::takeover::{Takeover, TakeoverError, all_groups, is_ready};
use crate::witness::State;

/// Faults that are named.
const EXAMPLES: usize = 5;
/// Longest time without progress.
const LIMIT: Duration = Duration::from_mins(10);

/// The result of the way back.
#[derive(Clone, Debug)]
pub struct WayBack {
    /// The problems that clients noticed.
    pub chaos: chaos::Outcome,
    /// Reports that were compared.
    pub compared: usize,
    /// Reports that are missing in etcd.
    pub lost: usize,
    /// Reports whose content is different in etcd.
    pub changed: usize,
    /// Time from the first write of a client to the end of the way back.
    pub took: Duration,
    /// The first of the lost and changed.
    pub examples: Vec<String>,
}

/// Gives the groups of a line back, with clients at work.
///
/// # Errors
/// If that does not come to its end.
pub async fn way_back(
    line: Takeover,
    seed: u64,
    say: &(dyn Fn(&str) + Send + Sync),
) -> Result<(Takeover, WayBack), ChaosError> {
    let before = State::read(&line.client).await?;
    let options = ChaosOptions {
        rounds: Some(1),
        time: None,
        seed,
        faults: false,
        ..ChaosOptions::default()
    };
    let started = Instant::now();
    let driver = NodeDriver::of_pruned(line);
    let chaos = chaos::run(&driver, &options, say).await?;
    let took = started.elapsed();
    let line = driver.into_line();
    let after = State::read(&line.client).await?;
    let back = judged(&before, &after, chaos, took);
    Ok((line, back))
}

/// Gives the groups of a line on any cluster back, with clients at work.
///
/// # Errors
/// If the clients cannot begin or end; why the groups did not go back is part of the outcome.
pub async fn way_back_at<C: Access>(line: &Takeover<C>, seed: u64) -> Result<WayBack, ChaosError> {
    let before = State::read(&line.client).await?;
    let options = ChaosOptions {
        seed,
        ..ChaosOptions::default()
    };
    let started = Instant::now();
    let harness = Box::pin(Harness::start(&line.cluster, &options)).await?;
    let (tally, ledger) = (Arc::clone(&harness.tally), Arc::clone(&harness.ledger));
    harness.going(Direction::Back);
    let gone = give_back(line).await;
    let hold = harness.last_hold().await;
    harness.going(Direction::Rest);
    let finished = Box::pin(harness.finish()).await;
    let took = started.elapsed();
    let stopped = gone.err().map(|error| error.to_string());
    let mut chaos = chaos::Outcome {
        seed,
        round_trips: u32::from(stopped.is_none()),
        stopped: stopped.or(finished.err().map(|error| error.to_string())),
        writes: ledger.acknowledged(),
        ..chaos::Outcome::default()
    };
    chaos.holds.add(Direction::Back, false, hold);
    chaos.count(&tally);
    let after = State::read(&line.client).await?;
    Ok(judged(&before, &after, chaos, took))
}

/// Gives the groups back, and follows them.
async fn give_back<C: Access>(line: &Takeover<C>) -> Result<(), TakeoverError> {
    line.set_owner("CRD").await?;
    line.follow("the way back", LIMIT, |server| {
        is_ready(server) && all_groups(server, |phase| phase == MigrationPhase::RolledBack)
    })
    .await
}

/// Compares the states before and after a way back.
fn judged(before: &State, after: &State, chaos: chaos::Outcome, took: Duration) -> WayBack {
    let (compared, lost, changed) = compare(before, after);
    let names = |of: &[String], what: &'static str| {
        let named = of.iter().take(EXAMPLES);
        named.map(|key| format!("{key} {what}")).collect::<Vec<_>>()
    };
    let mut examples = names(&lost, "is not in etcd");
    examples.extend(names(&changed, "is another one in etcd"));
    WayBack {
        chaos,
        compared,
        lost: lost.len(),
        changed: changed.len(),
        took,
        examples,
    }
}

/// Returns the number of reports that existed, and those that are gone or changed. Clients write to
/// others.
fn compare(before: &State, after: &State) -> (usize, Vec<String>, Vec<String>) {
    let (mut compared, mut lost, mut changed) = (0, Vec::new(), Vec::new());
    for (key, was) in &before.0 {
        let (kind, (namespace, name)) = key;
        compared += 1;
        let named = || format!("{} {namespace}/{name}", kind.plural());
        match after.0.get(key) {
            None => lost.push(named()),
            Some(is) if is.content != was.content => changed.push(named()),
            Some(_) => {}
        }
    }
    (compared, lost, changed)
}

impl WayBack {
    /// Returns whether no client noticed anything and every report is as it was.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.chaos.is_clean() && self.compared > 0 && self.lost == 0 && self.changed == 0
    }

    /// Returns the figures under the names that scripts rely on.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut json = self.chaos.to_json();
        if let Some(json) = json.as_object_mut() {
            json.insert("objects_compared".to_owned(), json!(self.compared));
            json.insert("objects_lost".to_owned(), json!(self.lost));
            json.insert("objects_changed".to_owned(), json!(self.changed));
        }
        json
    }
}

impl fmt::Display for WayBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The way back, {:.0} s:", self.took.as_secs_f64())?;
        for (name, count) in [
            ("objects compared", self.compared),
            ("objects lost", self.lost),
            ("objects changed", self.changed),
        ] {
            writeln!(f, "{name:<38}{count:>14}")?;
        }
        for example in &self.examples {
            writeln!(f, "  {example}")?;
        }
        self.chaos.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::ObjectState;
    use testreports::ReportKind;

    fn state(objects: &[(&str, &str, &str)]) -> State {
        let one = |(namespace, name, content): &(&str, &str, &str)| {
            let key = (ReportKind::ALL[0], ((*namespace).into(), (*name).into()));
            let mut object = ObjectState::of(&json!({}));
            (*content).clone_into(&mut object.content);
            (key, object)
        };
        State(objects.iter().map(one).collect())
    }

    #[test]
    fn what_was_there_is_compared_by_content_and_what_has_come_since_is_not() {
        let before = state(&[
            ("team-1", "kept", "a"),
            ("team-1", "lost", "a"),
            ("team-2", "changed", "a"),
        ]);
        let after = state(&[
            ("team-1", "kept", "a"),
            ("team-2", "changed", "b"),
            ("chaos-1", "new", "a"),
        ]);
        let (compared, lost, changed) = compare(&before, &after);
        assert_eq!((compared, lost.len(), changed.len()), (3, 1, 1));
        assert!(lost[0].ends_with("team-1/lost"), "{lost:?}");
        assert!(changed[0].ends_with("team-2/changed"), "{changed:?}");
    }
}
