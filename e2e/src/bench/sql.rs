//! What plain SQL does with the same bodies on the same PostgreSQL.
//!
//! Three ways to write, each over prepared statements on connections of its own, one statement
//! under way on each:
//! - `insert`: a plain INSERT of a body, nothing else;
//! - `transaction`: an update that is ordered and logged as ours is, but in a transaction of its
//!   own: lock the row that orders, update with the version as condition, log, commit;
//! - `kine`: the statements of kine, which keeps etcd's log in one table. A **mimic**: its own
//!   table and indexes and the two statements of each write, without its HTTP, gRPC and Go.

use std::time::Instant;

use anyhow::ensure;
use bytes::Bytes;
use pgtest::Postgres;
use tokio_postgres::{Client, Statement};

use super::{bodies::Bodies, book::Book, load::histogram, sizes::wal, usage};

const SCHEMA: &str = "
CREATE SCHEMA IF NOT EXISTS bench;
DROP TABLE IF EXISTS bench.plain, bench.head, bench.objects, bench.log, bench.kine;
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

/// One way to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writing {
    Insert,
    Transaction,
    KineCreate,
    KineUpdate,
}

impl Writing {
    fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Transaction => "transaction",
            Self::KineCreate => "kine create",
            Self::KineUpdate => "kine update",
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

/// Runs all of them with `count` writes on `connections`, on empty tables.
///
/// # Errors
/// When a statement fails.
pub async fn run(
    book: &mut Book,
    postgres: &Postgres,
    database: &usage::Watched,
    bodies: &Bodies,
    connections: usize,
    count: usize,
) -> anyhow::Result<()> {
    let admin = postgres.superuser().await?;
    admin.batch_execute(SCHEMA).await?;
    let texts: Vec<Bytes> = (0..count)
        .map(|index| bodies.create("sql.bench", "bench-00", &format!("report-{index}"), index))
        .collect();
    for how in [
        Writing::Insert,
        Writing::Transaction,
        Writing::KineCreate,
        Writing::KineUpdate,
    ] {
        if how == Writing::Transaction {
            let fill = "INSERT INTO bench.objects SELECT name, 1, body FROM bench.plain";
            admin.batch_execute(fill).await?;
        }
        measure(book, postgres, database, how, &texts, connections).await?;
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
async fn measure(
    book: &mut Book,
    postgres: &Postgres,
    database: &usage::Watched,
    how: Writing,
    texts: &[Bytes],
    connections: usize,
) -> anyhow::Result<()> {
    let mut writers = Vec::new();
    for _ in 0..connections {
        writers.push(Writer::connect(postgres).await?);
    }
    let before = (
        usage::cpu_ms(std::slice::from_ref(database))?,
        wal(postgres).await?,
    );
    let begun = Instant::now();
    let tasks: Vec<_> = writers
        .into_iter()
        .enumerate()
        .map(|(first, mut writer)| {
            let texts = texts.to_vec();
            tokio::spawn(async move {
                let mut latency = histogram()?;
                for index in (first..texts.len()).step_by(connections) {
                    let at = Instant::now();
                    let body = std::str::from_utf8(&texts[index])?;
                    writer.write(how, &format!("report-{index}"), body).await?;
                    latency.saturating_record(u64::try_from(at.elapsed().as_micros())?);
                }
                // The connection is closed after the measurement: its CPU time is counted while
                // it lives and when it has ended alike.
                anyhow::Ok((latency, writer))
            })
        })
        .collect();
    let mut latency = histogram()?;
    let mut writers = Vec::new();
    for task in tasks {
        let (part, writer) = task.await??;
        latency.add(part)?;
        writers.push(writer);
    }
    let count = texts.len() as f64;
    let rate = count / begun.elapsed().as_secs_f64();
    let after = (
        usage::cpu_ms(std::slice::from_ref(database))?,
        wal(postgres).await?,
    );
    let cpu: u64 = after.0.values().sum::<u64>() - before.0.values().sum::<u64>();
    let (cpu, wal) = (cpu as f64 / count, (after.1 - before.1) as f64 / count);
    let metric = format!("sql@{connections}");
    let p99 = latency.value_at_quantile(0.99) as f64 / 1000.0;
    book.add(&format!("{metric} rate"), how.name(), rate);
    book.add(&format!("{metric} p99"), how.name(), p99);
    book.add(&format!("{metric} CPU"), how.name(), cpu);
    book.add("WAL a statement", how.name(), wal);
    eprintln!(
        "  {metric:<12} {:<20} {rate:>8.0} /s  p99 {p99:>7.1} ms  CPU {cpu:.3} ms/op, WAL {wal:.0} bytes",
        how.name()
    );
    Ok(())
}
