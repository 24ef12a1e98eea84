//! The main job on a real cluster, from reports in etcd to reports out of etcd, step by step, so
//! that the demo, the end-to-end test and the kill matrix run the same line.

mod database;
mod error;
mod incumbent;
mod install;
pub mod load;
mod measure;
mod operators;
mod options;
mod outcome;
mod status;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::status::MigrationPhase;
use futures::StreamExt as _;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};

pub use database::Database;
pub use error::TakeoverError;
pub use measure::{COUNT_PERIOD, Figures, Measures};
pub use options::TakeoverOptions;
pub use outcome::Outcome;
pub(crate) use outcome::{ms, tell, tell_row};
pub use status::{all_groups, is_ready};
pub use testreports::GROUPS;

use self::status::Heard;
use crate::access::Access;
use crate::request::RequestError;
use crate::witness::{Account, Origin, Witness, WitnessOptions, strict_client};
use testcluster::Cluster;
use testreports::{Corpus, Owner};

/// Name of the `ReportsServer` that is applied, as in `manifests/examples`.
pub const NAME: &str = "policy-reports";
/// Namespace of the server, as there.
pub const TARGET_NAMESPACE: &str = "policy-reports";
/// Namespace of the operator, as in `manifests/install.yaml`.
pub const OPERATOR_NAMESPACE: &str = "reports-server-system";
/// The CRD of `ReportsServer`, as kubectl takes it.
pub const CRD: &str = "crd/reportsservers.reports-server.io";
/// Namespaces that the loaded reports are spread over.
const TEAMS: usize = 20;
/// Namespaces that the witness writes in.
const WITNESS_TEAMS: usize = 4;
const REPORTS_PER_WRITER: usize = 10;

/// A line on a cluster: by default on one of this machine's own.
pub struct Takeover<C = Cluster> {
    /// The cluster.
    pub cluster: C,
    /// The administrator's client.
    pub client: Client,
    options: TakeoverOptions,
    corpus: Arc<Corpus>,
    witness_owners: Vec<Owner>,
    witnesses: AtomicUsize,
    say: Box<dyn Fn(&str) + Send + Sync>,
}

