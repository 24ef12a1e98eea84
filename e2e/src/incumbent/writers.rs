//! Clients that never repeat a request, each with objects of its own, so that the last answer tells
//! what has to be stored.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, header};
use kube::Client;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::objects::key;
use super::{Key, Ledger, Objects};
use testreports::{Corpus, Owner, ReportKind, kinds, rescan};

/// First number of the writers' reports, away from those that were loaded.
const FIRST_INDEX: usize = 20_000_000;
const INDEXES_PER_WRITER: usize = 1_000_000;
/// Number of further tries of an update that met a conflict.
const TRIES: u32 = 3;
/// Number of objects below which a writer only creates.
const FEW: usize = 3;

/// Running writers: one for each kind and client.
pub struct Writers {
    /// The answers that they get.
    pub ledger: Arc<Ledger>,
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Writers {
    /// Starts them. They share the objects that exist, and each has those that it writes to itself;
    /// all of them together write `rate` times a second.
    #[must_use]
    pub fn start(
        clients: &[Client],
        corpus: &Arc<Corpus>,
        owners: &[Owner],
        there: &Objects,
        rate: f64,
    ) -> Self {
        let ledger = Arc::new(Ledger::new(there.clone()));
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        let all: Vec<_> = kinds()
            .flat_map(|kind| clients.iter().map(move |client| (kind, client)))
            .collect();
        let period = Duration::from_secs_f64(f64::from(count(all.len())) / rate);
        for (number, (kind, client)) in all.into_iter().enumerate() {
            let of_kind = there.0.keys().filter(|key| key.0 == kind);
            // The writers of a kind follow one another.
            let (share, part) = (clients.len(), number % clients.len());
            let writer = Writer {
                client: client.clone(),
                ledger: Arc::clone(&ledger),
                corpus: Arc::clone(corpus),
                owners: owners.to_vec(),
                kind,
                next: FIRST_INDEX + number * INDEXES_PER_WRITER,
                alive: of_kind.skip(part).step_by(share).cloned().collect(),
                rng: StdRng::seed_from_u64(number as u64),
            };
            tasks.spawn(writer.run(period, stop.clone()));
        }
        Self {
            ledger,
            tasks,
            stop,
        }
    }

    /// Lets each end its present write, and returns the ledger.
    pub async fn finish(mut self) -> Arc<Ledger> {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        self.ledger
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

struct Writer {
    client: Client,
    ledger: Arc<Ledger>,
    corpus: Arc<Corpus>,
    owners: Vec<Owner>,
    kind: ReportKind,
    next: usize,
    alive: Vec<Key>,
    rng: StdRng,
}

impl Writer {
    /// Writes once every tick: of four writes, two are updates.
    async fn run(mut self, period: Duration, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            match self.rng.random_range(0..4) {
                _ if self.alive.len() < FEW => self.create().await,
                0 => self.create().await,
                1 => self.delete().await,
                _ => self.update().await,
            }
        }
    }

    async fn create(&mut self) {
        let owner = &self.owners[self.next % self.owners.len()];
        let report = self.corpus.report(self.kind, self.next, owner);
        self.next += 1;
        let key = key(self.kind, &report);
        let namespace = self.kind.namespaced().then_some(owner.namespace.as_str());
        let path = self.kind.path(namespace);
        match self.call(Method::POST, &path, Some(&report)).await {
            Ok(object) => {
                self.ledger.created(key.clone(), object);
                self.alive.push(key);
            }
            Err(failure) => self.ledger.failed(failure.what, Some(key)),
        }
    }

    /// Updates an object by GET and PUT with the resourceVersion that was read.
    async fn update(&mut self) {
        let key = self.alive[self.rng.random_range(0..self.alive.len())].clone();
        let round = self.rng.random_range(0..1_000_000);
        for _ in 0..TRIES {
            let mut report = match self.call(Method::GET, &path(&key), None).await {
                Ok(report) => report,
                Err(failure) => return self.ledger.failed(failure.what, None),
            };
            rescan(&mut report, round);
            match self.call(Method::PUT, &path(&key), Some(&report)).await {
                Ok(object) => return self.ledger.updated(key, object),
                Err(failure) if failure.conflict => self.ledger.conflict(),
                Err(failure) => return self.ledger.failed(failure.what, Some(key)),
            }
        }
        let what = format!("PUT {}: nothing but conflicts", path(&key));
        self.ledger.failed(what, None);
    }

    async fn delete(&mut self) {
        let key = self
            .alive
            .swap_remove(self.rng.random_range(0..self.alive.len()));
        match self.call(Method::DELETE, &path(&key), None).await {
            Ok(_) => self.ledger.deleted(&key),
            Err(failure) => self.ledger.failed(failure.what, Some(key)),
        }
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let what = format!("{method} {path}");
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| Failure::of(&what, &kube::Error::HttpError(error)))?;
        let started = Instant::now();
        let answer = self.client.request(request).await;
        self.ledger.answered(&what, started.elapsed());
        answer.map_err(|error| Failure::of(&what, &error))
    }
}

/// Returns the path of an object.
fn path((kind, namespace, name): &Key) -> String {
    let namespace = kind.namespaced().then_some(namespace.as_str());
    format!("{}/{name}", kind.path(namespace))
}

struct Failure {
    what: String,
    conflict: bool,
}

impl Failure {
    fn of(what: &str, error: &kube::Error) -> Self {
        let conflict = matches!(error, kube::Error::Api(status) if status.code == 409);
        Self {
            what: format!("{what}: {}", testcluster::http::chain(error)),
            conflict,
        }
    }
}
