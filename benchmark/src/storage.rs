//! The store alone, without HTTP: the speed of its ordered, logged and checked writes on the
//! PostgreSQL on which plain SQL is measured.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use crds::control::{GateSpec, GateState};
use hdrhistogram::Histogram;
use pgtest::Postgres;
use serde_json::{Value, json};
use storage::model::{GroupResource, ObjectKey, ResourceDef};
use storage::store::{Database, PostgresOptions, Store, StoreOptions, Write};

use super::bodies::{Bodies, Change, base_name};
use super::book::Book;
use super::load::histogram;
use super::names::{PLURAL, namespace};
use super::sizes::wal;
use super::target::REPORTS;
use super::usage::Watched;

/// Identity of a cluster apart from the servers' own: each has its lock.
const IDENTITY: &str = "bench-storage";
/// Name of the system of [`Alone`], whose reports are all that is in its cluster.
const SYSTEM: &str = "postgres";

/// The number of the next scan: no two runs write the same times.
static SCAN: AtomicU64 = AtomicU64::new(1);

/// A store by itself, open for writes.
pub struct Alone {
    store: Store,
    resource: GroupResource,
}

/// The change of every report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It is created.
    Create,
    /// The time of every result, and verdict and message of one are changed.
    Update,
    /// The time of every result and the verdict of one are changed, no message.
    BareUpdate,
    /// The time of every result is changed.
    Rescan,
    /// It is removed.
    Delete,
}

impl Verb {
    /// All verbs, in an order that ends as it began.
    pub const ALL: [Self; 5] = [
        Self::Create,
        Self::Update,
        Self::BareUpdate,
        Self::Rescan,
        Self::Delete,
    ];

    /// Returns the name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => Change::Finding.name(),
            Self::BareUpdate => Change::Verdict.name(),
            Self::Rescan => "rescan",
            Self::Delete => "delete",
        }
    }
}

/// The outcome of a run.
pub struct Run {
    /// Writes a second.
    pub rate: f64,
    /// Microseconds a write.
    pub latency: Histogram<u64>,
}

impl Run {
    /// Returns the p99 in milliseconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn p99(&self) -> f64 {
        self.latency.value_at_quantile(0.99) as f64 / 1000.0
    }
}

impl Alone {
    /// Opens it on a PostgreSQL; `options` may set more.
    ///
    /// # Errors
    /// If the store does not open.
    pub async fn open(
        directory: PathBuf,
        options: impl FnOnce(&mut StoreOptions),
    ) -> anyhow::Result<Self> {
        let database = Database::Postgres(PostgresOptions::new(directory, IDENTITY));
        let mut all = StoreOptions::on(database);
        options(&mut all);
        let store = Store::open(all).await?;
        let resource = GroupResource::new(REPORTS, PLURAL);
        let def = ResourceDef {
            resource: resource.clone(),
            kind: "PolicyReport".into(),
            namespaced: true,
        };
        store.ensure_resource(def).await?;
        let open = GateSpec {
            state: GateState::Open,
            settled: None,
            ..GateSpec::default()
        };
        store.set_gate(&resource, open, None).await?;
        Ok(Self { store, resource })
    }

    /// Closes it.
    pub async fn close(self) {
        self.store.close().await;
    }

