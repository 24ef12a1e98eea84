//! Plain SQL with the same bodies on the same PostgreSQL.
//!
//! Four ways to write, each over prepared statements on connections of its own, one statement
//! under way on each:
//! - `insert`: a plain INSERT of a body, nothing else;
//! - `transaction`: an update that is ordered and logged as ours is, but in a transaction of its
//!   own: lock the row that orders, update with the version as condition, log, commit;
//! - `kine`: the statements of kine, which keeps etcd's log in one table. A **mimic**: its own
//!   table and indexes and the two statements of each write, without its HTTP, gRPC and Go;
//! - `upstream`: the statements of kyverno/reports-server on its `jsonb` table: an upsert for a
//!   create, a read and an update for an update. Likewise a mimic.

use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use bytes::Bytes;
use hdrhistogram::Histogram;
use pgtest::Postgres;
use tokio_postgres::{Client, Statement};

use super::bodies::{Bodies, Change};
use super::book::Book;
use super::load::histogram;
use super::sizes::wal;
use super::target::REPORTS;
use super::usage::Watched;

const SCHEMA: &str = "
CREATE SCHEMA IF NOT EXISTS bench;
DROP TABLE IF EXISTS bench.plain, bench.head, bench.objects, bench.log, bench.kine, bench.upstream;
CREATE TABLE bench.plain (name text COLLATE \"C\" PRIMARY KEY, body text COMPRESSION lz4);
CREATE TABLE bench.head (id int PRIMARY KEY);
INSERT INTO bench.head VALUES (1);
CREATE TABLE bench.objects
  (name text COLLATE \"C\" PRIMARY KEY, rv bigint, body text COMPRESSION lz4) WITH (fillfactor = 80);
CREATE TABLE bench.log
  (seq bigserial PRIMARY KEY, name text COLLATE \"C\", rv bigint, body text COMPRESSION lz4);
CREATE TABLE bench.kine (id bigserial PRIMARY KEY, name text COLLATE \"C\", created integer,
  deleted integer, create_revision bigint, prev_revision bigint, lease integer, value bytea,
  old_value bytea);
CREATE TABLE bench.upstream (name varchar, namespace varchar, cluster_id varchar,
  report jsonb NOT NULL, PRIMARY KEY (name, namespace, cluster_id));
CREATE INDEX kine_name_index ON bench.kine (name);
CREATE INDEX kine_name_id_index ON bench.kine (name, id);
CREATE INDEX kine_id_deleted_index ON bench.kine (id, deleted);
CREATE INDEX kine_prev_revision_index ON bench.kine (prev_revision);
CREATE INDEX kine_list_query_index ON bench.kine (name, id DESC, deleted);
CREATE UNIQUE INDEX kine_name_prev_revision_uindex ON bench.kine (name, prev_revision);
";
const INSERT: &str = "INSERT INTO bench.plain (name, body) VALUES ($1, $2)";
const LOCK: &str = "SELECT 1 FROM bench.head WHERE id = 1 FOR UPDATE";
const UPDATE: &str =
    "UPDATE bench.objects SET rv = rv + 1, body = $2 WHERE name = $1 AND rv = $3 RETURNING rv";
const LOG: &str = "INSERT INTO bench.log (name, rv, body) VALUES ($1, $2, $3)";
const KINE_GET: &str = "SELECT id, create_revision, value FROM bench.kine WHERE name = $1 \
                        ORDER BY id DESC LIMIT 1";
const KINE_INSERT: &str = "INSERT INTO bench.kine (name, created, deleted, create_revision, \
                           prev_revision, lease, value, old_value) \
                           VALUES ($1, $2, 0, $3, $4, 0, $5, $6) RETURNING id";

const UPSTREAM_GET: &str = "SELECT report::text FROM bench.upstream WHERE name = $1 AND namespace = 'n' AND cluster_id = 'c'";
const UPSTREAM_CREATE: &str = "INSERT INTO bench.upstream (name, namespace, report, cluster_id) \
                               VALUES ($1, 'n', $2::text::jsonb, 'c') \
                               ON CONFLICT (name, namespace, cluster_id) \
                               DO UPDATE SET report = excluded.report";
const UPSTREAM_UPDATE: &str = "UPDATE bench.upstream SET report = $2::text::jsonb \
                               WHERE name = $1 AND namespace = 'n' AND cluster_id = 'c'";

/// One way to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// A plain INSERT.
    Insert,
    /// An ordered update in a transaction of its own, of the inserted rows.
    Transaction,
    /// A create as kine does it.
    KineCreate,
    /// An update as kine does it, of the rows it has created.
    KineUpdate,
    /// A create as upstream does it.
    UpstreamCreate,
    /// An update as upstream does it, of the rows it has created.
    UpstreamUpdate,
}

impl Writing {
    fn updates(self) -> bool {
        matches!(
            self,
            Self::Transaction | Self::KineUpdate | Self::UpstreamUpdate
        )
    }

    fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Transaction => "transaction",
            Self::KineCreate => "kine create",
            Self::KineUpdate => "kine update",
            Self::UpstreamCreate => "upstream create",
            Self::UpstreamUpdate => "upstream update",
        }
    }
}

