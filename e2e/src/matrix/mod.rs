//! Each way of installing, on a real cluster with its own tool: the operator comes, the reports go to
//! the server, the release before is upgraded, the reports go back, and the operator goes; clients
//! watch all the time.

mod error;
mod metrics;
mod outcome;
mod way;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use error::MatrixError;
pub use outcome::Outcome;
pub use way::Way;

use crate::chaos::{ChaosOptions, Direction, Harness};
use crate::takeover::{NAME, Takeover, TakeoverOptions};

/// Longest time without progress on the way to the server, and of the way back.
const LIMIT: Duration = Duration::from_mins(10);

/// Tries a way: the manifests of the options, which upgrade those in the folder `previous`, if there
/// are any. Its images have to be among those of the options.
///
/// # Errors
/// If the cluster cannot be made; everything later is in the outcome.
pub async fn run(
    way: &Way,
    options: TakeoverOptions,
    previous: Option<PathBuf>,
    say: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Outcome, MatrixError> {
    let manifests = options.manifests.clone();
    let line = Takeover::prepare(options, say).await?;
    let mut outcome = Outcome {
        way: way.name(),
        ..Outcome::default()
    };
    let began = Instant::now();
    let attempt = Attempt {
        way,
        line: &line,
        manifests,
        previous,
    };
    if let Err(error) = attempt.all(&mut outcome).await {
        outcome.error = Some(error.to_string());
    }
    outcome.seconds = began.elapsed().as_secs_f64();
    Ok(outcome)
}

/// One way on one cluster.
struct Attempt<'a> {
    way: &'a Way,
    line: &'a Takeover,
    manifests: PathBuf,
    previous: Option<PathBuf>,
}

impl Attempt<'_> {
    async fn all(&self, outcome: &mut Outcome) -> Result<(), MatrixError> {
        let witness = self.line.witness().await?;
        let done = self.forward(outcome).await;
        outcome.notice(witness.finish().await?);
        done?;
        // On the way back every object gets another uid and version, and a client whose write waits
        // when the CRD takes over is told to try again: the clients of the chaos know both.
        let harness = Harness::start(&self.line.cluster, &ChaosOptions::default()).await?;
        let tally = Arc::clone(&harness.tally);
        harness.going(Direction::Back);
        let done = self.back(outcome).await;
        harness.going(Direction::Rest);
        harness.finish().await?;
        outcome.count(&tally);
        done
    }

    /// Installs, moves the reports to the server, and upgrades.
    async fn forward(&self, outcome: &mut Outcome) -> Result<(), MatrixError> {
        let (way, line) = (self.way, self.line);
        let first = self.previous.as_ref().unwrap_or(&self.manifests);
        line.say(&format!("installing ({})", way.name()));
        way.install(&line.cluster, first).await?;
        way.test(&line.cluster).await?;
        outcome.installed = true;
        line.apply().await?;
        line.follow_to_ready(LIMIT).await?;
        outcome.ready = true;
        if self.previous.is_some() {
            outcome.upgraded = Some(false);
        }
        line.say("installing over it");
        way.install(&line.cluster, &self.manifests).await?;
        line.follow_to_ready(LIMIT).await?;
        line.say("reading the operator's metrics");
        metrics::are_guarded(&line.cluster).await?;
        line.say("rolling back and forward, where the way can");
        way.roll_back(&line.cluster).await?;
        line.follow_to_ready(LIMIT).await?;
        way.test(&line.cluster).await?;
        outcome.upgraded = self.previous.as_ref().map(|_| true);
        Ok(())
    }

    /// Gives the reports back, and uninstalls.
    async fn back(&self, outcome: &mut Outcome) -> Result<(), MatrixError> {
        let (way, line) = (self.way, self.line);
        line.say("uninstalling, which is refused where the way can");
        way.refuses_to_uninstall(&line.cluster).await?;
        line.say("deleting the ReportsServer");
        let timeout = format!("--timeout={}s", LIMIT.as_secs());
        let delete = ["delete", "reportsserver", NAME, "--wait=true", &timeout];
        line.cluster.kubectl(delete).await?;
        line.say("uninstalling");
        way.uninstall(&line.cluster, &self.manifests).await?;
        outcome.uninstalled = true;
        Ok(())
    }
}
