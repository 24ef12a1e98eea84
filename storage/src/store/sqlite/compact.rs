//! Dropping rows that nobody needs any more.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use sqlx::sqlite::SqlitePool;

use super::connection::Tx;
use super::read::record_of;
use super::resources::save;
use super::rows::{db, limit, un_db};
use crate::model::ResourceId;
use crate::store::engine::{Commit, Compaction, EngineError, MIRROR_EVENT_TTL};

/// Returns the oldest changes, as far as they were committed by `before` or the log is too large.
pub(super) async fn compactable(
    pool: &SqlitePool,
    before: SystemTime,
    max_bytes: u64,
    max: usize,
) -> Result<Option<Compaction>, EngineError> {
    let log_bytes: i64 = sqlx::query_scalar("SELECT log_bytes FROM position")
        .fetch_one(pool)
        .await?;
    let rows: Vec<(i64, i64, i64, i64, i64, i64)> = sqlx::query_as(
        "SELECT seq, resource_id, rv, effect, committed_at, coalesce(octet_length(body), 0)
         FROM changes ORDER BY seq LIMIT ?",
    )
    .bind(limit(max))
    .fetch_all(pool)
    .await?;
    let before = epoch_millis(before);
    let old = match rows.first() {
        // The clock was set back. A change is no younger than those that came later.
        Some((.., committed, _)) if *committed > epoch_millis(SystemTime::now()) => {
            newest_by(pool, before).await?
        }
        _ => None,
    };
    let mut excess = log_bytes.saturating_sub(i64::try_from(max_bytes).unwrap_or(i64::MAX));
    let mut compaction: Option<(u64, BTreeMap<ResourceId, u64>)> = None;
    for (seq, id, rv, effect, committed, bytes) in rows {
        if committed > before && Some(seq) > old && excess <= 0 {
            break;
        }
        excess = excess.saturating_sub(bytes);
        let (last, horizons) = compaction.get_or_insert_default();
        *last = un_db(seq);
        // State from a listing is no event: its absence is no gap.
        if effect != 2 {
            let horizon = horizons.entry(ResourceId(id)).or_default();
            *horizon = un_db(rv).max(*horizon);
        }
    }
    Ok(compaction.map(|(seq, horizons)| Compaction {
        seq,
        horizons: horizons.into_iter().collect(),
    }))
}

/// Returns the newest change that was committed by `before`, in milliseconds since the epoch. It
/// looks at the whole log.
async fn newest_by(pool: &SqlitePool, before: i64) -> Result<Option<i64>, EngineError> {
    let newest = sqlx::query_scalar("SELECT max(seq) FROM changes WHERE committed_at <= ?");
    Ok(newest.bind(before).fetch_one(pool).await?)
}

/// Drops changes and raises the horizons to them.
pub(super) async fn compact(
    mut tx: Tx,
    compaction: &Compaction,
) -> Result<Commit<()>, EngineError> {
    for &(id, horizon) in &compaction.horizons {
        // The changes of a resource that was reset have no record any more.
        let Some(mut record) = record_of(&mut tx, id).await? else {
            continue;
        };
        record.horizon = Some(record.horizon.unwrap_or(0).max(horizon));
        save(&mut tx, &record).await?;
        tx.records.push(record);
    }
    let bytes: i64 = sqlx::query_scalar(
        "SELECT coalesce(sum(octet_length(body)), 0) FROM changes WHERE seq <= ?",
    )
    .bind(db(compaction.seq))
    .fetch_one(&mut *tx)
    .await?;
    tx.log_bytes -= bytes;
    sqlx::query("DELETE FROM changes WHERE seq <= ?")
        .bind(db(compaction.seq))
        .execute(&mut *tx)
        .await?;
    tx.commit(()).await
}

/// Drops at most `max` rows of each table that belong to resources that were reset, and marks of
/// imported events that no listing can be older than; then returns free pages.
pub(super) async fn collect_garbage(mut tx: Tx, max: usize) -> Result<usize, EngineError> {
    let expired = SystemTime::now()
        .checked_sub(MIRROR_EVENT_TTL)
        .map_or(0, epoch_millis);
    let mut dropped = sqlx::query(
        "DELETE FROM mirror_events WHERE (resource_id, namespace, name) IN
             (SELECT resource_id, namespace, name FROM mirror_events WHERE imported_at < ? LIMIT ?)",
    )
    .bind(expired)
    .bind(limit(max))
    .execute(&mut *tx)
    .await?
    .rows_affected();
    let ids: Vec<i64> = sqlx::query_scalar("SELECT id FROM dropped_resources")
        .fetch_all(&mut *tx)
        .await?;
    for id in ids {
        let rows = drop_rows(&mut tx, id, max).await?;
        if rows == 0 {
            sqlx::query("DELETE FROM dropped_resources WHERE id = ?")
                .bind(id)
                .execute(&mut *tx)
                .await?;
        }
        dropped += rows;
    }
    sqlx::query("PRAGMA incremental_vacuum(1000)")
        .execute(&mut *tx)
        .await?;
    tx.commit(()).await?;
    Ok(usize::try_from(dropped).unwrap_or(usize::MAX))
}

/// Drops at most `max` rows of each table that belong to `id`.
async fn drop_rows(tx: &mut Tx, id: i64, max: usize) -> Result<u64, EngineError> {
    let statements = [
        "DELETE FROM objects WHERE rowid IN
             (SELECT rowid FROM objects WHERE resource_id = ? LIMIT ?)",
        "DELETE FROM imported WHERE (resource_id, namespace, name) IN
             (SELECT resource_id, namespace, name FROM imported WHERE resource_id = ? LIMIT ?)",
        "DELETE FROM mirror_events WHERE (resource_id, namespace, name) IN
             (SELECT resource_id, namespace, name FROM mirror_events
              WHERE resource_id = ? LIMIT ?)",
    ];
    let mut dropped = 0;
    for statement in statements {
        let done = sqlx::query(statement)
            .bind(id)
            .bind(limit(max))
            .execute(&mut **tx)
            .await?;
        dropped += done.rows_affected();
    }
    Ok(dropped)
}

/// Returns the milliseconds since the epoch.
pub(super) fn epoch_millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
