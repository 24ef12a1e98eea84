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

use super::connection::{PgConnection, STATEMENT};
use super::resources::{all, save};
use super::rows::{column, db};
use super::tx::{Locked, Tx};
use super::{Postgres, lineage};
use crate::model::ResourceRecord;
use crate::store::engine::EngineError;
use crate::store::moving::rows::LastCommit;

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
    engine.open_again().await?;
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
    // Another server may have noticed before.
    if is_above(tx, &records, counter) {
        return Ok(());
    }
    tx.position.counter = counter + MARGIN;
    for mut record in records.into_iter().filter(|r| r.opened.is_some()) {
        record.horizon = Some(tx.position.counter);
        record.newest_logged = record.newest_logged.max(tx.position.counter);
        save(tx, &record).await?;
    }
    Ok(())
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
        let (found, noted) = origins(&tx, tx.cluster()).await?;
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
    let (found, noted) = origins(&tx, tx.cluster()).await?;
    let rolled_back = tx.rollback(is_other(&found, &noted)).await?;
    Ok(rolled_back.outcome)
}

/// Begins every history anew above etcd's `revision`, unless another server has done so.
pub(super) async fn begin_above(engine: &Postgres, revision: u64) -> Result<(), EngineError> {
    let mut tx = Tx::begin_anywhere(engine).await?;
    let (found, noted) = origins(&tx, tx.cluster()).await?;
    if is_other(&found, &noted) {
        let above = tx.position.counter.max(revision);
        begin_anew(&mut tx, above).await?;
        note_origin(&mut tx).await?;
    }
    finish(engine, tx).await
}

/// Returns whether the database, which another one was moved to, lacks what clients may hold of that:
/// it was put back since it was opened, or the other one went on for a while beside it.
pub(super) async fn is_apart(engine: &Postgres, last: &LastCommit) -> Result<bool, EngineError> {
    let tx = Tx::begin_anywhere(engine).await?;
    let apart = is_behind(&tx, last).await?;
    let rolled_back = tx.rollback(apart).await?;
    Ok(rolled_back.outcome)
}

async fn is_behind(tx: &Tx<'_>, last: &LastCommit) -> Result<bool, EngineError> {
    let (found, noted) = origins(tx, tx.cluster()).await?;
    Ok(is_other(&found, &noted) || lacks(tx, last).await?)
}

async fn lacks(tx: &Tx<'_>, last: &LastCommit) -> Result<bool, EngineError> {
    let seq = db(last.seq);
    let Some(batch) = last.batch else {
        return Ok(false);
    };
    let known = lineage::Commit { seq, batch };
    if tx.newest() == known || tx.has(known).await? || slept(tx, seq).await? {
        return Ok(false);
    }
    // Another server may have noticed before.
    let records = all(tx).await?;
    Ok(!is_above(tx, &records, last.counter))
}

/// Returns whether every history begins above a version, which is never given again.
fn is_above(tx: &Tx<'_>, records: &[ResourceRecord], version: u64) -> bool {
    let mut opened = records.iter().filter(|r| r.opened.is_some());
    tx.position.counter > version && opened.all(|r| r.effective_horizon() > version)
}

/// Begins every history anew above all that clients may hold of a database that ended with `last`, and
/// above etcd's `revision`, where the database [is apart](is_apart) from that.
pub(super) async fn begin_behind(
    engine: &Postgres,
    last: &LastCommit,
    revision: u64,
) -> Result<(), EngineError> {
    let mut tx = Tx::begin_anywhere(engine).await?;
    if is_behind(&tx, last).await? {
        let above = tx.position.counter.max(last.counter).max(revision);
        tracing::error!(
            last = last.counter,
            found = tx.position.counter,
            "the database may lack the newest changes; clients are told to list again"
        );
        begin_anew(&mut tx, above).await?;
        note_origin(&mut tx).await?;
    }
    finish(engine, tx).await
}

/// Has a cluster count here again that has moved away by an attempt, above etcd's `revision`. Returns
/// false where it is not here any more.
pub(super) async fn take_back(
    engine: &Postgres,
    attempt: i64,
    revision: u64,
) -> Result<bool, EngineError> {
    let locked = Locked::take(engine).await?;
    let rows = locked
        .query(
            "SELECT reports_server.take_back_v1($1, $2) AS back",
            &[(&engine.cluster, Type::INT4), (&attempt, Type::INT8)],
        )
        .await?;
    if !column::<bool>(rows.first().ok_or(EngineError::Parted)?, "back")? {
        return Ok(false);
    }
    let mut tx = locked.at_newest().await?;
    let above = tx.position.counter.max(revision);
    begin_anew(&mut tx, above).await?;
    note_origin(&mut tx).await?;
    finish(engine, tx).await?;
    Ok(true)
}

/// Returns the present server and its timeline, and the noted ones.
async fn origins(
    connection: &PgConnection,
    cluster: &i32,
) -> Result<(String, String), EngineError> {
    connection.batch(ORIGIN, STATEMENT).await?;
    let rows = connection
        .query(
            "SELECT current_setting('reports_server.origin') AS found, origin AS noted
             FROM reports_server.clusters WHERE cluster = $1",
            &[(cluster, Type::INT4)],
        )
        .await?;
    let row = rows.first().ok_or(EngineError::Parted)?;
    Ok((column(row, "found")?, column(row, "noted")?))
}

/// Notes that everything that was committed is on the present server.
pub(super) async fn note_origin(tx: &mut Tx<'_>) -> Result<(), EngineError> {
    note_origin_of(tx, tx.cluster()).await
}

/// Notes, in the transaction of a connection, that everything that a cluster has is on the present
/// server.
pub(super) async fn note_origin_of(
    connection: &PgConnection,
    cluster: &i32,
) -> Result<(), EngineError> {
    let (found, noted) = origins(connection, cluster).await?;
    if found != noted && !found.is_empty() {
        connection
            .execute(
                "UPDATE reports_server.clusters SET origin = $2 WHERE cluster = $1",
                &[(cluster, Type::INT4), (&found, Type::TEXT)],
            )
            .await?;
    }
    Ok(())
}
