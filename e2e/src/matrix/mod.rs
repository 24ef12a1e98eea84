//! Each way of installing, on a real cluster with its own tool: the operator comes, the reports go
//! to the server, the release before is upgraded, gone back to and upgraded again, the reports go
//! back, and the operator goes, in wrong orders and in that of the page; clients watch all the
//! time.

mod argocd;
mod error;
mod flux;
pub mod gitops;
mod metrics;
mod olm;
mod outcome;
mod pages;
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
        let done = Box::pin(self.back(&harness, outcome)).await;
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
        outcome.installed = true;
        self.switch().await?;
        outcome.ready = true;
        outcome.upgraded = before.map(|_| false);
        outcome.downgraded = before.filter(|_| way.goes_back()).map(|_| false);
        line.say("installing over it");
        way.upgrade(&line.cluster, &self.manifests).await?;
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

    /// Moves the reports to the server.
    async fn switch(&self) -> Result<(), MatrixError> {
        let line = self.line;
        let switched = async {
            line.apply().await?;
            line.follow_to_ready(LIMIT).await?;
            Ok::<(), MatrixError>(())
        };
        self.while_asked(Box::pin(switched)).await
    }

    /// Does something that moves the reports; the operator has to ask meanwhile to be left as it
    /// is, and no longer after it. The wait for that begins before, as a small migration may be
    /// over before somebody looks.
    async fn while_asked(
        &self,
        deed: impl Future<Output = Result<(), MatrixError>>,
    ) -> Result<(), MatrixError> {
        let cluster = &self.line.cluster;
        let asked = self.way.asks_to_wait(cluster, true);
        tokio::try_join!(asked, deed)?;
        self.way.asks_to_wait(cluster, false).await
    }

    /// Uninstalls in the wrong orders, each of which ends well, and then as the page says.
    async fn back(&self, harness: &Harness, outcome: &mut Outcome) -> Result<(), MatrixError> {
        let (way, line, manifests) = (self.way, self.line, &self.manifests);
        line.say("uninstalling, which is refused where the way can");
        way.refuses_to_uninstall(&line.cluster, manifests).await?;
        let is_long = self.previous.is_some();
        if is_long {
            line.say("deleting the operator's namespace, and installing again");
            way.outlives_namespace(&line.cluster, manifests).await?;
        }
        if !way.deletes_crd() {
            line.say("removing the operator while the ReportsServer stays, and installing again");
            Box::pin(way.outlives_operator(&line.cluster, manifests)).await?;
        }
        // The orders below give the reports back, so each costs another way to the server. The runs
        // of every change, which upgrade no release, try the page's own order alone.
        if is_long {
            Box::pin(self.back_in_wrong_orders(harness)).await?;
        }
        self.back_as_the_page_says().await?;
        outcome.uninstalled = true;
        Ok(())
    }

    /// Deletes everything at once, where that takes the CRD along, and then the CRD first; each
    /// time the reports go to the server again.
    async fn back_in_wrong_orders(&self, harness: &Harness) -> Result<(), MatrixError> {
        let (way, line) = (self.way, self.line);
        if way.deletes_crd() {
            line.say("deleting everything at once, and installing again");
            way.returns_after_all(&line.cluster, &self.manifests)
                .await?;
            self.there_again(harness).await?;
        }
        line.say("deleting the CRD");
        way.leaves_crd_alone(&line.cluster).await?;
        self.while_asked(way::delete_crd(&line.cluster)).await?;
        self.there_again(harness).await
    }

    /// Installs the operator again, whose CRD is gone, and moves the reports to the server.
    async fn there_again(&self, harness: &Harness) -> Result<(), MatrixError> {
        let (way, line) = (self.way, self.line);
        line.say("installing again");
        way.installs_anew(&line.cluster, &self.manifests).await?;
        harness.going(Direction::Forward);
        self.switch().await?;
        harness.going(Direction::Back);
        Ok(())
    }

    /// Gives the reports back, removes the operator, and what is left then: by the page's commands,
    /// in its order.
    async fn back_as_the_page_says(&self) -> Result<(), MatrixError> {
        let (way, line, manifests) = (self.way, self.line, &self.manifests);
        line.say("deleting the ReportsServer");
        self.while_asked(way.gives_back(&line.cluster, manifests))
            .await?;
        line.say("uninstalling");
        way.uninstall(&line.cluster, manifests).await?;
        way.removes_rest(&line.cluster, manifests).await
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
