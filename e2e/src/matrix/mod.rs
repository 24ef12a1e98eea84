//! Each way of installing, on a real cluster with its own tool: the operator comes, the reports go
//! to the server, the release before is upgraded, gone back to and upgraded again, the reports go
//! back, and the operator goes; clients watch all the time.

mod argocd;
mod error;
mod flux;
pub mod gitops;
mod metrics;
mod olm;
mod outcome;
mod page;
mod previous;
mod tool;
mod way;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crds::v1alpha1::ReportsServer;

pub use error::MatrixError;
pub use outcome::{LeftOut, Outcome};
pub use previous::Previous;
pub use way::Way;

use crate::chaos::{ChaosOptions, Direction, Harness};
use crate::takeover::{NAME, TARGET_NAMESPACE, Takeover, TakeoverOptions, is_ready};

/// Longest time without progress on the way to the server, and of the way back.
const LIMIT: Duration = Duration::from_mins(10);
/// Version of the release that is tried.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Tries a way: the manifests of the options, which upgrade those of the release before, if there
/// is one. A rolling update needs a database that two servers share.
///
/// # Errors
/// If the cluster cannot be made; everything later is in the outcome.
pub async fn run(
    way: &Way,
    options: TakeoverOptions,
    previous: Option<Previous>,
    say: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Outcome, MatrixError> {
    let manifests = options.manifests.clone();
    let line = Takeover::prepare(options, say).await?;
    for archive in previous.iter().flat_map(|previous| &previous.archives) {
        line.cluster.load_image(archive).await?;
    }
    let _beside = way.begin(&line.cluster).await?;
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
    if let Err(error) = Box::pin(attempt.all(&mut outcome)).await {
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
    previous: Option<Previous>,
}

impl Attempt<'_> {
    async fn all(&self, outcome: &mut Outcome) -> Result<(), MatrixError> {
        let witness = self.line.witness().await?;
        let done = Box::pin(self.forward(outcome)).await;
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

    /// Installs, moves the reports to the server, upgrades, and goes back and forward again.
    async fn forward(&self, outcome: &mut Outcome) -> Result<(), MatrixError> {
        let (way, line) = (self.way, self.line);
        let before = self.previous.as_ref();
        let first = before.map(|release| release.manifests.as_path());
        let first = first.unwrap_or(&self.manifests);
        line.say(&format!("installing ({})", way.name()));
        way.install(&line.cluster, first).await?;
        way.test(&line.cluster).await?;
        outcome.installed = true;
        line.apply().await?;
        way.asks_to_wait(&line.cluster, true).await?;
        line.follow_to_ready(LIMIT).await?;
        way.asks_to_wait(&line.cluster, false).await?;
        outcome.ready = true;
        outcome.upgraded = before.map(|_| false);
        outcome.downgraded = before.filter(|_| way.goes_back()).map(|_| false);
        line.say("installing over it");
        way.install(&line.cluster, &self.manifests).await?;
        self.is_served_by(VERSION).await?;
        way::has_two_operators(&self.line.cluster, "--timeout=120s").await?;
        outcome.upgraded = before.map(|_| true);
        line.say("reading the operator's metrics");
        metrics::are_guarded(&line.cluster).await?;
        if way.goes_back() {
            self.back_and_forth().await?;
            outcome.downgraded = before.map(|_| true);
        }
        way.upgrades_with_care(&line.cluster, &self.manifests)
            .await?;
        way.test(&line.cluster).await
    }

    /// Goes back to the revision before, and forward again.
    async fn back_and_forth(&self) -> Result<(), MatrixError> {
        let (way, line) = (self.way, self.line);
        let before = self.previous.as_ref();
        line.say("rolling back");
        let manifests = before.map(|release| release.manifests.as_path());
        way.roll_back(&line.cluster, manifests).await?;
        let version = before.map_or(VERSION, |release| release.version.as_str());
        self.is_served_by(version).await?;
        line.say("rolling forward again");
        let manifests: Option<&Path> = before.map(|_| self.manifests.as_path());
        way.roll_back(&line.cluster, manifests).await?;
        self.is_served_by(VERSION).await
    }

    /// Waits until operator and servers are of this version, and every group is served.
    async fn is_served_by(&self, version: &str) -> Result<(), MatrixError> {
        let line = self.line;
        let what = format!("release {version}");
        line.follow(&what, LIMIT, |server| {
            is_ready(server) && is_of(server, version)
        })
        .await?;
        let deployment = format!("deployment/{NAME}-server");
        let rollout = ["rollout", "status", &deployment, "--timeout=300s"];
        let arguments = [&["-n", TARGET_NAMESPACE][..], &rollout].concat();
        line.cluster.kubectl(arguments).await?;
        Ok(line.follow_to_ready(LIMIT).await?)
    }

    /// Gives the reports back, and uninstalls.
    async fn back(&self, outcome: &mut Outcome) -> Result<(), MatrixError> {
        let (way, line) = (self.way, self.line);
        line.say("uninstalling, which is refused where the way can");
        way.refuses_to_uninstall(&line.cluster).await?;
        if self.previous.is_some() {
            line.say("deleting the operator's namespace, and installing again");
            way.outlives_namespace(&line.cluster, &self.manifests)
                .await?;
        }
        line.say("uninstalling before the ReportsServer is deleted, and installing again");
        let stays = Box::pin(way.keeps_server(&line.cluster, &self.manifests)).await?;
        if stays {
            let first = way.first_to_go();
            line.say(&format!("deleting {first}"));
            let timeout = format!("--timeout={}s", LIMIT.as_secs());
            let delete = ["delete", &first, "--wait=true", &timeout];
            line.cluster.kubectl(delete).await?;
        }
        line.say("uninstalling");
        way.uninstall(&line.cluster, &self.manifests).await?;
        outcome.uninstalled = true;
        Ok(())
    }
}

/// Returns whether operator and servers are of this version.
fn is_of(server: &ReportsServer, version: &str) -> bool {
    let status = server.status.as_ref();
    let versions = status.and_then(|status| status.versions.as_ref());
    versions.is_some_and(|versions| {
        let found = [versions.operator.as_deref(), versions.server.as_deref()];
        found == [Some(version), Some(version)]
    })
}