/// A connection with its statements.
struct Writer {
    client: Client,
    insert: Statement,
    lock: Statement,
    update: Statement,
    log: Statement,
    kine_get: Statement,
    kine_insert: Statement,
    upstream_get: Statement,
    upstream_create: Statement,
    upstream_update: Statement,
}

impl Writer {
    async fn connect(postgres: &Postgres) -> anyhow::Result<Self> {
        let client = postgres.superuser().await?;
        Ok(Self {
            insert: client.prepare(INSERT).await?,
            lock: client.prepare(LOCK).await?,
            update: client.prepare(UPDATE).await?,
            log: client.prepare(LOG).await?,
            kine_get: client.prepare(KINE_GET).await?,
            kine_insert: client.prepare(KINE_INSERT).await?,
            upstream_get: client.prepare(UPSTREAM_GET).await?,
            upstream_create: client.prepare(UPSTREAM_CREATE).await?,
            upstream_update: client.prepare(UPSTREAM_UPDATE).await?,
            client,
        })
    }

    async fn write(&mut self, how: Writing, name: &str, body: &str) -> anyhow::Result<()> {
        match how {
            Writing::Insert => {
                self.client.execute(&self.insert, &[&name, &body]).await?;
                Ok(())
            }
            Writing::Transaction => self.transaction(name, body).await,
            Writing::KineCreate | Writing::KineUpdate => self.kine(how, name, body).await,
            Writing::UpstreamCreate => {
                let create = &self.upstream_create;
                self.client.execute(create, &[&name, &body]).await?;
                Ok(())
            }
            Writing::UpstreamUpdate => {
                self.client.query_one(&self.upstream_get, &[&name]).await?;
                let update = &self.upstream_update;
                self.client.execute(update, &[&name, &body]).await?;
                Ok(())
            }
        }
    }

    async fn transaction(&mut self, name: &str, body: &str) -> anyhow::Result<()> {
        let read = "SELECT rv FROM bench.objects WHERE name = $1";
        // The client's version; known to a real one, so it is read outside of the transaction.
        let known: i64 = self.client.query_one(read, &[&name]).await?.get(0);
        let transaction = self.client.transaction().await?;
        transaction.query_one(&self.lock, &[]).await?;
        let updated = transaction
            .query_opt(&self.update, &[&name, &body, &known])
            .await?;
        ensure!(updated.is_some(), "{name} was changed meanwhile");
        let version: i64 = known + 1;
        transaction
            .execute(&self.log, &[&name, &version, &body])
            .await?;
        transaction.commit().await?;
        Ok(())
    }

    async fn kine(&self, how: Writing, name: &str, body: &str) -> anyhow::Result<()> {
        let last = self.client.query_opt(&self.kine_get, &[&name]).await?;
        let (created, create, previous, old) = match &last {
            Some(row) => (0, row.get::<_, i64>(1), row.get::<_, i64>(0), row.get(2)),
            None => (1, 0, 0, None::<&[u8]>),
        };
        ensure!(
            last.is_some() == (how == Writing::KineUpdate),
            "{name} is not as it should be"
        );
        let created: i32 = created;
        let value = body.as_bytes();
        self.client
            .query_one(
                &self.kine_insert,
                &[&name, &created, &create, &previous, &value, &old],
            )
            .await?;
        Ok(())
    }
}

/// Returns the measurements on a machine's own disk: the way, and its number of writes out of
/// `count`. One ordered transaction after the other takes its time.
#[must_use]
pub fn ways(count: usize) -> [(Writing, usize); 6] {
    [
        (Writing::Insert, count),
        (Writing::Transaction, count / 4),
        (Writing::KineCreate, count),
        (Writing::KineUpdate, count),
        (Writing::UpstreamCreate, count),
        (Writing::UpstreamUpdate, count),
    ]
}

