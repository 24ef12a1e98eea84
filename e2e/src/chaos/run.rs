//! Round after round: forward, some time, back, a check.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::dispute::Dispute;
use super::driver::{Driver, Fault, Planned, Struck, plan};
use super::harness::Harness;
use super::outcome::Outcome;
use super::tally::{Direction, Moment};
use super::{ChaosError, ChaosOptions};

/// Time with the server, and after the way back, in milliseconds.
const SOAK: std::ops::Range<u64> = 3000..8000;

struct Run<'a> {
    dispute: Dispute,
    driver: &'a dyn Driver,
    options: &'a ChaosOptions,
    harness: Harness,
    outcome: Outcome,
    rng: StdRng,
}

/// Runs until the rounds or the time are over, and reports what clients noticed. An error that ends
/// the run early is part of the outcome.
///
/// # Errors
/// If it cannot be begun.
pub async fn run(
    driver: &dyn Driver,
    options: &ChaosOptions,
    say: &(dyn Fn(&str) + Send + Sync),
) -> Result<Outcome, ChaosError> {
    let harness = Harness::start(driver.cluster(), options).await?;
    say("writers, readers and watchers are at work");
    let mut run = Run {
        dispute: Dispute::default(),
        driver,
        options,
        harness,
        outcome: Outcome {
            seed: options.seed,
            ..Outcome::default()
        },
        rng: StdRng::seed_from_u64(options.seed),
    };
    if let Err(error) = run.rounds(say).await {
        say(&format!("the run ends early: {error}"));
        run.outcome.stopped = Some(error.to_string());
    }
    let Run {
        harness,
        mut outcome,
        ..
    } = run;
    let (tally, ledger) = (harness.tally.clone(), harness.ledger.clone());
    if let Err(error) = harness.finish().await {
        outcome.stopped.get_or_insert(error.to_string());
    }
    outcome.count(&tally);
    outcome.writes = ledger.acknowledged();
    Ok(outcome)
}

impl Run<'_> {
    async fn rounds(&mut self, say: &(dyn Fn(&str) + Send + Sync)) -> Result<(), ChaosError> {
        let began = Instant::now();
        for round in 1.. {
            if self.options.over(round - 1, began.elapsed()) {
                break;
            }
            self.round(round, say).await?;
            self.outcome.round_trips = round;
            let flaws = self.harness.tally.all_flaws();
            let writes = self.harness.ledger.acknowledged();
            say(&format!(
                "round {round}: there and back, {writes} writes, {flaws} flaws so far"
            ));
        }
        Ok(())
    }

    async fn round(
        &mut self,
        round: u32,
        say: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<(), ChaosError> {
        let disturbed = self.options.faults && round.is_multiple_of(2);
        let faults = self.driver.faults();
        let planned = if disturbed {
            plan(&mut self.rng, &faults, self.driver.usual())
        } else {
            Vec::new()
        };
        self.dispute = Dispute::default();
        let disputed = planned
            .iter()
            .any(|planned| planned.fault == Fault::ApiServiceDeleted);
        let restarted = planned.iter().find_map(|planned| planned.fault.restarts());
        self.harness.tally.go(|moment| {
            *moment = Moment {
                round,
                direction: Direction::Rest,
                disturbed,
                restarted,
                disputed,
            };
        });
        // Pruned and kept, each with faults and without.
        let prune = (round / 2).is_multiple_of(2);
        for direction in [Direction::Forward, Direction::Back] {
            say(&format!("round {round}: {direction:?}"));
            self.go(direction, prune, &planned, say).await?;
            let soak = Duration::from_millis(self.rng.random_range(SOAK));
            tokio::time::sleep(soak).await;
            self.harness.check_background().await?;
        }
        self.harness.check_round(&self.dispute).await?;
        self.harness.tally.go(|moment| {
            moment.disturbed = false;
            moment.disputed = false;
        });
        Ok(())
    }

    /// Goes one direction, with its faults.
    async fn go(
        &mut self,
        direction: Direction,
        prune: bool,
        planned: &[Planned],
        say: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<(), ChaosError> {
        self.harness.going(direction);
        let (driver, tally) = (self.driver, self.harness.tally.clone());
        let switch = async {
            match direction {
                Direction::Back => driver.back().await,
                _ => driver.forward(prune).await,
            }
        };
        let strikes = planned.iter().filter(|p| p.direction == direction);
        let strikes = futures::future::try_join_all(strikes.map(|planned| async {
            tokio::time::sleep(planned.after).await;
            say(&format!("  fault: {}", planned.fault));
            let struck = Struck {
                round: tally.moment().round,
                direction,
                what: planned.fault.to_string(),
                at: tally.seconds(),
            };
            let restarted = planned.fault.restarts();
            if restarted.is_some() {
                tally.starting(restarted);
            }
            let window = driver.strike(planned.fault, planned.length).await;
            if restarted.is_some() {
                tally.starting(None);
            }
            let window = window?;
            if let Some(window) = window {
                let away = window.to.duration_since(window.from);
                say(&format!(
                    "  the APIService was away, or not merged, for {away:.1?}"
                ));
            }
            Ok::<_, ChaosError>((struck, window))
        }));
        let (switched, struck) = tokio::join!(switch, strikes);
        for (struck, window) in struck? {
            self.outcome.faults.push(struck);
            self.dispute.windows.extend(window);
        }
        switched?;
        // The next switch forgets them.
        let dropped = driver.dropped().await?;
        if dropped.count > 0 {
            say(&format!("  {dropped:?}"));
        }
        self.dispute.dropped.extend(dropped.named);
        let hold = self.harness.last_hold().await;
        let disturbed = tally.moment().disturbed;
        self.outcome.holds.add(direction, disturbed, hold);
        self.harness.going(Direction::Rest);
        Ok(())
    }
}
