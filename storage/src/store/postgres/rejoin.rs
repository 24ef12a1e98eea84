//! A database that was put back to an earlier state: restored from a backup, or failed over to a
//! copy that lacked the last commits.
//!
//! Versions that were served and are gone would be assigned again, to other objects. So the counter
//! jumps over everything that any server may have served, and every history begins anew behind it:
//! clients that come with an older version are told that it is gone, and list again. The counter
//! follows etcd's revision, so it jumps over that as well.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::types::Type;

use super::Postgres;
use super::resources::{all, save};
use super::rows::column;
use super::tx::Tx;
use crate::store::engine::EngineError;

/// Number of versions by which other servers may be ahead of the one that notices first. Versions
/// are plentiful.
const MARGIN: u64 = 1 << 20;

/// Time that a server that starts waits for an older one to note that nothing is missing: each
/// looks about once a second, and needs a new connection first.
const OTHERS_NOTE: Duration = Duration::from_secs(5);
/// Pause between looks for that note.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Statement for the name of the server behind the connection: its identity, and its timeline,
/// which changes with each failover and each restore to a point in time. Empty where the server
/// does not tell.
const ORIGIN: &str = "DO $$ BEGIN
        PERFORM set_config('reports_server.origin',
            (SELECT system_identifier::text FROM pg_control_system()) || '/' ||
            left(pg_walfile_name(pg_current_wal_lsn()), 8), true);
    EXCEPTION WHEN OTHERS THEN
        PERFORM set_config('reports_server.origin', '', true);
    END $$";

/// Goes on from the present state of the database. `counter` is the newest version that this server
/// may have served. The objects that it still holds have to be loaded again afterwards.
pub(super) async fn rejoin(engine: &Postgres, counter: u64) -> Result<(), EngineError> {
    let mut tx = Tx::begin_anywhere(engine).await?;
    let known = engine.lineage.newest();
    if tx.newest() != known && !tx.has(known).await? && !slept(&tx, known.seq).await? {
        let above = tx.position.counter.max(counter);
        tracing::error!(
            served = counter,
            found = tx.position.counter,
            "the database has gone back to an earlier state; clients are told to list again"
        );
        begin_anew(&mut tx, above).await?;
    }
    note_origin(&mut tx).await?;
    finish(engine, tx).await
}

/// Returns whether a commit may be missing only because it was dropped with the old log.
async fn slept(tx: &Tx<'_>, seq: i64) -> Result<bool, EngineError> {
    let rows = tx
        .query(
            "SELECT compacted FROM reports_server.clusters WHERE cluster = $1",
            &[(tx.cluster(), Type::INT4)],
        )
        .await?;
    let row = rows.first().ok_or(EngineError::Parted)?;
    Ok(seq < column(row, "compacted")?)
}

/// Begins the history of every resource that is served anew, above `counter`.
async fn begin_anew(tx: &mut Tx<'_>, counter: u64) -> Result<(), EngineError> {
    let records = all(tx).await?;
    let opened = || records.iter().filter(|r| r.opened.is_some());
    // Another server may have noticed before.
    if !tx_is_behind(tx, counter) && opened().all(|r| r.effective_horizon() > counter) {
        return Ok(());
    }
    tx.position.counter = counter + MARGIN;
    for mut record in opened().cloned().collect::<Vec<_>>() {
        record.horizon = Some(tx.position.counter);
        record.newest_logged = record.newest_logged.max(tx.position.counter);
        save(tx, &record).await?;
    }
    Ok(())
}

fn tx_is_behind(tx: &Tx<'_>, counter: u64) -> bool {
    tx.position.counter <= counter
}

async fn finish(engine: &Postgres, tx: Tx<'_>) -> Result<(), EngineError> {
    let known = engine.lineage.newest();
    engine.lineage.restart(tx.newest());
    // What was stored by a commit that is gone is gone, too.
    engine.checks.forget();
    let committed = tx.commit(()).await;
    if committed.is_err() {
        // Nobody knows whether it is there; the next attempt finds out.
        engine.lineage.restart(known);
    }
    committed.map(drop)
}

/// Looks, at a start, whether another server or timeline is behind the connection than the one that
/// the cluster was last written by. A server that has just started does not know whether something
/// is missing; a server that goes on across a failover does, and notes it. Where none has, the
/// database counts as [put back](is_put_back).
pub(super) async fn check_origin(engine: &Postgres) -> Result<(), EngineError> {
    let give_up = Instant::now() + OTHERS_NOTE;
    loop {
        let mut tx = Tx::begin_anywhere(engine).await?;
        let (found, noted) = origins(&tx).await?;
        if !is_other(&found, &noted) {
            note_origin(&mut tx).await?;
            return finish(engine, tx).await;
        }
        if Instant::now() >= give_up {
            tracing::warn!(
                from = noted,
                to = found,
                "the database is another server or timeline than before; \
                 clients are told to list again, as it may lack the newest changes"
            );
            return finish(engine, tx).await;
        }
        tx.rollback(()).await?;
        sleep(LOOK_AGAIN).await;
    }
}

/// Returns whether a server or timeline that is known differs from the noted one.
fn is_other(found: &str, noted: &str) -> bool {
    !found.is_empty() && !noted.is_empty() && found != noted
}

/// Returns whether the database is another server or timeline than the noted one. It stays so until
/// [`begin_above`] notes it.
pub(super) async fn is_put_back(engine: &Postgres) -> Result<bool, EngineError> {
    let tx = Tx::begin_anywhere(engine).await?;
    let (found, noted) = origins(&tx).await?;
    let rolled_back = tx.rollback(is_other(&found, &noted)).await?;
    Ok(rolled_back.outcome)
}

/// Begins every history anew above etcd's `revision`, unless another server has done so.
pub(super) async fn begin_above(engine: &Postgres, revision: u64) -> Result<(), EngineError> {
    let mut tx = Tx::begin_anywhere(engine).await?;
    let (found, noted) = origins(&tx).await?;
    if is_other(&found, &noted) {
        let above = tx.position.counter.max(revision);
        begin_anew(&mut tx, above).await?;
        note_origin(&mut tx).await?;
    }
    finish(engine, tx).await
}

/// Returns the present server and its timeline, and the noted ones.
async fn origins(tx: &Tx<'_>) -> Result<(String, String), EngineError> {
    tx.batch(ORIGIN, super::connection::STATEMENT).await?;
    let rows = tx
        .query(
            "SELECT current_setting('reports_server.origin') AS found, origin AS noted
             FROM reports_server.clusters WHERE cluster = $1",
            &[(tx.cluster(), Type::INT4)],
        )
        .await?;
    let row = rows.first().ok_or(EngineError::Parted)?;
    Ok((column(row, "found")?, column(row, "noted")?))
}

/// Notes that everything that was committed is on the present server.
pub(super) async fn note_origin(tx: &mut Tx<'_>) -> Result<(), EngineError> {
    let (found, noted) = origins(tx).await?;
    if found != noted && !found.is_empty() {
        tx.execute(
            "UPDATE reports_server.clusters SET origin = $2 WHERE cluster = $1",
            &[(tx.cluster(), Type::INT4), (&found, Type::TEXT)],
        )
        .await?;
    }
    Ok(())
}