/// Runs some ways, in order, on empty tables for each number of connections. Metrics begin with
/// `prefix`; the best rate over all numbers of connections has a name of its own.
///
/// # Errors
/// If a statement fails.
pub async fn run(
    book: &mut Book,
    postgres: &Postgres,
    database: Option<&Watched>,
    bodies: &Bodies,
    prefix: &str,
    connections: &[usize],
    ways: &[(Writing, usize)],
) -> anyhow::Result<()> {
    let admin = postgres.superuser().await?;
    let most = ways.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let texts: Arc<[[Bytes; 2]]> = (0..most).map(|index| versions(bodies, index)).collect();
    let mut best = vec![0.0_f64; ways.len()];
    for &connections in connections {
        admin.batch_execute(SCHEMA).await?;
        for ((how, count), best) in ways.iter().zip(&mut best) {
            if *how == Writing::Transaction {
                let fill = "INSERT INTO bench.objects SELECT name, 1, body FROM bench.plain";
                admin.batch_execute(fill).await?;
            }
            let load = Load {
                how: *how,
                connections,
                metric: format!("{prefix}sql@{connections}"),
                texts: Arc::clone(&texts),
                count: *count,
            };
            let rate = load.measure(book, postgres, database).await?;
            *best = best.max(rate);
        }
    }
    for ((how, _), best) in ways.iter().zip(best) {
        book.add(&format!("{prefix}sql best rate"), how.name(), best);
    }
    if ways.iter().any(|(how, _)| *how == Writing::UpstreamUpdate) {
        let sql = "SELECT pg_total_relation_size('bench.upstream')::float8 / count(*) FROM bench.upstream";
        let size: f64 = admin.query_one(sql, &[]).await?.get(0);
        book.add("disk a row", Writing::UpstreamUpdate.name(), size);
    }
    admin.batch_execute("DROP SCHEMA bench CASCADE").await?;
    Ok(())
}

/// Returns a report and its next version.
fn versions(bodies: &Bodies, index: usize) -> [Bytes; 2] {
    let name = format!("report-{index}");
    let first = bodies.create(REPORTS, "bench-00", &name, index);
    let second = bodies.update(REPORTS, index, Change::Finding).fill("1", 1);
    [first, second]
}

struct Load {
    how: Writing,
    connections: usize,
    metric: String,
    texts: Arc<[[Bytes; 2]]>,
    count: usize,
}

impl Load {
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    async fn measure(
        &self,
        book: &mut Book,
        postgres: &Postgres,
        database: Option<&Watched>,
    ) -> anyhow::Result<f64> {
        let cpu = || database.map_or(Ok(0), Watched::cpu_ms);
        let mut writers = Vec::new();
        for _ in 0..self.connections {
            writers.push(Writer::connect(postgres).await?);
        }
        let before = (cpu()?, wal(postgres).await?);
        let begun = Instant::now();
        let tasks: Vec<_> = writers
            .into_iter()
            .enumerate()
            .map(|(first, writer)| tokio::spawn(self.hand(first, writer)))
            .collect();
        let mut latency = histogram()?;
        let mut writers = Vec::new();
        for task in tasks {
            let (part, writer) = task.await??;
            latency.add(part)?;
            writers.push(writer);
        }
        let count = self.count as f64;
        let rate = count / begun.elapsed().as_secs_f64();
        let wal = (wal(postgres).await? - before.1) as f64 / count;
        let (metric, name) = (&self.metric, self.how.name());
        let p99 = latency.value_at_quantile(0.99) as f64 / 1000.0;
        book.add(&format!("{metric} rate"), name, rate);
        book.add(&format!("{metric} p99"), name, p99);
        let mut cost = String::new();
        if database.is_some() {
            let cpu = (cpu()? - before.0) as f64 / count;
            book.add(&format!("{metric} CPU"), name, cpu);
            book.add("WAL a statement", name, wal);
            cost = format!("  CPU {cpu:.3} ms/op, WAL {wal:.0} bytes");
        }
        eprintln!("  {metric:<12} {name:<20} {rate:>8.0} /s  p99 {p99:>7.1} ms{cost}");
        Ok(rate)
    }

    /// Returns the work of one connection. It is closed after the measurement: its CPU time is
    /// counted while it lives and when it has ended alike.
    fn hand(
        &self,
        first: usize,
        mut writer: Writer,
    ) -> impl Future<Output = anyhow::Result<(Histogram<u64>, Writer)>> + Send + use<> {
        let (how, connections, count) = (self.how, self.connections, self.count);
        let texts = Arc::clone(&self.texts);
        async move {
            let mut latency = histogram()?;
            for index in (first..count).step_by(connections) {
                let at = Instant::now();
                let body = std::str::from_utf8(&texts[index][usize::from(how.updates())])?;
                writer.write(how, &format!("report-{index}"), body).await?;
                latency.saturating_record(u64::try_from(at.elapsed().as_micros())?);
            }
            Ok((latency, writer))
        }
    }
}