impl Takeover {
    /// Starts the cluster, installs the report CRDs, and loads the reports.
    ///
    /// # Errors
    /// If one of these fails.
    pub async fn prepare(
        options: TakeoverOptions,
        say: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, TakeoverError> {
        say("starting a Kubernetes cluster with a node");
        let cluster = Cluster::start(options.cluster.clone()).await?;
        let client = cluster.client().await?;
        for path in options.archives() {
            if !path.exists() {
                return Err(TakeoverError::Missing {
                    path,
                    hint: "hack/image makes it",
                });
            }
            cluster.load_image(&path).await?;
        }
        say(&format!(
            "installing the report CRDs ({})",
            options.input.name()
        ));
        load::install_crds(&client, options.input.crds(&GROUPS)?).await?;
        if let Some(parts) = &options.incumbent {
            say("installing the incumbent, kyverno/reports-server");
            incumbent::install(&cluster, parts, &options.images).await?;
        }
        Self::fill(cluster, client, options, "", say).await
    }

    /// Sets the number of operators, which is two in the manifest, and waits until so many are there.
    ///
    /// # Errors
    /// If they do not become available.
    pub async fn scale_operator(&self, count: i32) -> Result<(), TakeoverError> {
        operators::scale(self, count).await
    }

    /// Returns the name of the pod whose operator leads; none where nobody does.
    ///
    /// # Errors
    /// If the Lease cannot be read.
    pub async fn leader(&self) -> Result<Option<String>, TakeoverError> {
        operators::leader(self).await
    }

    /// Ends the incumbent, as its administrator does once our server is `Ready`; without one, it
    /// does nothing. Watches that are still open at it end with it.
    ///
    /// # Errors
    /// If it does not end.
    pub async fn end_incumbent(&self) -> Result<(), TakeoverError> {
        if self.options.incumbent.is_none() {
            return Ok(());
        }
        self.say("scaling the incumbent to 0: watches at it end, and list once");
        incumbent::end(&self.cluster).await
    }

    /// Returns the present sizes and times of the cluster.
    ///
    /// # Errors
    /// If one of them is not available.
    pub async fn measure(&self) -> Result<Measures, TakeoverError> {
        measure::measure(&self.cluster, &self.client).await
    }

    /// Compacts and defragments etcd, so that its size is that of its content.
    ///
    /// # Errors
    /// If etcd refuses.
    pub async fn shrink_etcd(&self) -> Result<(), TakeoverError> {
        self.cluster.etcd_compact().await?;
        Ok(self.cluster.etcd_defragment().await?)
    }
}

impl<C: Access> Takeover<C> {
    /// Returns a line on a cluster that serves the report CRDs: loads the reports into namespaces
    /// whose names begin with `prefix`.
    ///
    /// # Errors
    /// If a namespace or a report is refused, or there is no test input.
    pub async fn fill(
        cluster: C,
        client: Client,
        options: TakeoverOptions,
        prefix: &str,
        say: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, TakeoverError> {
        let corpus = Arc::new(options.input.corpus()?);
        let owners = load::namespaces(&client, &format!("{prefix}team"), TEAMS).await?;
        let witness = format!("{prefix}witness");
        let witness_owners = load::namespaces(&client, &witness, WITNESS_TEAMS).await?;
        say(&format!(
            "loading {} {} reports into {}",
            options.reports,
            options.input.name(),
            options
                .incumbent
                .as_ref()
                .map_or("etcd", |_| "the incumbent")
        ));
        load::load(&client, &corpus, &owners, options.reports, &say).await?;
        let say = Box::new(say);
        Ok(Self {
            cluster,
            client,
            options,
            corpus,
            witness_owners,
            witnesses: AtomicUsize::new(0),
            say,
        })
    }

    /// Prints progress for the user.
    pub fn say(&self, text: &str) {
        (self.say)(text);
    }

    /// Begins to write and watch. Each witness has namespaces of its own: the reports of the one
    /// before are still there, under the same names.
    ///
    /// # Errors
    /// If the witness cannot begin.
    pub async fn witness(&self) -> Result<Witness, TakeoverError> {
        let (origin, watchers) = match self.options.incumbent {
            Some(_) => (Origin::Incumbent, 2),
            None => (Origin::Kubernetes, 6),
        };
        self.say(&format!(
            "starting the witness ({} writes/s, {watchers} watchers)",
            self.options.rate
        ));
        let namespaces = match self.witnesses.fetch_add(1, Ordering::Relaxed) {
            0 => self.witness_owners.clone(),
            number => {
                load::namespaces(&self.client, &format!("witness{number}"), WITNESS_TEAMS).await?
            }
        };
        let options = WitnessOptions {
            origin,
            namespaces,
            rate: self.options.rate,
            reports_per_writer: REPORTS_PER_WRITER,
        };
        let client = strict_client(self.cluster.config(0).await?)?;
        Ok(Witness::start(client, Arc::clone(&self.corpus), options).await?)
    }

    /// Runs `kubectl apply -f manifests/install.yaml`, then waits for the operator.
    ///
    /// # Errors
    /// If the manifest is refused or the operator does not become available.
    pub async fn install_operator(&self) -> Result<(), TakeoverError> {
        install::operator(self).await
    }

    /// Applies the `ReportsServer` for [`GROUPS`]; copies in etcd stay for a day.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn apply(&self) -> Result<(), TakeoverError> {
        self.apply_as("Server").await
    }

    /// Applies it as [`Takeover::apply`] does, with the groups served by `Server` or `CRD`.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn apply_as(&self, owner: &str) -> Result<(), TakeoverError> {
        self.say("applying the ReportsServer");
        install::reports_server(self, owner).await
    }

    /// Follows the `ReportsServer` until it is `Ready` and every group is served by the server.
    ///
    /// # Errors
    /// If that takes longer than `limit`.
    pub async fn follow_to_ready(&self, limit: Duration) -> Result<(), TakeoverError> {
        self.follow("the switch of every group", limit, |server| {
            is_ready(server)
                && all_groups(server, |phase| {
                    matches!(phase, MigrationPhase::Retaining | MigrationPhase::Completed)
                })
        })
        .await
    }

    /// Sets `migration.source.after: 0s` and follows until the copies in etcd are gone.
    ///
    /// # Errors
    /// If that takes longer than `limit`.
    pub async fn prune(&self, limit: Duration) -> Result<(), TakeoverError> {
        self.say("pruning the copies in etcd (migration.source.after: 0s)");
        self.patch_spec(json!({"migration": {"source": {"policy": "Prune", "after": "0s"}}}))
            .await?;
        self.follow("the end of pruning", limit, |server| {
            is_ready(server) && all_groups(server, |phase| phase == MigrationPhase::Completed)
        })
        .await
    }

