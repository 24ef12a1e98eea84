//! Action after action: it is carried out, a quiet moment is waited for, the API is asked, and what
//! the conditions say is judged.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crds::v1alpha1::ReportsServer;
use kube::Api;

use super::action::Action;
use super::crash;
use super::deck::Deck;
use super::did::Did;
use super::expect::Expect;
use super::hand::{Hand, prepare};
use super::judge::{self, Contradicted, End};
use super::outage::Outages;
use super::outcome::{Done, Outcome};
use super::probe::Prober;
use super::told::Told;
use super::{AbuseError, AbuseOptions};
use crate::chaos::{
    ChaosError, ChaosOptions, Direction, Dispute, Driver as _, Flaw, Harness, Moment, NodeDriver,
    Window,
};
use crate::request::RequestError;
use crate::takeover::{NAME, Takeover};

/// Longest time until clients have to be served again, or be told what to do.
const SERVED: Duration = Duration::from_mins(1);
/// For how long a condition may say what is no longer so.
const TRUE_AGAIN: Duration = Duration::from_secs(15);
/// For how long nothing changes in a quiet moment.
const QUIET: Duration = Duration::from_secs(4);
/// Pause between two looks at the status.
const LOOK: Duration = Duration::from_millis(500);
/// For how long it is waited for a server that nobody has helped, so that the run can go on, and for
/// an action that comes to no end.
const RESCUE: Duration = Duration::from_mins(3);
/// Examples of lost writes that are kept.
const EXAMPLES: usize = 10;

/// The findings of a time of waiting.
struct Settled {
    end: End,
    untrue: BTreeSet<String>,
}

struct Run<'a> {
    driver: &'a NodeDriver,
    hand: Hand<'a>,
    prober: Prober,
    outages: Outages,
    harness: Harness,
    dispute: Dispute,
    outcome: Outcome,
    began: Instant,
}

/// Installs the operator and a server on the line, which has to have a managed database; then does
/// wrong and right to them until the time is over. An error that ends the run early is part of the
/// outcome.
///
/// # Errors
/// If it cannot be begun.
pub async fn run(line: Takeover, options: &AbuseOptions) -> Result<Outcome, AbuseError> {
    line.install_operator().await?;
    line.apply().await?;
    Box::pin(prepare(&line)).await?;
    let driver = NodeDriver::of_pruned(line);
    let line = driver.line();
    line.say("writers, readers and watchers are at work");
    let prober = Prober::start(line).await?;
    let harness = Harness::start(&line.cluster, &clients(options)).await?;
    // Faults are made all the time, and an APIService may be away in any round.
    harness.tally.go(|moment| {
        *moment = Moment {
            round: 1,
            direction: Direction::Rest,
            disturbed: true,
            restarted: None,
            disputed: true,
        };
    });
    let mut run = Run {
        driver: &driver,
        hand: Hand::new(line),
        outages: Outages::start(prober.client(), &prober.paths()),
        prober,
        harness,
        dispute: Dispute::default(),
        outcome: Outcome {
            seed: options.seed,
            ..Outcome::default()
        },
        began: Instant::now(),
    };
    if let Err(error) = Box::pin(run.actions(options)).await {
        line.say(&format!("the run ends early: {error}"));
        run.outcome.stopped = Some(error.to_string());
    }
    Ok(Box::pin(run.finish()).await)
}

/// Returns the options of the clients.
fn clients(options: &AbuseOptions) -> ChaosOptions {
    ChaosOptions {
        seed: options.seed,
        rate: options.rate,
        ..ChaosOptions::default()
    }
}

