//! The statements by which rows of another database go in.

use std::collections::HashMap;

use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::super::compact::epoch_millis;
use crate::model::{ResourceId, ResourceRecord, packed as packing};
use crate::store::engine::EngineError;
use crate::store::moving::rows::{ChangeRow, CommitRow, EventRow, LogRows, MarkRow, ObjectRow};

/// Rows in one statement: SQLite takes 32,766 parameters, a row has 12 at most.
const ROWS: usize = 500;

/// The column `effect` of a listed state, whose text is in `objects`.
const STATE: i16 = 2;

/// The numbers of the resources that are known.
type Ids = HashMap<ResourceId, i64>;

/// An object with its text as SQLite keeps it.
pub(super) type Packed = (ObjectRow, Box<[u8]>);

/// Packs the texts of objects.
pub(super) fn packed(rows: Vec<ObjectRow>) -> Result<Vec<Packed>, EngineError> {
    let mut packed = Vec::with_capacity(rows.len());
    for row in rows {
        let text = pack(&row.body)?;
        packed.push((row, text));
    }
    Ok(packed)
}

fn pack(text: &str) -> Result<Box<[u8]>, EngineError> {
    packing::pack(text).map_err(|error| sqlx::Error::Io(error).into())
}

/// Adds changes, each with the time of its commit, in place of those that are there already. Those of
/// resources that are gone keep their place. Returns the number of bytes by which the log grows.
pub(super) async fn changes(
    connection: &mut SqliteConnection,
    log: &LogRows,
    ids: &Ids,
) -> Result<i64, EngineError> {
    let (Some(first), Some(last)) = (log.changes.first(), log.changes.last()) else {
        return Ok(0);
    };
    let mut added = -dropped(connection, first.seq, last.seq).await?;
    for rows in log.changes.chunks(ROWS) {
        let mut texts = Vec::with_capacity(rows.len());
        for row in rows {
            let text = row.body.as_deref().filter(|_| row.effect != STATE);
            let text = text.map(pack).transpose()?;
            let bytes = text.as_ref().map_or(0, |text| text.len());
            added += i64::try_from(bytes).unwrap_or(i64::MAX);
            texts.push(text);
        }
        insert_changes(connection, rows, texts, &log.commits, ids).await?;
    }
    Ok(added)
}

async fn insert_changes(
    connection: &mut SqliteConnection,
    rows: &[ChangeRow],
    texts: Vec<Option<Box<[u8]>>>,
    commits: &[CommitRow],
    ids: &Ids,
) -> Result<(), EngineError> {
    let mut insert = QueryBuilder::new(
        "INSERT INTO changes (seq, resource_id, rv, type, effect, namespace, name, \
         as_imported, prev_rv, prev_labels, committed_at, body) ",
    );
    insert.push_values(rows.iter().zip(texts), |mut line, (row, text)| {
        let (resource, key) = &row.key;
        line.push_bind(row.seq)
            .push_bind(ids.get(resource).copied().unwrap_or(0))
            .push_bind(row.rv)
            .push_bind(type_text(row.type_))
            .push_bind(row.effect)
            .push_bind(key.namespace().to_owned())
            .push_bind(key.name().to_owned())
            .push_bind(row.as_imported)
            .push_bind(row.prev_rv)
            .push_bind(row.prev_labels.clone())
            .push_bind(committed_at(row, commits))
            .push_bind(text);
    });
    execute(connection, insert).await
}

/// Returns the text for the column `type`.
fn type_text(type_: i16) -> &'static str {
    match type_ {
        0 => "ADDED",
        1 => "MODIFIED",
        _ => "DELETED",
    }
}

/// Returns when a change was committed, in milliseconds since the epoch, as its commit says.
fn committed_at(row: &ChangeRow, commits: &[CommitRow]) -> i64 {
    let place = commits.partition_point(|commit| commit.seq < row.seq);
    let commit = commits.get(place);
    commit.map_or(row.committed_at, |commit| epoch_millis(commit.committed_at))
}

/// Drops the changes of a part of the log, both ends included; returns the number of their bytes.
async fn dropped(
    connection: &mut SqliteConnection,
    first: i64,
    last: i64,
) -> Result<i64, EngineError> {
    let bytes: i64 = sqlx::query_scalar(
        "SELECT coalesce(sum(octet_length(body)), 0) FROM changes WHERE seq BETWEEN ? AND ?",
    )
    .bind(first)
    .bind(last)
    .fetch_one(&mut *connection)
    .await?;
    sqlx::query("DELETE FROM changes WHERE seq BETWEEN ? AND ?")
        .bind(first)
        .bind(last)
        .execute(connection)
        .await?;
    Ok(bytes)
}

/// Drops the changes up to `seq`; returns the number of their bytes.
pub(super) async fn drop_changes(
    connection: &mut SqliteConnection,
    seq: i64,
) -> Result<i64, EngineError> {
    dropped(connection, 0, seq).await
}

