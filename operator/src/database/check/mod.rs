//! Examination of databases in the background: it connects as the servers will, checks that the
//! role can do what it has to, and describes the result in words for a condition.
//!
//! A reconciliation never waits for a database. It hands over the parameters and takes the last
//! result; when that changes, the reconciliation is asked to run again.

mod verdict;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

impl Target {
    /// Returns the database as one of which no history is expected yet.
    #[must_use]
    pub fn without_history(self) -> Self {
        Self {
            history: None,
            ..self
        }
    }
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
    /// The databases in use.
    running: Mutex<HashMap<String, Running>>,
    /// Those to which reports are to move.
    destinations: Mutex<HashMap<String, Running>>,
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
            destinations: Mutex::default(),
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

    /// Returns what the last examination of the database in use for `name` has found.
    pub fn present(&self, name: &str) -> Option<Verdict> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let present = running.get(name)?;
        present.verdict.borrow().clone()
    }

    /// Has this database examined for `name`.
    pub fn ensure(&self, name: &str, target: &Target) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let present = running.get(name);
        if present.is_some_and(|present| present.target == *target) {
            return;
        }
        let before = present.and_then(|present| present.verdict(target));
        running.insert(name.to_owned(), self.begin(name, target, before));
    }

    fn begin(&self, name: &str, target: &Target, before: Option<Verdict>) -> Running {
        let (found, verdict) = watch::channel(before);
        let task = Examiner {
            name: name.to_owned(),
            target: target.clone(),
            options: options(&self.resolve),
            found,
            changed: self.changed.clone(),
            metrics: Arc::clone(&self.metrics),
        };
        Running {
            target: target.clone(),
            verdict,
            _task: AbortOnDropHandle::new(tokio::spawn(task.run())),
        }
    }

    /// Returns what the last examination of the database to which reports are to move has found;
    /// nothing before, and nothing that was found with other parameters. It may be in use already.
    pub fn destination_verdict(&self, name: &str, target: &Target) -> Option<Verdict> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let destinations = self.destinations();
        let mut present = [destinations.get(name), running.get(name)]
            .into_iter()
            .flatten();
        let target = target.clone().without_history();
        let present = present.find(|present| present.target.clone().without_history() == target)?;
        present.verdict.borrow().clone()
    }

    /// Has the database to which reports are to move examined for `name`; none where there is none.
    /// No history is expected there.
    pub fn ensure_destination(&self, name: &str, target: Option<&Target>) {
        let mut destinations = self.destinations();
        let Some(target) = target.cloned().map(Target::without_history) else {
            destinations.remove(name);
            return;
        };
        let present = destinations.get(name);
        if present.is_none_or(|present| present.target != target) {
            let begun = self.begin(name, &target, None);
            destinations.insert(name.to_owned(), begun);
        }
    }

    /// Returns whether a database to which reports are to move is examined for `name`.
    #[cfg(test)]
    pub fn has_destination(&self, name: &str) -> bool {
        self.destinations().contains_key(name)
    }

    /// Takes the database to which reports have moved for the one in use. A verdict that `is_other`
    /// is about the old database, or from before the move.
    pub fn arrive(&self, name: &str, is_other: impl Fn(&Verdict) -> bool) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(destination) = self.destinations().remove(name) {
            running.insert(name.to_owned(), destination);
        }
        let other = running.get(name).is_some_and(|present| {
            let verdict = present.verdict.borrow();
            verdict.as_ref().is_some_and(&is_other)
        });
        if other {
            running.remove(name);
        }
    }

    fn destinations(&self) -> MutexGuard<'_, HashMap<String, Running>> {
        let destinations = self.destinations.lock();
        destinations.unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use database::inspect::{Contents, Held};
    use prometheus_client::registry::Registry;

    use super::*;

    fn checks() -> Checks {
        let (changed, _) = mpsc::channel(1);
        let metrics = Metrics::register(&mut Registry::default());
        Checks::new(changed, BTreeMap::new(), Arc::new(metrics))
    }

    fn target(host: &str) -> Target {
        let pairs = [
            ("host", host),
            ("dbname", "d"),
            ("username", "u"),
            ("sslmode", "disable"),
        ];
        Target {
            parameters: Arc::new(Parameters::from_map(pairs).unwrap()),
            primary: None,
            identity: "ours".to_owned(),
            cluster_uid: "uid".to_owned(),
            history: None,
        }
    }

    fn holding(history: &str) -> Verdict {
        let held = Held {
            identity: "ours".to_owned(),
            history: history.to_owned(),
            cluster_uid: "uid".to_owned(),
        };
        Verdict::Usable(Usable {
            endpoint: "db:5432".to_owned(),
            version: "17.2".to_owned(),
            contents: Contents::default(),
            held: vec![held],
            sought: None,
        })
    }

    fn lacks_new(verdict: &Verdict) -> bool {
        *verdict != holding("new")
    }

    fn examined(host: &str, verdict: Verdict) -> Running {
        let (_, verdict) = watch::channel(Some(verdict));
        Running {
            target: target(host),
            verdict,
            _task: AbortOnDropHandle::new(tokio::spawn(async {})),
        }
    }

    /// Parameters that change while one database is in use are another matter: see
    /// [`Running::verdict`].
    #[tokio::test]
    async fn nothing_is_known_of_a_destination_before_it_was_examined_itself() {
        let checks = checks();
        let before = ("a".to_owned(), examined("old", holding("old")));
        checks.running.lock().unwrap().extend([before]);
        let verdict = |host| checks.destination_verdict("a", &target(host));
        assert_eq!(verdict("new"), None);
        assert_eq!(verdict("old"), Some(holding("old")));
        checks.ensure_destination("a", Some(&target("new")));
        assert_eq!(verdict("new"), None);
        assert!(checks.verdict("a", &target("old")).is_some());
        checks.ensure_destination("a", None);
        assert!(checks.destinations().is_empty());
    }

    #[tokio::test]
    async fn what_was_seen_before_the_move_is_forgotten_when_reports_arrive() {
        let verdict = |checks: &Checks| checks.verdict("a", &target("new"));
        let cases = [
            (None, None),
            (Some("none"), None),
            (Some("new"), Some("new")),
        ];
        for (destination, expected) in cases {
            let checks = checks();
            let before = ("a".to_owned(), examined("old", holding("old")));
            checks.running.lock().unwrap().extend([before]);
            let found = destination.map(|found| ("a".to_owned(), examined("new", holding(found))));
            checks.destinations().extend(found);
            assert!(verdict(&checks).is_some(), "it is taken for the same");
            checks.arrive("a", lacks_new);
            assert_eq!(verdict(&checks), expected.map(holding));
            // As often as the operator looks.
            checks.arrive("a", lacks_new);
            assert_eq!(verdict(&checks), expected.map(holding));
        }
    }
}
