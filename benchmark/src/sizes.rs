//! Memory and disk: after the base set was created, and after each report was updated once.

use std::path::Path;

use anyhow::{Context as _, ensure};
use http::Method;
use pgtest::Postgres;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use super::bodies::{Bodies, base_name};
use super::book::Book;
use super::client::Request;
use super::ground::Ground;
use super::load::{self, Fixed};
use super::names::namespace;
use super::target::{Kind, Target, Way};
use super::{usage, writes};
use testcluster::Component;

/// Bytes in a MiB.
pub const MIB: f64 = 1024.0 * 1024.0;
/// Updates without change.
const NO_OPS: usize = 250;
/// Reports whose bodies are in memory at one time.
const SLICE: usize = 5_000;

/// Creates the base set of a system through the kube-apiserver, updates each report once and notes
/// memory and disk. The first use of a system has to be this one.
///
/// # Errors
/// If a request fails.
#[allow(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
pub async fn grow(
    book: &mut Book,
    ground: &Ground,
    kind: Kind,
    bodies: &Bodies,
    reports: usize,
) -> anyhow::Result<()> {
    let target = ground.target(kind, Way::Aggregated)?;
    let apiserver = ground
        .component("kube-apiserver", Component::ApiServer(0))?
        .pid;
    let passing = usage::resident(apiserver)?;
    let empty = stored(ground, kind).await?;
    writes::base(book, &target, bodies, reports, 16).await?;
    update_all(&target, bodies, reports).await?;
    let each = |bytes: u64| bytes as f64 / reports as f64;
    let system = kind.name();
    let grown = usage::resident(apiserver)?.saturating_sub(passing) as f64 / MIB;
    book.add("kube-apiserver growth", system, grown);
    let passing = usage::resident(apiserver)? as f64 / MIB;
    book.add("kube-apiserver memory", system, passing);
    if kind != Kind::Crd {
        let resident = usage::resident(ground.server(kind)?.pid)? as f64 / MIB;
        book.add("server memory", system, resident);
    }
    let full = stored(ground, kind).await?;
    let disk = each(full.kept.saturating_sub(empty.kept));
    book.add("disk a report", system, disk);
    if kind != Kind::Crd {
        let log = each(full.log.saturating_sub(empty.log));
        book.add("log a report", system, log);
    }
    eprintln!(
        "  sizes        {system:<20} kube-apiserver +{grown:.0} MiB, disk {disk:.0} bytes a report"
    );
    Ok(())
}

/// Updates each report of the base set once, unmeasured.
async fn update_all(target: &Target, bodies: &Bodies, reports: usize) -> anyhow::Result<()> {
    let work = writes::all(target, bodies, reports, 16).await?;
    load::run(&target.endpoint, &target.warm(), work).await?;
    Ok(())
}

/// Returns the WAL so far, where PostgreSQL takes part.
async fn written(ground: &Ground) -> anyhow::Result<u64> {
    match ground.postgres() {
        Some(postgres) => wal(postgres).await,
        None => Ok(0),
    }
}

/// Bytes on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// All tables and their indexes, without the log.
    pub kept: u64,
    /// The log, which is dropped after some minutes.
    pub log: u64,
}

/// Query of the bytes of the log on PostgreSQL, or of all other tables: the log alone is in
/// partitions.
const POSTGRES_BYTES: [&str; 2] = [
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8 FROM pg_class c \
     JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = 'reports_server' AND c.relkind = 'r' AND NOT c.relispartition",
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8 FROM pg_class c \
     JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = 'reports_server' AND c.relkind = 'r' AND c.relispartition",
];
/// The same on SQLite, in pages.
const SQLITE_BYTES: [&str; 2] = [
    "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name NOT IN ('changes', 'changes_event')",
    "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name IN ('changes', 'changes_event')",
];

/// Returns the bytes that a system has stored.
///
/// # Errors
/// If its database does not answer.
pub async fn stored(ground: &Ground, kind: Kind) -> anyhow::Result<Stored> {
    let [kept, log] = match kind {
        Kind::Crd => [ground.etcd_bytes(true).await?, 0],
        Kind::Sqlite => sqlite_bytes(&ground.files().join("reports.db")).await?,
        Kind::Postgres | Kind::Second => {
            let postgres = ground.postgres().context("PostgreSQL does not run")?;
            let [kept, log] = POSTGRES_BYTES;
            [number(postgres, kept).await?, number(postgres, log).await?]
        }
        Kind::Null => [0, 0],
    };
    Ok(Stored { kept, log })
}

