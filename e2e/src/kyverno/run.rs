//! The whole run: baseline, switches, and the state in the end.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};

use super::audit::{self, Audit, EPHEMERAL};
use super::check::{self, Found};
use super::churn::Churn;
use super::logs::{self, Logs};
use super::metrics::{self, Drops};
use super::outcome::{Counter, Gaps, Switch};
use super::{CONTROLLERS, KyvernoError, KyvernoOptions, NAMESPACE, Outcome, Silent, install};
use crate::chaos::{Driver as _, NodeDriver};
use crate::request::RequestError;
use crate::takeover::{Takeover, TakeoverOptions};

/// Churn before anything is measured.
const WARM_UP: Duration = Duration::from_secs(45);
/// Churn after a switch that belongs to it.
const AFTER: Duration = Duration::from_secs(25);
/// Churn after the last one: longer than the time after which a counter or controller counts as
/// dead.
const TAIL: Duration = Duration::from_mins(1);
/// Time without a report after which a controller has stopped. Namespaces come every 15 s.
const SILENCE: i64 = 45;
/// Longest time that a counter's watch may be away at the end of the churn, as it is opened again
/// each second.
const REOPENING: Duration = Duration::from_secs(5);
/// Time that Kyverno has to become quiet.
const QUIET: Duration = Duration::from_mins(5);
const PAUSE: Duration = Duration::from_secs(5);
/// The version by which the operator reaches the objects that etcd still holds, after its group.
const LEGACY: &str = "/legacy";

/// A switch and its moments.
struct Made {
    way: &'static str,
    seconds: f64,
    from: Timestamp,
    to: Timestamp,
    drops: u64,
}

/// A run under way.
struct Run<'a> {
    driver: NodeDriver,
    client: Client,
    churn: Churn,
    say: &'a (dyn Fn(&str) + Send + Sync),
    drops: Drops,
    made: Vec<Made>,
}

/// Starts a cluster with Kyverno, switches, and reports what Kyverno noticed. The driver has the
/// cluster.
///
/// # Errors
/// If a step cannot be made.
pub async fn run(
    mut line: TakeoverOptions,
    options: &KyvernoOptions,
    say: impl Fn(&str) + Send + Sync + Clone + 'static,
) -> Result<(NodeDriver, Outcome), KyvernoError> {
    let started = Instant::now();
    std::fs::create_dir_all(&options.logs).map_err(KyvernoError::file(&options.logs))?;
    let (log, flags) = audit::prepare(&options.logs)?;
    line.cluster.apiserver_args.extend(flags);
    let mut outcome = Outcome {
        database: line.database.name(),
        counters_wanted: CONTROLLERS.len() * EPHEMERAL.len(),
        ..Outcome::default()
    };
    let takeover = Takeover::prepare(line, say.clone()).await?;
    install::install(&takeover.cluster, &options.parts, &say).await?;
    let driver = NodeDriver::start(takeover).await?;
    let followed = Logs::follow(driver.cluster(), &options.logs)?;
    let client = driver.cluster().client().await?;
    say("beginning the churn");
    let mut run = Run {
        churn: Churn::start(client.clone()).await?,
        client,
        driver,
        say: &say,
        drops: Drops::new(),
        made: Vec::new(),
    };
    run.switches(options, &mut outcome, log).await?;
    run.end(&mut outcome).await?;
    outcome.legacy = followed.lines_with(LEGACY)?;
    logs::copy_ours(run.driver.cluster(), &options.logs)?;
    outcome.seconds = started.elapsed().as_secs_f64();
    Ok((run.driver, outcome))
}