    /// Sets the owner that serves [`GROUPS`]: `Server` or `CRD`.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn set_owner(&self, owner: &str) -> Result<(), TakeoverError> {
        let apis: Vec<_> = GROUPS
            .iter()
            .map(|group| json!({"group": group, "owner": owner}))
            .collect();
        self.patch_spec(json!({"apis": apis})).await
    }

    /// Sets members of the specification.
    ///
    /// # Errors
    /// If they are refused.
    pub async fn patch_spec(&self, members: Value) -> Result<(), TakeoverError> {
        let servers: Api<ReportsServer> = Api::all(self.client.clone());
        let patch = json!({"spec": members});
        servers
            .patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map_err(RequestError::of("change the ReportsServer"))?;
        Ok(())
    }

    /// Returns the database in which the servers store the reports.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.options.database
    }

    /// Waits until the `ReportsServer` is as wanted; prints each new phase and message once.
    ///
    /// # Errors
    /// If its migration does not change for `limit`, or this takes [`LIMITS`] times as long.
    pub async fn follow(
        &self,
        what: &str,
        limit: Duration,
        reached: impl Fn(&ReportsServer) -> bool,
    ) -> Result<(), TakeoverError> {
        let mut heard = Heard::begin();
        let servers: Api<ReportsServer> = Api::all(self.client.clone());
        let named = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
        let mut changes = watcher(servers, named)
            .default_backoff()
            .applied_objects()
            .boxed();
        loop {
            let still = limit.saturating_sub(heard.moved.elapsed());
            let left = still.min((limit * LIMITS).saturating_sub(heard.began.elapsed()));
            let server = match tokio::time::timeout(left, changes.next()).await {
                Ok(Some(Ok(server))) => server,
                // The watcher begins anew by itself.
                Ok(Some(Err(error))) => {
                    heard.last = format!("cannot follow {NAME}: {error}");
                    continue;
                }
                Ok(None) | Err(_) => return Err(heard.not_reached(what)),
            };
            for line in heard.news(&server) {
                self.say(&line);
            }
            if reached(&server) {
                return Ok(());
            }
        }
    }

    /// Returns the figures that need nothing of the cluster but its API.
    ///
    /// # Errors
    /// If a list fails.
    pub async fn figures(&self) -> Result<Figures, TakeoverError> {
        measure::figures(&self.client).await
    }

    /// Installs the operator, applies the `ReportsServer`, and follows it to `Ready`; returns the
    /// seconds that this took.
    ///
    /// # Errors
    /// If a step fails.
    pub async fn switch(&self) -> Result<f64, TakeoverError> {
        let started = Instant::now();
        self.install_operator().await?;
        self.apply().await?;
        self.follow_to_ready(READY_LIMIT).await?;
        Ok(started.elapsed().as_secs_f64())
    }
}

/// Runs the whole line, and returns its outcome with the figures before and after.
///
/// # Errors
/// If a step fails; the cluster is gone then unless it was started detached.
pub async fn run(
    options: TakeoverOptions,
    say: impl Fn(&str) + Send + Sync + 'static,
) -> Result<(Takeover, Outcome), TakeoverError> {
    let (reports, input) = (options.reports, options.input.name());
    let database = options.database.name();
    let line = Takeover::prepare(options, say).await?;
    line.shrink_etcd().await?;
    let before = line.measure().await?;
    let witness = line.witness().await?;
    let seconds = line.switch().await?;
    line.end_incumbent().await?;
    line.prune(PRUNE_LIMIT).await?;
    line.say("settling the witness's account");
    let account: Account = witness.finish().await?;
    line.shrink_etcd().await?;
    let after = line.measure().await?;
    Ok((
        line,
        Outcome {
            reports,
            input,
            database,
            before,
            after,
            seconds,
            account,
        },
    ))
}

/// Number of times its limit that something may take that makes progress.
const LIMITS: u32 = 5;
/// Longest time without progress on the way from `kubectl apply` to `Ready`.
const READY_LIMIT: Duration = Duration::from_mins(10);
/// Longest time without progress while pruning.
pub const PRUNE_LIMIT: Duration = Duration::from_mins(10);
