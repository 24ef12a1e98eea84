//! All clients of a run, from their start to the last check.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::clientgo::ClientGo;
use super::compare::{self, Comparison};
use super::crew::{Namespaces, Watchers, Watching, Work};
use super::dispute::Dispute;
use super::ledger::{Fate, Key, Ledger, What};
use super::object::{self, Subject};
use super::observer::Observer;
use super::request::{Answer, Requester, media};
use super::tally::{Direction, Tally};
use super::work::{Gate, Worker};
use super::{ChaosError, ChaosOptions, counter, noise};
use crate::access::Access;
use crate::takeover::load;
use crate::witness::strict_client;
use testreports::ReportKind;

/// Namespaces for all verbs.
const COMMON: usize = 2;
/// Longest time for a watcher to begin.
const START_LIMIT: Duration = Duration::from_mins(1);
/// Longest time for watchers to see all writes.
const SETTLE_LIMIT: Duration = Duration::from_secs(40);
/// Pause between two looks at them.
const PAUSE: Duration = Duration::from_millis(100);
/// Path of the server's view of the objects that it stores.
const STORED: &str = "/apis/control.reports-server.io/v1alpha1/storedresources";

/// The clients of a run. See the module.
pub struct Harness {
    /// The count of everything.
    pub tally: Arc<Tally>,
    /// The ledger of writes.
    pub ledger: Arc<Ledger>,
    requesters: Vec<Requester>,
    client: Client,
    kinds: Vec<ReportKind>,
    idle: Vec<ReportKind>,
    observers: Vec<Arc<Observer>>,
    clientgo: ClientGo,
    counters: Vec<Subject>,
    comparison: Comparison,
    gate: Gate,
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Harness {
    /// Records the stored objects, opens the watches, and begins to write.
    ///
    /// # Errors
    /// If one of these cannot be begun.
    pub async fn start(cluster: &dyn Access, options: &ChaosOptions) -> Result<Self, ChaosError> {
        let tally = Arc::new(Tally::default());
        let ledger = Arc::new(Ledger::default());
        let requesters = requesters(cluster, &tally).await?;
        let client = Client::try_from(cluster.config(0).await?);
        let client = client.map_err(testcluster::Error::from)?;
        let kinds: Vec<ReportKind> = options.busy.iter().chain(&options.idle).copied().collect();
        let namespaces = namespaces(&client, &options.busy).await?;
        let background = compare::list(&requesters[0], &kinds).await?;
        let background = background
            .into_iter()
            .map(|(key, found)| (key, found.content));
        ledger.set_background(background.collect::<BTreeMap<Key, String>>());

        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let watching = Watching {
            ledger: &ledger,
            tally: &tally,
            requesters: &requesters,
        };
        let Watchers {
            observers,
            clientgo,
            raw,
        } = watching.watchers(&kinds);
        for watcher in raw {
            tasks.spawn(watcher.run(stop.clone()));
        }
        let clientgo = ClientGo::start(cluster, &clientgo).await?;
        begun(&observers).await?;

        let gate = Gate::default();
        let worker = Worker::new(Arc::clone(&ledger), gate.clone(), stop.clone());
        let mut work = Work {
            tasks: &mut tasks,
            requesters: &requesters,
            worker: &worker,
            namespaces: &namespaces,
            seed: options.seed,
        };
        let counters = work.counters(&options.busy).await?;
        work.writers(&options.busy, options.rate);
        work.collections(&options.busy);
        work.pollers(&options.busy);
        tasks.spawn(noise::run(client.clone(), options.seed, stop.clone()));
        Ok(Self {
            tally,
            ledger,
            requesters,
            client,
            kinds,
            idle: options.idle.clone(),
            observers,
            clientgo,
            counters,
            comparison: Comparison::default(),
            gate,
            tasks,
            stop,
        })
    }

    /// Writes many objects that have nothing to do with reports.
    pub async fn unrelated(&self, count: u64) {
        noise::burst(&self.client, "unrelated", self.ledger.newest(), count).await;
    }

    /// Stops the writers, waits until everybody has caught up, and compares the stored objects with
    /// the acknowledged writes; then the writers go on.
    ///
    /// # Errors
    /// If the state cannot be listed, or client-go has ended.
    pub async fn check(&mut self) -> Result<(), ChaosError> {
        self.check_round(&Dispute::default()).await
    }

    /// Checks as [`Harness::check`] does after a round in which an APIService was deleted: the
    /// consequences of that are no flaws.
    ///
    /// # Errors
    /// See [`Harness::check`].
    pub async fn check_round(&mut self, dispute: &Dispute) -> Result<(), ChaosError> {
        self.gate.rest().await;
        self.clientgo.check()?;
        self.caught_up().await;
        let mut found = BTreeMap::new();
        for requester in &self.requesters {
            found = compare::list(requester, &self.kinds).await?;
            let wrong = self.comparison.compare(&found, &self.ledger, &self.tally);
            compare::look_again(&self.requesters, &wrong).await;
        }
        counter::check(&self.counters, &self.ledger, &self.tally);
        for observer in &self.observers {
            observer.settle();
        }
        let touched = dispute.touched(&self.ledger);
        self.tally
            .judge(|suspect| dispute.explains(suspect, &touched));
        self.tally.merged(touched);
        for key in &dispute.dropped {
            let found = found.get(key).and_then(|found| found.stamp);
            self.ledger.gave_way(key, found);
            self.comparison.explained(key);
        }
        self.gate.go_on();
        Ok(())
    }

    /// Compares the objects that nobody writes as each kube-apiserver shows them, which may lead to
    /// another server each, while the writers go on.
    ///
    /// # Errors
    /// If the state cannot be listed.
    pub async fn check_background(&mut self) -> Result<(), ChaosError> {
        for requester in &self.requesters {
            let found = compare::list(requester, &self.idle).await?;
            let (kinds, comparison) = (&self.idle, &mut self.comparison);
            let wrong = comparison.compare_background(&found, kinds, &self.ledger, &self.tally);
            compare::look_again(&self.requesters, &wrong).await;
        }
        Ok(())
    }

    /// Waits until every watcher has seen the stored objects, or long enough.
    async fn caught_up(&self) {
        let deadline = Instant::now() + SETTLE_LIMIT;
        for observer in &self.observers {
            while !observer.settled() && Instant::now() < deadline {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Writes once to the kinds that nothing was written to, checks a last time, and ends
    /// everybody.
    ///
    /// # Errors
    /// See [`Harness::check`].
    pub async fn finish(mut self) -> Result<(), ChaosError> {
        for kind in self.idle.clone() {
            self.write_idle(kind).await?;
        }
        self.check().await?;
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        self.clientgo.end().await;
        Ok(())
    }

    async fn write_idle(&self, kind: ReportKind) -> Result<(), ChaosError> {
        let namespaced = kind.namespaced();
        let subject = Subject {
            key: Key {
                kind,
                namespace: if namespaced { common(0) } else { String::new() },
                name: format!("first-{}", self.ledger.newest()),
            },
            selected: true,
            owner: None,
        };
        let stamp = self.ledger.begin(&subject.key, What::Create, true);
        let (uri, body) = (subject.collection(), subject.body(stamp));
        let body = Some((media::JSON, &body));
        match self.requesters[0].call(Method::POST, &uri, body).await {
            Answer::Said(StatusCode::CREATED, created) => {
                let content = object::content(&created);
                self.ledger
                    .end(&subject.key, stamp, Fate::Acknowledged, content);
                Ok(())
            }
            answer => Err(ChaosError::Request(format!(
                "POST {uri}: {}",
                answer.text()
            ))),
        }
    }

    /// Notes that the groups begin to go one way.
    pub fn going(&self, direction: Direction) {
        self.tally.go(|moment| moment.direction = direction);
    }

    /// Returns the time that requests were held last, as the server reports it; `None` where it
    /// does not.
    pub async fn last_hold(&self) -> Option<u64> {
        let answer = self.requesters[0].call(Method::GET, STORED, None).await;
        let Answer::Said(StatusCode::OK, list) = answer else {
            return None;
        };
        let items = list["items"].as_array()?;
        items.iter().filter_map(hold).max()
    }
}

/// Returns `status.lastHoldMilliseconds`, whether it is a number or text.
fn hold(stored: &Value) -> Option<u64> {
    let value = &stored["status"]["lastHoldMilliseconds"];
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Returns requesters, one for each kube-apiserver, as another user than the operator: the holder
/// of a gate reads past it.
///
/// # Errors
/// If a kube-apiserver cannot be reached from here.
pub async fn requesters(
    cluster: &dyn Access,
    tally: &Arc<Tally>,
) -> Result<Vec<Requester>, ChaosError> {
    let mut requesters = Vec::new();
    for index in 0..cluster.apiservers() {
        let mut config = cluster.config(index).await?;
        config.auth_info.impersonate = Some("chaos".to_owned());
        config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
        let client = strict_client(config)?;
        requesters.push(Requester::new(client, index, Arc::clone(tally)));
    }
    Ok(requesters)
}

fn common(index: usize) -> String {
    format!("chaos-{index:02}")
}

async fn namespaces(client: &Client, busy: &[ReportKind]) -> Result<Namespaces, ChaosError> {
    load::namespaces(client, "noise", 1).await?;
    let mut namespaces = Namespaces::default();
    for made in load::namespaces(client, "chaos", COMMON).await? {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &made.namespace);
        let mut map = ConfigMap::default();
        map.metadata.name = Some("owner".to_owned());
        let map = maps
            .create(&PostParams::default(), &map)
            .await
            .map_err(testcluster::Error::from)?;
        let uid = map.metadata.uid.unwrap_or_default();
        namespaces
            .common
            .push((made.namespace, ("owner".to_owned(), uid)));
    }
    let emptied = busy.iter().filter(|kind| kind.namespaced()).count();
    let emptied = load::namespaces(client, "emptied", emptied).await?;
    namespaces.emptied = emptied.into_iter().map(|made| made.namespace).collect();
    Ok(namespaces)
}

async fn begun(observers: &[Arc<Observer>]) -> Result<(), ChaosError> {
    let deadline = Instant::now() + START_LIMIT;
    for observer in observers {
        while !observer.started() {
            if Instant::now() > deadline {
                return Err(ChaosError::NotStarted(observer.nature.name.clone()));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}