impl Run<'_> {
    fn line(&self) -> &Takeover {
        self.driver.line()
    }

    async fn actions(&mut self, options: &AbuseOptions) -> Result<(), AbuseError> {
        let chosen = |action: &Action| action.to_string().contains(&options.only);
        for action in Deck::new(options.seed).filter(chosen) {
            if self.began.elapsed() >= options.time || self.outcome.stopped.is_some() {
                break;
            }
            Box::pin(self.one(&action)).await?;
        }
        Ok(())
    }

    /// Carries one action out, judges it, and takes it back where it has to be.
    async fn one(&mut self, action: &Action) -> Result<(), AbuseError> {
        let what = action.to_string();
        self.line().say(&what);
        let (start, from) = (Instant::now(), tokio::time::Instant::now());
        let expect = action.expect();
        let away = matches!(expect, Expect::Away(_));
        if away {
            self.outages.ask_for(true);
        }
        let did = Box::pin(self.hand.act(action)).await?;
        let end = match &did {
            Did::Nothing => {
                self.line().say("  there is none");
                End::Fine
            }
            Did::Refused(message) => {
                let served = self.settle(&what, &Expect::Served).await?;
                match judge::refused(&expect, message) {
                    End::Fine => served,
                    unnamed => {
                        self.note(&what, &unnamed, start);
                        served
                    }
                }
            }
            Did::Done => match self.settle(&what, &expect).await? {
                End::Fine if expect == Expect::Served => self.repaired().await?,
                end => end,
            },
            Did::Stuck(why) => End::Stuck(why.clone()),
        };
        let end = judge::alone(action, end);
        if did != Did::Nothing {
            self.outcome.edits += 1;
        }
        self.note(&what, &end, start);
        let helped = action.is_taken_back() || !matches!(end, End::Fine | End::Busy(_));
        if helped {
            self.hand.take_back().await?;
            let end = self.settle(&what, &Expect::Served).await?;
            self.note(&format!("{what}, taken back"), &end, start);
            if matches!(end, End::Stuck(_) | End::Told(_)) {
                self.rescue(&what).await?;
            }
        }
        if away {
            self.outages.ask_for(false);
        }
        self.hand.forget();
        if action.disputes() {
            let to = tokio::time::Instant::now();
            self.dispute.windows.push(Window { from, to });
            Box::pin(self.check()).await?;
        }
        Ok(())
    }

    fn note(&mut self, what: &str, end: &End, start: Instant) {
        let words = self.outcome.count(what, end);
        self.line().say(&format!("  {words}"));
        self.outcome.actions.push(Done {
            at: (start - self.began).as_secs_f64(),
            what: what.to_owned(),
            end: words,
            seconds: start.elapsed().as_secs_f64(),
        });
    }

    /// Waits until all is as expected, or the time is over; counts the conditions that have said what
    /// was not so for longer than they may.
    async fn settle(&mut self, what: &str, expect: &Expect) -> Result<End, AbuseError> {
        let Settled {
            mut end,
            mut untrue,
        } = self.settled(expect, SERVED).await?;
        if matches!(end, End::Busy(_)) {
            let later = self.settled(expect, RESCUE).await?;
            end = judge::endless(later.end);
            untrue.extend(later.untrue);
        }
        for text in &untrue {
            self.line().say(&format!("  untrue: {text}"));
        }
        self.outcome.contradicted(what, untrue);
        Ok(end)
    }

    /// Waits until the children are as they were before, which no condition tells of.
    async fn repaired(&self) -> Result<End, AbuseError> {
        let deadline = Instant::now() + SERVED;
        loop {
            let left = self.hand.unrepaired().await?;
            if left.is_empty() {
                return Ok(End::Fine);
            }
            if Instant::now() >= deadline {
                return Ok(End::Stuck(format!("not repaired: {}", left.join(", "))));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn settled(&self, expect: &Expect, limit: Duration) -> Result<Settled, AbuseError> {
        let deadline = Instant::now() + limit;
        let mut contradicted = Contradicted::default();
        loop {
            let told = self.quiet(deadline).await?;
            let seen = self.prober.look().await;
            let now = Instant::now();
            let same = self.told().await? == told;
            if same {
                let found = judge::contradictions(&told, &seen);
                contradicted.look(found, now, TRUE_AGAIN);
            }
            let open = contradicted.is_open();
            let reached = same && told.current && judge::waits_for(expect, &told, &seen).is_none();
            let late = now >= deadline;
            if !open && (reached || (late && same)) {
                let end = if reached {
                    End::Fine
                } else {
                    judge::late(expect, &told, &seen)
                };
                let untrue = contradicted.untrue();
                return Ok(Settled { end, untrue });
            }
            // A status that never rests, and a look that never fits it.
            if now >= deadline + TRUE_AGAIN * 2 {
                let end = judge::late(expect, &told, &seen);
                let untrue = contradicted.untrue();
                return Ok(Settled { end, untrue });
            }
        }
    }

    /// Waits for a moment in which the status is of the present specification and does not change;
    /// returns what it says then, or at the deadline.
    async fn quiet(&self, deadline: Instant) -> Result<Told, AbuseError> {
        let mut last = self.told().await?;
        let mut since = Instant::now();
        loop {
            tokio::time::sleep(LOOK).await;
            let told = self.told().await?;
            if told != last {
                last = told;
                since = Instant::now();
            }
            if (last.current && since.elapsed() >= QUIET) || Instant::now() >= deadline {
                return Ok(last);
            }
        }
    }

    async fn told(&self) -> Result<Told, AbuseError> {
        let servers: Api<ReportsServer> = Api::all(self.line().client.clone());
        let server = servers.get(NAME).await;
        let server = server.map_err(RequestError::of("read the ReportsServer"))?;
        Ok(Told::of(&server))
    }

    /// Waits longer than anybody should have to; without a server there is nothing to do wrong to.
    async fn rescue(&mut self, what: &str) -> Result<(), AbuseError> {
        let Settled { end, .. } = self.settled(&Expect::Served, RESCUE).await?;
        if !matches!(end, End::Fine | End::Busy(_)) {
            self.outcome.stopped = Some(format!("nobody is served after: {what}"));
        }
        Ok(())
    }

    /// Compares the stored reports with the acknowledged writes.
    async fn check(&mut self) -> Result<(), AbuseError> {
        self.prober.clear().await?;
        if !self.dispute.windows.is_empty() {
            self.dispute.dropped = self.driver.dropped().await?.named;
        }
        self.harness.check_round(&self.dispute).await?;
        self.dispute = Dispute::default();
        Ok(())
    }

    /// Checks a last time, ends the clients, and counts.
    async fn finish(mut self) -> Outcome {
        self.outcome.outages_ms = self.outages.milliseconds();
        self.outcome.seconds = self.began.elapsed().as_secs_f64();
        let checked = Box::pin(self.check()).await;
        let crashes = crash::crashes(self.prober.client()).await;
        let Self {
            harness,
            mut outcome,
            ..
        } = self;
        let (tally, ledger) = (harness.tally.clone(), harness.ledger.clone());
        let ended: Result<(), ChaosError> = harness.finish().await;
        let errors = checked.err().map(|error| error.to_string());
        let errors = errors.or_else(|| ended.err().map(|error| error.to_string()));
        let errors = errors.or_else(|| crashes.as_ref().err().map(ToString::to_string));
        let crashes = crashes.unwrap_or_default();
        outcome.crashes = crashes.len() as u64;
        outcome.examples.extend(crashes);
        if let Some(error) = errors {
            outcome.stopped.get_or_insert(error);
        }
        outcome.writes = ledger.acknowledged();
        let lost = [Flaw::Lost, Flaw::Resurrected];
        outcome.lost = lost.iter().map(|flaw| tally.flaws(*flaw)).sum();
        let is_lost = |example: &String| {
            let named = |flaw: &Flaw| example.contains(&format!("{flaw:?}: "));
            lost.iter().any(named)
        };
        let examples = tally.examples().into_iter().filter(is_lost);
        outcome.examples.extend(examples.take(EXAMPLES));
        outcome
    }
}
