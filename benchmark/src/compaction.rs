//! The effect of dropping old changes on the writes beside it: the store's own way, partitions as a
//! whole, and a DELETE with VACUUM of as many rows on the same PostgreSQL. The writes are the same
//! updates in all three runs.

use std::time::Duration;

use anyhow::Context as _;
use pgtest::Postgres;

use super::bodies::Bodies;
use super::book::Book;
use super::storage::{Alone, Verb};

const SYSTEM: &str = "postgres";
const WRITERS: usize = 16;
/// A history so short that changes are dropped every second.
const HISTORY: Duration = Duration::from_millis(500);
/// Statement that fills a log as large as a minute of writes leaves, in one table.
const LOG: &str = "
CREATE SCHEMA IF NOT EXISTS bench;
DROP TABLE IF EXISTS bench.old;
CREATE TABLE bench.old (seq bigserial PRIMARY KEY, name text, rv bigint, body text COMPRESSION lz4);
INSERT INTO bench.old (name, rv, body)
SELECT 'report-' || n, n, repeat(md5(n::text), 16) FROM generate_series(1, 100000) AS n;
CHECKPOINT";

/// Measures the p99 of updates without compaction, beside the store's own, and beside the peer's.
///
/// # Errors
/// If a write or a statement fails.
pub async fn run(
    book: &mut Book,
    postgres: &Postgres,
    bodies: &Bodies,
    count: usize,
) -> anyhow::Result<()> {
    let directory = postgres.params_dir()?;
    let quiet = Alone::open(directory.clone(), |_| ()).await?;
    quiet.run(bodies, Verb::Create, WRITERS, count).await?;
    let before = quiet.run(bodies, Verb::Update, WRITERS, count).await?;
    let admin = postgres.superuser().await?;
    admin.batch_execute(LOG).await?;
    let deleting = tokio::spawn(async move {
        for statement in [
            "DELETE FROM bench.old",
            "VACUUM bench.old",
            "DROP TABLE bench.old",
        ] {
            admin.batch_execute(statement).await?;
        }
        anyhow::Ok(())
    });
    let beside = quiet.run(bodies, Verb::Update, WRITERS, count).await?;
    deleting.await?.context("deleting the peer's log")?;
    quiet.close().await;

    let compacting = Alone::open(directory, |options| options.history = HISTORY).await?;
    let own = compacting.run(bodies, Verb::Update, WRITERS, count).await?;
    compacting.run(bodies, Verb::Delete, WRITERS, count).await?;
    compacting.close().await;
    for (metric, run) in [
        ("p99 before", before),
        ("p99 while deleting", beside),
        ("p99 while compacting", own),
    ] {
        book.add(metric, SYSTEM, run.p99());
        eprintln!("  {metric:<21} {:.1} ms ({:.0} /s)", run.p99(), run.rate);
    }
    Ok(())
}
