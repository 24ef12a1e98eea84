//! Dropping rows that nobody needs any more.

use std::time::SystemTime;

use tokio_postgres::types::Type;

use super::Postgres;
use super::connection::PgConnection;
use super::rejoin::note_origin;
use super::resources::{find, save};
use super::rows::{column, db, limit, number, un_db};
use super::tx::Tx;
use crate::model::ResourceId;
use crate::store::engine::{Commit, Compaction, EngineError, MIRROR_EVENT_TTL};

/// Texts of projections that are looked at at a time, behind the lock of all writers: a few
/// milliseconds, and so only once nothing else is left to drop.
const UNREFERRED: i32 = 500;

/// Returns the commits that were made by `before`, and as many as make the log too large.
///
/// It returns whole commits: that is how long the log is known, and nothing is gained by cutting
/// one.
pub(super) async fn compactable(
    engine: &Postgres,
    before: SystemTime,
    max_bytes: u64,
) -> Result<Option<Compaction>, EngineError> {
    let reader = engine.readers.get().await?;
    let max_bytes = i64::try_from(max_bytes).unwrap_or(i64::MAX);
    // The age, by the clock that noted it: clocks differ, and are set.
    let age = SystemTime::now().duration_since(before).unwrap_or_default();
    let age = age.as_secs_f64();
    let rows = reader
        .page_query(
            "SELECT c.compacted, greatest(old.seq, large.seq) AS seq
             FROM reports_server.clusters c
             LEFT JOIN LATERAL (
                 SELECT k.bytes FROM reports_server.commits k
                 WHERE k.cluster = $1 ORDER BY k.seq DESC LIMIT 1) newest ON true
             LEFT JOIN LATERAL (
                 SELECT k.seq FROM reports_server.commits k
                 WHERE k.cluster = $1 AND k.committed_at <= clock_timestamp() - $2 * interval '1 s'
                 ORDER BY k.seq DESC LIMIT 1) old ON true
             LEFT JOIN LATERAL (
                 SELECT k.seq FROM reports_server.commits k
                 WHERE k.cluster = $1 AND k.seq >= c.compacted AND k.bytes >= newest.bytes - $3
                 ORDER BY k.seq LIMIT 1) large ON true
             WHERE c.cluster = $1",
            &[
                (&engine.cluster, Type::INT4),
                (&age, Type::FLOAT8),
                (&max_bytes, Type::INT8),
            ],
        )
        .await?;
    let head = rows.first().ok_or(EngineError::Parted)?;
    let (compacted, seq) = (column::<i64>(head, "compacted")?, column(head, "seq")?);
    let seq = match seq {
        Some(seq) if seq > compacted => seq,
        Some(_) | None => {
            reader.keep();
            return Ok(None);
        }
    };
    let horizons = horizons(engine, &reader, compacted, seq).await?;
    reader.keep();
    Ok(Some(Compaction {
        seq: un_db(seq),
        horizons,
    }))
}

/// Returns the newest version of each resource among the changes behind `compacted` up to `seq`.
/// Versions of one resource follow the order of commits.
async fn horizons(
    engine: &Postgres,
    connection: &PgConnection,
    compacted: i64,
    seq: i64,
) -> Result<Vec<(ResourceId, u64)>, EngineError> {
    let rows = connection
        .page_query(
            "SELECT r.id, c.rv FROM reports_server.resources r CROSS JOIN LATERAL (
                 SELECT c.rv FROM reports_server.changes c
                 WHERE c.cluster = $1 AND c.resource_id = r.id AND c.effect <> 2
                     AND c.seq > $2 AND c.seq <= $3
                 ORDER BY c.rv DESC LIMIT 1) c
             WHERE r.cluster = $1",
            &[
                (&engine.cluster, Type::INT4),
                (&compacted, Type::INT8),
                (&seq, Type::INT8),
            ],
        )
        .await?;
    rows.iter()
        .map(|row| Ok((ResourceId(column(row, "id")?), number(row, "rv")?)))
        .collect()
}

/// Raises the horizons; [`collect_garbage`] drops the rows below them. All servers see the one
/// before they can miss the other.
pub(super) async fn compact(
    mut tx: Tx<'_>,
    compaction: &Compaction,
) -> Result<Commit<()>, EngineError> {
    for &(id, horizon) in &compaction.horizons {
        // The changes of a resource that was reset have no record any more.
        let Some(mut record) = find(&tx, id).await? else {
            continue;
        };
        record.horizon = Some(record.horizon.unwrap_or(0).max(horizon));
        save(&mut tx, &record).await?;
        tx.records.push(record);
    }
    tx.execute(
        "UPDATE reports_server.clusters SET compacted = greatest(compacted, $2)
         WHERE cluster = $1",
        &[
            (tx.cluster(), Type::INT4),
            (&db(compaction.seq), Type::INT8),
        ],
    )
    .await?;
    tx.commit(()).await
}