/// Stores a resource under the number that it has; the rest of its record is saved behind it.
pub(super) async fn resource(
    connection: &mut SqliteConnection,
    record: &ResourceRecord,
) -> Result<(), EngineError> {
    sqlx::query(
        "INSERT INTO resources (id, api_group, resource, kind, namespaced, uid, created_at)
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(record.id.0)
    .bind(&*record.def.resource.group)
    .bind(&*record.def.resource.resource)
    .bind(&*record.def.kind)
    .bind(record.def.namespaced)
    .bind(&*record.uid)
    .bind(record.created.as_second())
    .execute(connection)
    .await?;
    Ok(())
}

/// Gives up a resource; its rows are dropped when the database is open.
pub(super) async fn drop_resource(
    connection: &mut SqliteConnection,
    resource: ResourceId,
) -> Result<(), EngineError> {
    for statement in [
        "DELETE FROM resources WHERE id = ?",
        "INSERT OR IGNORE INTO dropped_resources (id) VALUES (?)",
    ] {
        sqlx::query(statement)
            .bind(resource.0)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Brings objects to the state of `rows`.
pub(super) async fn objects(
    connection: &mut SqliteConnection,
    rows: &[Packed],
) -> Result<(), EngineError> {
    for rows in rows.chunks(ROWS) {
        let mut insert = QueryBuilder::new(
            "INSERT INTO objects \
             (resource_id, namespace, name, uid, rv, as_imported, labels, body) ",
        );
        insert.push_values(rows, |mut line, (row, text)| {
            let (resource, key) = &row.key;
            line.push_bind(resource.0)
                .push_bind(key.namespace().to_owned())
                .push_bind(key.name().to_owned())
                .push_bind(row.uid.clone())
                .push_bind(row.rv)
                .push_bind(row.as_imported)
                .push_bind(row.labels.clone())
                .push_bind(text.clone());
        });
        insert.push(
            " ON CONFLICT (resource_id, namespace, name) DO UPDATE SET uid = excluded.uid, \
             rv = excluded.rv, as_imported = excluded.as_imported, labels = excluded.labels, \
             body = excluded.body",
        );
        execute(connection, insert).await?;
    }
    Ok(())
}

/// Removes the objects at the keys that `gone` names (see [`keys`](super::super::rows::keys)).
pub(super) async fn remove_objects(
    connection: &mut SqliteConnection,
    gone: &str,
) -> Result<(), EngineError> {
    let statement = "DELETE FROM objects WHERE rowid IN (
        SELECT o.rowid FROM json_each(?) k CROSS JOIN objects o
        WHERE o.resource_id = k.value ->> 0 AND o.namespace = k.value ->> 1
          AND o.name = k.value ->> 2)";
    remove(connection, statement, gone).await
}

/// Brings the imported marks at the keys that `wanted` names to `rows`.
pub(super) async fn marks(
    connection: &mut SqliteConnection,
    rows: &[&MarkRow],
    wanted: &str,
) -> Result<(), EngineError> {
    let statement = "DELETE FROM imported WHERE (resource_id, namespace, name) IN
        (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?))";
    remove(connection, statement, wanted).await?;
    for rows in rows.chunks(ROWS) {
        let mut insert = QueryBuilder::new(
            "INSERT OR REPLACE INTO imported (resource_id, namespace, name, uid, rv) ",
        );
        insert.push_values(rows, |mut line, row| {
            let (resource, key) = &row.key;
            line.push_bind(resource.0)
                .push_bind(key.namespace().to_owned())
                .push_bind(key.name().to_owned())
                .push_bind(row.uid.clone())
                .push_bind(row.rv);
        });
        execute(connection, insert).await?;
    }
    Ok(())
}

/// Brings the last events at the keys that `wanted` names to `rows`.
pub(super) async fn events(
    connection: &mut SqliteConnection,
    rows: &[&EventRow],
    wanted: &str,
) -> Result<(), EngineError> {
    let statement = "DELETE FROM mirror_events WHERE (resource_id, namespace, name) IN
        (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?))";
    remove(connection, statement, wanted).await?;
    for rows in rows.chunks(ROWS) {
        let mut insert = QueryBuilder::new(
            "INSERT OR REPLACE INTO mirror_events \
             (resource_id, namespace, name, rv, deleted, labels, imported_at) ",
        );
        insert.push_values(rows, |mut line, row| {
            let (resource, key) = &row.key;
            line.push_bind(resource.0)
                .push_bind(key.namespace().to_owned())
                .push_bind(key.name().to_owned())
                .push_bind(row.rv)
                .push_bind(row.deleted)
                .push_bind(row.labels.clone())
                .push_bind(row.imported_at);
        });
        execute(connection, insert).await?;
    }
    Ok(())
}

/// Stores the definitions of API groups.
pub(super) async fn definitions(
    connection: &mut SqliteConnection,
    definitions: &[(String, String)],
) -> Result<(), EngineError> {
    for (group, body) in definitions {
        sqlx::query("INSERT OR REPLACE INTO definitions (api_group, body) VALUES (?, ?)")
            .bind(group.as_str())
            .bind(body.as_str())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Carries out a statement that puts in rows. Their number differs, so it is not prepared for others.
async fn execute(
    connection: &mut SqliteConnection,
    mut insert: QueryBuilder<Sqlite>,
) -> Result<(), EngineError> {
    insert.build().persistent(false).execute(connection).await?;
    Ok(())
}

/// Carries out a statement that removes rows at some keys.
async fn remove(
    connection: &mut SqliteConnection,
    statement: &'static str,
    gone: &str,
) -> Result<(), EngineError> {
    sqlx::query(statement)
        .bind(gone)
        .execute(connection)
        .await?;
    Ok(())
}
