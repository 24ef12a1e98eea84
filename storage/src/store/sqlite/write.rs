//! Writes in groups.

use std::collections::HashMap;

use jiff::Timestamp;
use sqlx::{QueryBuilder, Row as _, SqliteConnection};

use super::connection::Tx;
use super::rows::{
    db, effect_number, existing, gate, key, keys, labels_text, millis, previous_columns, type_text,
};
use crate::model::{ObjectKey, ResourceId};
use crate::store::decide::{Existing, Logged, decide, last_states};
use crate::store::engine::{Commit, EngineError, Op, OpOutcome, corrupt};

/// Rows in one statement: SQLite takes 32,766 parameters, a row has 13 at most.
const ROWS: usize = 500;

/// Carries out writes, each with its own outcome.
pub(super) async fn commit(
    mut tx: Tx,
    ops: Vec<Op>,
) -> Result<Commit<Vec<OpOutcome>>, EngineError> {
    let gates = gates(&mut tx).await?;
    let wanted = keys(ops.iter().map(|op| (op.resource, &op.key)));
    let existing = existing_objects(&mut tx, &wanted).await?;
    let (outcomes, logged) = decide(ops, &gates, &existing, &mut tx.position);
    write(&mut tx, logged).await?;
    if tx.changes.is_empty() {
        tx.rollback(outcomes).await
    } else {
        tx.commit(outcomes).await
    }
}

async fn gates(
    connection: &mut SqliteConnection,
) -> Result<HashMap<ResourceId, crds::control::GateState>, EngineError> {
    let rows: Vec<(i64, String)> = sqlx::query_as("SELECT id, gate FROM resources")
        .fetch_all(connection)
        .await?;
    rows.into_iter()
        .map(|(id, text)| {
            let gate = gate(&text).ok_or_else(|| corrupt(&id, "unknown gate"))?;
            Ok((ResourceId(id), gate))
        })
        .collect()
}

/// Returns the stored objects at the keys that `wanted` names (see [`keys`]).
pub(super) async fn existing_objects(
    connection: &mut SqliteConnection,
    wanted: &str,
) -> Result<HashMap<(ResourceId, ObjectKey), Existing>, EngineError> {
    let rows = sqlx::query(
        "SELECT o.resource_id, o.namespace, o.name, o.uid, o.rv, o.as_imported, o.labels
         FROM json_each(?) k CROSS JOIN objects o
         WHERE o.resource_id = k.value ->> 0 AND o.namespace = k.value ->> 1
           AND o.name = k.value ->> 2",
    )
    .bind(wanted)
    .fetch_all(connection)
    .await?;
    rows.iter()
        .map(|row| {
            let key = key(row)?;
            let existing = existing(row, &key)?;
            Ok(((ResourceId(row.try_get("resource_id")?), key), existing))
        })
        .collect()
}

/// Logs changes and brings `objects` to the state after them.
pub(super) async fn write(tx: &mut Tx, mut logged: Vec<Logged>) -> Result<(), EngineError> {
    for one in &mut logged {
        one.pack().map_err(|e| sqlx::Error::Encode(e.into()))?;
    }
    log(tx, &logged).await?;
    let texts = logged.iter().filter(|one| one.has_text());
    let bytes = texts.map(|one| one.packed.as_ref().map_or(0, |text| text.len()));
    tx.log_bytes += i64::try_from(bytes.sum::<usize>()).unwrap_or(i64::MAX);

    let (gone, there) = last_states(&logged);
    put(tx, &there).await?;
    remove(tx, &gone).await?;

    tx.changes
        .extend(logged.into_iter().map(|l| (l.resource, l.change)));
    Ok(())
}

async fn log(connection: &mut SqliteConnection, logged: &[Logged]) -> Result<(), EngineError> {
    let now = millis(Timestamp::now());
    for rows in logged.chunks(ROWS) {
        let mut insert = QueryBuilder::new(
            "INSERT INTO changes (seq, resource_id, rv, type, effect, namespace, name, \
             as_imported, prev_rv, prev_labels, committed_at, body) ",
        );
        insert.push_values(rows, |mut row, logged| {
            let change = &logged.change;
            let object = &change.object;
            let (prev_rv, prev_labels) = previous_columns(&change.previous);
            let body = logged.packed.clone().filter(|_| logged.has_text());
            row.push_bind(db(change.seq))
                .push_bind(logged.resource.0)
                .push_bind(db(object.rv))
                .push_bind(type_text(change.type_))
                .push_bind(effect_number(change.effect))
                .push_bind(object.key.namespace().to_owned())
                .push_bind(object.key.name().to_owned())
                .push_bind(object.as_imported)
                .push_bind(prev_rv)
                .push_bind(prev_labels)
                .push_bind(now)
                .push_bind(body);
        });
        insert
            .build()
            .persistent(false)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

async fn put(connection: &mut SqliteConnection, objects: &[&Logged]) -> Result<(), EngineError> {
    for rows in objects.chunks(ROWS) {
        let mut insert = QueryBuilder::new(
            "INSERT INTO objects \
             (resource_id, namespace, name, uid, rv, as_imported, labels, body) ",
        );
        insert.push_values(rows, |mut row, logged| {
            let object = &logged.change.object;
            row.push_bind(logged.resource.0)
                .push_bind(object.key.namespace().to_owned())
                .push_bind(object.key.name().to_owned())
                .push_bind(object.uid.to_string())
                .push_bind(db(object.rv))
                .push_bind(object.as_imported)
                .push_bind(labels_text(&object.labels))
                .push_bind(logged.packed.clone());
        });
        insert.push(
            " ON CONFLICT (resource_id, namespace, name) DO UPDATE SET uid = excluded.uid, \
             rv = excluded.rv, as_imported = excluded.as_imported, labels = excluded.labels, \
             body = excluded.body",
        );
        insert
            .build()
            .persistent(false)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

async fn remove(connection: &mut SqliteConnection, objects: &[&Logged]) -> Result<(), EngineError> {
    if objects.is_empty() {
        return Ok(());
    }
    let gone = keys(objects.iter().map(|l| (l.resource, &l.change.object.key)));
    sqlx::query(
        "DELETE FROM objects WHERE rowid IN (
             SELECT o.rowid FROM json_each(?) k CROSS JOIN objects o
             WHERE o.resource_id = k.value ->> 0 AND o.namespace = k.value ->> 1
               AND o.name = k.value ->> 2)",
    )
    .bind(gone)
    .execute(connection)
    .await?;
    Ok(())
}