/// Drops at most `max` rows of each table, and partitions of the log, that nobody needs any more:
/// rows below the horizons, rows of resources that were reset, and marks of imported events that no
/// listing can be older than.
pub(super) async fn collect_garbage(engine: &Postgres, max: usize) -> Result<usize, EngineError> {
    let (connection, slot) = engine.writer.take().await?;
    let rows = connection
        .page_query(
            "SELECT reports_server.drop_log_v2($1, $2) AS dropped",
            &[
                (&engine.cluster, Type::INT4),
                (&i32::try_from(max).unwrap_or(i32::MAX), Type::INT4),
            ],
        )
        .await?;
    let dropped: i64 = rows.first().map_or(Ok(0), |row| column(row, "dropped"))?;
    let mut dropped = un_db(dropped);
    let expired = SystemTime::now().checked_sub(MIRROR_EVENT_TTL);
    dropped += connection
        .execute(
            "DELETE FROM reports_server.mirror_events WHERE ctid = ANY (ARRAY (
                 SELECT ctid FROM reports_server.mirror_events
                 WHERE cluster = $1 AND imported_at < $2 LIMIT $3))",
            &[
                (&engine.cluster, Type::INT4),
                (&expired, Type::TIMESTAMPTZ),
                (&limit(max), Type::INT8),
            ],
        )
        .await?;
    let ids = connection
        .query(
            "SELECT id FROM reports_server.dropped_resources WHERE cluster = $1",
            &[(&engine.cluster, Type::INT4)],
        )
        .await?;
    for row in &ids {
        dropped += drop_rows(engine, &connection, column(row, "id")?, max).await?;
    }
    if dropped == 0 {
        let rows = connection
            .query(
                "SELECT reports_server.drop_projections_v1($1, $2) AS dropped",
                &[(&engine.cluster, Type::INT4), (&UNREFERRED, Type::INT4)],
            )
            .await?;
        dropped = rows.first().map_or(Ok(0), |row| number(row, "dropped"))?;
    }
    slot.put(connection);
    Ok(usize::try_from(dropped).unwrap_or(usize::MAX))
}

/// Drops at most `max` rows of each table that belong to `id`, and `id` when there are none.
async fn drop_rows(
    engine: &Postgres,
    connection: &PgConnection,
    id: i64,
    max: usize,
) -> Result<u64, EngineError> {
    let rows = connection
        .query(
            "SELECT reports_server.drop_objects_v1($1, $2, $3) AS dropped",
            &[
                (&engine.cluster, Type::INT4),
                (&id, Type::INT8),
                (&i32::try_from(max).unwrap_or(i32::MAX), Type::INT4),
            ],
        )
        .await?;
    let mut dropped = rows.first().map_or(Ok(0), |row| number(row, "dropped"))?;
    for table in ["imported", "mirror_events"] {
        dropped += connection
            .execute(
                &format!(
                    "DELETE FROM reports_server.{table} WHERE ctid = ANY (ARRAY (
                         SELECT ctid FROM reports_server.{table}
                         WHERE cluster = $1 AND resource_id = $2 LIMIT $3))"
                ),
                &[
                    (&engine.cluster, Type::INT4),
                    (&id, Type::INT8),
                    (&limit(max), Type::INT8),
                ],
            )
            .await?;
    }
    if dropped == 0 {
        connection
            .execute(
                "DELETE FROM reports_server.dropped_resources WHERE id = $1",
                &[(&id, Type::INT8)],
            )
            .await?;
    }
    Ok(dropped)
}

/// Makes room in the log ahead of need, and lets connections follow changed parameters.
pub(super) async fn prepare(engine: &Postgres) -> Result<(), EngineError> {
    engine.connector.refresh();
    engine.readers.discard_outdated();
    let mut tx = Tx::begin(engine).await?;
    note_origin(&mut tx).await?;
    tx.page_query(
        "SELECT reports_server.prepare_log_v1($1)::text",
        &[(&engine.cluster, Type::INT4)],
    )
    .await?;
    tx.commit(()).await.map(drop)
}