impl Run<'_> {
    /// Returns the drops since the last call.
    async fn dropped(&mut self) -> u64 {
        let now = metrics::drops(self.driver.cluster(), &self.client).await;
        let added = metrics::increase(&self.drops, &now);
        self.drops.extend(now);
        added
    }

    async fn switches(
        &mut self,
        options: &KyvernoOptions,
        outcome: &mut Outcome,
        log: PathBuf,
    ) -> Result<(), KyvernoError> {
        tokio::time::sleep(WARM_UP).await;
        let at_start = self.dropped().await;
        (self.say)(&format!(
            "the baseline without a switch ({:?}); {at_start} drops at Kyverno's start",
            options.baseline
        ));
        let from = Timestamp::now();
        tokio::time::sleep(options.baseline).await;
        let baseline = (from, Timestamp::now());
        outcome.drops.0 = self.dropped().await;
        for round in 1..=options.rounds {
            self.switch("forward", round % 2 == 1).await?;
            self.switch("back", false).await?;
        }
        self.switch("forward", true).await?;
        (self.say)("churn after the last switch");
        tokio::time::sleep(TAIL).await;
        let end = Timestamp::now();
        outcome.drops.1 = self.dropped().await + self.made.iter().map(|m| m.drops).sum::<u64>();
        self.churn.stop().await;
        let audit = tokio::task::spawn_blocking(move || Audit::read(&log))
            .await
            .map_err(|error| KyvernoError::File {
                path: PathBuf::from("audit.log"),
                source: std::io::Error::other(error),
            })??;
        self.judge(&audit, baseline, end, outcome);
        Ok(())
    }

    /// Goes one way, and lets the churn go on after it.
    async fn switch(&mut self, way: &'static str, prune: bool) -> Result<(), KyvernoError> {
        (self.say)(&format!("switching {way}"));
        let (from, started) = (Timestamp::now(), Instant::now());
        if way == "forward" {
            self.driver.forward(prune).await?;
        } else {
            self.driver.back().await?;
        }
        let seconds = started.elapsed().as_secs_f64();
        tokio::time::sleep(AFTER).await;
        let to = Timestamp::now();
        let drops = self.dropped().await;
        let counts = self.churn.canaries().counts();
        (self.say)(&format!(
            "  done after {seconds:.1} s; {drops} drops; {} canaries, {} late",
            counts.made, counts.lost
        ));
        self.made.push(Made {
            way,
            seconds,
            from,
            to,
            drops,
        });
        Ok(())
    }

    /// Judges the switches and the counters by the audit log.
    fn judge(
        &self,
        audit: &Audit,
        baseline: (Timestamp, Timestamp),
        end: Timestamp,
        outcome: &mut Outcome,
    ) {
        outcome.switches = self.made.iter().map(|made| switch(audit, made)).collect();
        let longest = |way| {
            let of = outcome.switches.iter().filter(|switch| switch.way == way);
            of.map(|switch| switch.gap_ms).max().unwrap_or_default()
        };
        outcome.gaps = Gaps {
            baseline: audit.longest_gap(CONTROLLERS[0], baseline.0, baseline.1),
            forward: longest("forward"),
            back: longest("back"),
        };
        for controller in CONTROLLERS {
            for kind in EPHEMERAL {
                outcome
                    .counters
                    .extend(counter(audit, controller, kind, baseline.0, end));
            }
            let last = audit.made_by(controller).filter(|at| *at < end).max();
            let seconds = last.map(|last| end.as_second() - last.as_second());
            if seconds.is_none_or(|seconds| seconds > SILENCE) {
                outcome.silent.push(Silent {
                    controller: controller.to_owned(),
                    seconds,
                });
            }
        }
    }

    /// Waits until Kyverno is quiet, and takes the account.
    async fn end(&mut self, outcome: &mut Outcome) -> Result<(), KyvernoError> {
        (self.say)("the churn is over; waiting until Kyverno is quiet");
        let found = self.quiet().await?;
        let counts = self.churn.canaries().counts();
        outcome.operations = self.churn.counts();
        outcome.canaries = counts.made;
        outcome.canaries_lost = counts.lost;
        outcome.canaries_never = counts.never;
        outcome.canary_longest_ms = counts.longest_ms;
        outcome.restarts = restarts(&self.client).await?;
        outcome.objects = found.objects;
        outcome.reports = found.reports;
        outcome.without_one = found.without_one;
        outcome.without_owner = found.without_owner;
        outcome.of_nothing = found.of_nothing;
        Ok(())
    }

    async fn quiet(&self) -> Result<Found, KyvernoError> {
        let began = Instant::now();
        loop {
            let found = check::check(&self.client).await?;
            let settled = self.churn.canaries().settled() && found.is_right();
            if settled || began.elapsed() > QUIET {
                return Ok(found);
            }
            tracing::info!(
                without_one = found.without_one.len(),
                without_owner = found.without_owner.len(),
                ephemeral = found.ephemeral,
                "not quiet yet"
            );
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn switch(audit: &Audit, made: &Made) -> Switch {
    let posts = || {
        let within = made.from..made.to;
        audit
            .posts
            .iter()
            .filter(move |post| within.contains(&post.at))
    };
    let lasted = posts().map(|p| p.answered.as_millisecond() - p.at.as_millisecond());
    Switch {
        way: made.way,
        seconds: made.seconds,
        gap_ms: audit.longest_gap(CONTROLLERS[0], made.from, made.to),
        longest_post_ms: lasted.max().unwrap_or_default(),
        refused: u64::try_from(posts().filter(|post| !post.made()).count()).unwrap_or(u64::MAX),
        drops: made.drops,
    }
}

fn counter(
    audit: &Audit,
    controller: &'static str,
    kind: &'static str,
    from: Timestamp,
    end: Timestamp,
) -> Option<Counter> {
    let sessions = audit.counters.get(&(controller, kind))?;
    Some(Counter {
        controller: controller.to_owned(),
        kind: kind.to_owned(),
        watches: sessions.len(),
        longest_closed_ms: Audit::longest_closed(sessions, from),
        alive: Audit::alive(sessions, end) || Audit::alive(sessions, end - REOPENING),
    })
}

async fn restarts(client: &Client) -> Result<i32, KyvernoError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pods = pods.list(&ListParams::default()).await;
    let pods = pods.map_err(RequestError::of("list Kyverno's pods"))?;
    let statuses = pods.items.iter().filter_map(|pod| pod.status.as_ref());
    let containers = statuses.flat_map(|status| status.container_statuses.iter().flatten());
    Ok(containers.map(|container| container.restart_count).sum())
}