async fn sqlite_bytes(file: &Path) -> anyhow::Result<[u64; 2]> {
    let options = SqliteConnectOptions::new().filename(file).read_only(true);
    let mut database = options
        .connect()
        .await
        .with_context(|| format!("{} does not open", file.display()))?;
    let mut bytes = [0, 0];
    for (bytes, pages) in bytes.iter_mut().zip(SQLITE_BYTES) {
        let sum: i64 = sqlx::query_scalar(pages).fetch_one(&mut database).await?;
        *bytes = u64::try_from(sum)?;
    }
    database.close().await?;
    Ok(bytes)
}

/// Returns the bytes of WAL written so far.
///
/// # Errors
/// If PostgreSQL does not answer.
pub async fn wal(postgres: &Postgres) -> anyhow::Result<u64> {
    number(
        postgres,
        "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::int8",
    )
    .await
}

async fn number(postgres: &Postgres, sql: &str) -> anyhow::Result<u64> {
    let client = postgres.superuser().await?;
    let value: i64 = client.query_one(sql, &[]).await?.get(0);
    Ok(u64::try_from(value)?)
}

/// Notes the memory of a server after all requests that it has served.
///
/// # Errors
/// If it does not run.
#[allow(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
pub fn after_lists(book: &mut Book, ground: &Ground, kind: Kind) -> anyhow::Result<()> {
    let resident = usage::resident(ground.server(kind)?.pid)? as f64 / MIB;
    book.add("server memory after lists", kind.name(), resident);
    eprintln!(
        "  memory       {:<20} {resident:.0} MiB after all rounds",
        kind.name()
    );
    Ok(())
}

/// Sends reports back as they are: each must keep its version, and nothing may be written.
///
/// # Errors
/// If a request fails or a version changes.
#[allow(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
pub async fn no_op(book: &mut Book, ground: &Ground, kind: Kind) -> anyhow::Result<()> {
    let target = ground.target(kind, Way::Direct)?;
    let mut connection = target.endpoint.connect().await?;
    let before = written(ground).await?;
    for index in 0..NO_OPS {
        let path = target.base(index);
        let read = connection.send(&Request::get(&path)).await?.success()?;
        let put = Request::new(Method::PUT, &path, read.body.clone());
        let answer = connection.send(&put).await?.success()?;
        ensure!(
            answer.resource_version() == read.resource_version(),
            "an update that changes nothing gave {path} a new version"
        );
    }
    if kind.on_postgres() {
        let wal = written(ground).await?.saturating_sub(before);
        book.add("no-op update WAL", kind.name(), wal as f64 / NO_OPS as f64);
    }
    Ok(())
}

/// Fills a server up to `more` reports beyond the base set and notes its memory.
///
/// # Errors
/// If a request fails.
#[allow(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
pub async fn hundred_thousand(
    book: &mut Book,
    ground: &Ground,
    kind: Kind,
    bodies: &Bodies,
    total: usize,
) -> anyhow::Result<()> {
    let target = ground.target(kind, Way::Direct)?;
    let group = kind.group();
    // In slices: bodies take more memory here than reports in the server.
    for first in (total / 10..total).step_by(SLICE) {
        let requests = (first..(first + SLICE).min(total))
            .map(|index| {
                let space = namespace(index);
                let body = bodies.create(&group, &space, &base_name(index), index);
                Request::new(Method::POST, target.collection(&space), body)
            })
            .collect();
        load::run(&target.endpoint, &target.warm(), Fixed::deal(requests, 64)).await?;
    }
    let resident = usage::resident(ground.server(kind)?.pid)? as f64 / MIB;
    book.add("memory of 100,000", kind.name(), resident);
    eprintln!(
        "  memory       {:<20} {resident:.0} MiB with {total} reports",
        kind.name()
    );
    Ok(())
}
