//! Examination of databases in the background: it connects as the servers will, checks that the
//! role can do what it has to, and describes the result in words for a condition.
//!
//! A reconciliation never waits for a database. It hands over the parameters and takes the last
//! result; when that changes, the reconciliation is asked to run again.

mod verdict;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use database::{ConnectOptions, Parameters, establish, inspect};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

pub use verdict::{Usable, Verdict, reason};

use super::metrics::Metrics;

/// The time between two examinations of a database that can be used.
const PERIOD: Duration = Duration::from_mins(1);
/// The time between two examinations of a database that cannot be used.
const RETRY: Duration = Duration::from_secs(10);
/// Longest examination, connecting included.
const LIMIT: Duration = Duration::from_secs(25);
/// Longest statement of an examination.
const STATEMENT: Duration = Duration::from_secs(5);

/// The database to examine. When it differs from before, it is examined at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The parameters of the connection.
    pub parameters: Arc<Parameters>,
    /// The instance that should take writes, where its name is known.
    pub primary: Option<String>,
    /// The identity of the cluster whose reports are looked for.
    pub identity: String,
    /// uid of the cluster's namespace `kube-system`.
    pub cluster_uid: String,
    /// The history that the cluster should have there; none before the first use.
    pub history: Option<String>,
}

struct Running {
    target: Target,
    verdict: watch::Receiver<Option<Verdict>>,
    _task: AbortOnDropHandle<()>,
}

impl Running {
    /// Returns what is known of `target`.
    fn verdict(&self, target: &Target) -> Option<Verdict> {
        let verdict = self.verdict.borrow().clone();
        verdict.filter(|verdict| self.target == *target || matches!(verdict, Verdict::Usable(_)))
    }
}

/// The examinations of all `ReportsServer`s.
pub struct Checks {
    changed: mpsc::Sender<String>,
    resolve: BTreeMap<String, SocketAddr>,
    metrics: Arc<Metrics>,
    running: Mutex<HashMap<String, Running>>,
}

impl Checks {
    /// Returns the examinations; there are none yet. The name of a `ReportsServer` is sent to
    /// `changed` when something else was found for it than before. `resolve` has the addresses of
    /// hosts, see [`ConnectOptions::resolve`].
    #[must_use]
    pub fn new(
        changed: mpsc::Sender<String>,
        resolve: BTreeMap<String, SocketAddr>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            changed,
            resolve,
            metrics,
            running: Mutex::default(),
        }
    }

    /// Returns what the last examination of this database for `name` has found; nothing in the first
    /// moments. A database that could be used is taken to be so while new parameters are tried.
    pub fn verdict(&self, name: &str, target: &Target) -> Option<Verdict> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running
            .get(name)
            .and_then(|present| present.verdict(target))
    }

    /// Has this database examined for `name`.
    pub fn ensure(&self, name: &str, target: &Target) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let present = running.get(name);
        if present.is_some_and(|present| present.target == *target) {
            return;
        }
        let before = present.and_then(|present| present.verdict(target));
        let (found, verdict) = watch::channel(before);
        let task = Examiner {
            name: name.to_owned(),
            target: target.clone(),
            options: options(&self.resolve),
            found,
            changed: self.changed.clone(),
            metrics: Arc::clone(&self.metrics),
        };
        running.insert(
            name.to_owned(),
            Running {
                target: target.clone(),
                verdict,
                _task: AbortOnDropHandle::new(tokio::spawn(task.run())),
            },
        );
    }

    /// Ends the examinations for `name`.
    pub fn forget(&self, name: &str) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(name);
    }
}

fn options(resolve: &BTreeMap<String, SocketAddr>) -> ConnectOptions {
    let mut options = ConnectOptions::new(crate::names::OPERATOR).statement_timeout(STATEMENT);
    options.resolve.clone_from(resolve);
    options
}

struct Examiner {
    name: String,
    target: Target,
    options: ConnectOptions,
    found: watch::Sender<Option<Verdict>>,
    changed: mpsc::Sender<String>,
    metrics: Arc<Metrics>,
}

impl Examiner {
    async fn run(self) {
        let mut known_fit = false;
        loop {
            let verdict = self.examine(known_fit).await;
            self.metrics.examined(&self.name, verdict.reason());
            known_fit = matches!(verdict, Verdict::Usable(_));
            debug!(name = self.name, ?verdict, "examined the database");
            let news = self
                .found
                .borrow()
                .as_ref()
                .is_none_or(|before| before.differs(&verdict));
            self.found.send_replace(Some(verdict));
            if news && self.changed.send(self.name.clone()).await.is_err() {
                return;
            }
            tokio::time::sleep(if known_fit { PERIOD } else { RETRY }).await;
        }
    }

    async fn examine(&self, known_fit: bool) -> Verdict {
        timeout(LIMIT, self.connect_and_look(known_fit))
            .await
            .unwrap_or_else(|_| Verdict::too_slow(&self.target.parameters, LIMIT))
    }

    /// Connects and examines. Rights are tried out once and again after an error, because that
    /// leaves traces in the catalogs.
    async fn connect_and_look(&self, known_fit: bool) -> Verdict {
        let session = match establish(&self.target.parameters, &self.options).await {
            Ok(session) => session,
            Err(error) => return Verdict::unreachable(&error),
        };
        let (endpoint, version) = (session.endpoint.clone(), session.version.clone());
        let (client, _connection) = session.spawn();
        if !known_fit && let Err(unfit) = inspect::fitness(&client).await {
            return Verdict::unfit(&self.target.parameters, &unfit);
        }
        let contents = inspect::contents(&client).await;
        let (identity, uid) = (&self.target.identity, &self.target.cluster_uid);
        let held = inspect::held(&client, identity, uid).await;
        match contents.and_then(|contents| Ok((contents, held?))) {
            Ok((contents, held)) => Verdict::Usable(Usable {
                endpoint: endpoint.to_string(),
                version: version.text,
                contents,
                held,
                sought: self.target.history.clone(),
            }),
            Err(error) => Verdict::unfit(&self.target.parameters, &inspect::Unfit::Failed(error)),
        }
    }
}