    /// Does something to `count` reports once, with this many writers.
    ///
    /// # Errors
    /// If a write fails.
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub async fn run(
        &self,
        bodies: &Bodies,
        verb: Verb,
        writers: usize,
        count: usize,
    ) -> anyhow::Result<Run> {
        let mut hands: Vec<Vec<Write>> = (0..writers).map(|_| Vec::new()).collect();
        let scan = SCAN.fetch_add(1, Ordering::Relaxed);
        for index in 0..count {
            hands[index % writers].push(self.write(bodies, verb, index, scan)?);
        }
        let begun = Instant::now();
        let tasks: Vec<_> = hands
            .into_iter()
            .map(|hand| {
                let (store, resource) = (self.store.clone(), self.resource.clone());
                tokio::spawn(async move {
                    let mut latency = histogram()?;
                    for write in hand {
                        let at = Instant::now();
                        let written = store.write(&resource, &write).await;
                        written.map_err(|error| anyhow!("{}: {error}", verb.name()))?;
                        latency.saturating_record(u64::try_from(at.elapsed().as_micros())?);
                    }
                    anyhow::Ok(latency)
                })
            })
            .collect();
        let mut latency = histogram()?;
        for task in tasks {
            latency.add(task.await??)?;
        }
        let rate = count as f64 / begun.elapsed().as_secs_f64();
        Ok(Run { rate, latency })
    }

    fn write(&self, bodies: &Bodies, verb: Verb, index: usize, scan: u64) -> anyhow::Result<Write> {
        let key = ObjectKey::new(&namespace(index), &base_name(index));
        if verb == Verb::Create {
            let bytes = bodies.create(REPORTS, &namespace(index), &base_name(index), index);
            let mut object: Value = serde_json::from_slice(&bytes)?;
            object["metadata"]["uid"] = json!(format!("00000000-0000-4000-8000-{index:012x}"));
            return Ok(Write::Create { key, object });
        }
        let resource = self.store.resource(&self.resource);
        let stored = resource.and_then(|resource| resource.get(&key));
        let stored = stored.with_context(|| format!("{key} is not there"))?;
        let expected_rv = Some(stored.rv);
        let mut object = stored.value()?;
        match verb {
            Verb::Update => bodies.rescan(&mut object, Change::Finding, scan),
            Verb::BareUpdate => bodies.rescan(&mut object, Change::Verdict, scan),
            Verb::Rescan => later(&mut object, scan),
            Verb::Create | Verb::Delete => {
                let expected_uid = None;
                return Ok(Write::Delete {
                    key,
                    expected_uid,
                    expected_rv,
                    last: object,
                });
            }
        }
        Ok(Write::Update {
            key,
            expected_rv,
            object,
        })
    }
}

/// Changes a report as a scan does that finds nothing new.
fn later(report: &mut Value, scan: u64) {
    let results = report.get_mut("results").and_then(Value::as_array_mut);
    for result in results.into_iter().flatten() {
        result["timestamp"]["seconds"] = json!(1_800_000_000 + scan);
    }
}

/// Creates `count` reports, updates each three times and takes them away again, with this many writers.
///
/// # Errors
/// If a write fails.
#[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub async fn run(
    book: &mut Book,
    postgres: &Postgres,
    database: &Watched,
    bodies: &Bodies,
    writers: usize,
    count: usize,
) -> anyhow::Result<()> {
    let alone = Alone::open(postgres.params_dir()?, |_| ()).await?;
    for verb in Verb::ALL {
        let before = (database.cpu_ms()?, wal(postgres).await?);
        let run = alone.run(bodies, verb, writers, count).await?;
        let cpu = (database.cpu_ms()? - before.0) as f64 / count as f64;
        let wal = (wal(postgres).await? - before.1) as f64 / count as f64;
        let metric = format!("storage {}@{writers}", verb.name());
        book.add(&format!("{metric} rate"), SYSTEM, run.rate);
        book.add(&format!("{metric} p99"), SYSTEM, run.p99());
        book.add(&format!("{metric} CPU of postgres"), SYSTEM, cpu);
        if writers == 16 {
            let article = if verb == Verb::Update { "an" } else { "a" };
            book.add(&format!("WAL {article} {}", verb.name()), SYSTEM, wal);
        }
        eprintln!(
            "  {metric:<21} {:>8.0} /s  p99 {:>7.1} ms  CPU of postgres {cpu:.3} ms/op, WAL {wal:.0} bytes",
            run.rate,
            run.p99()
        );
    }
    alone.close().await;
    Ok(())
}
