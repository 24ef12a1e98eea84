//! Imports.

use std::collections::{HashMap, HashSet};

use crds::control::ImportMode;
use jiff::Timestamp;
use sqlx::{QueryBuilder, Row as _, SqliteConnection};

use super::connection::Tx;
use super::resources::{needed, save};
use super::rows::{db, key, keys, labels_of, labels_text, millis, un_db};
use super::write::{existing_objects, write};
use crate::model::{ObjectKey, ResourceId};
use crate::store::engine::{Commit, EngineError, ImportChunk, ImportOutcome, Refusal};
use crate::store::import::{LastEvent, Mark, View, plan};

/// Imports a chunk.
pub(super) async fn import(
    mut tx: Tx,
    chunk: ImportChunk,
) -> Result<Commit<Result<ImportOutcome, Refusal>>, EngineError> {
    let id = chunk.resource;
    let record = needed(&mut tx, id).await?;
    let ours = match (chunk.mode, record.opened) {
        (ImportMode::Straggler, Some(opened)) => ours(&mut tx, id, opened).await?,
        _ => HashSet::new(),
    };
    let wanted = keys(chunk.items.iter().map(|item| (id, &item.key)));
    let objects = existing_objects(&mut tx, &wanted).await?;
    let view = View {
        objects: objects
            .into_iter()
            .map(|((_, key), object)| (key, object))
            .collect(),
        marks: marks(&mut tx, &wanted).await?,
        events: events(&mut tx, &wanted).await?,
        ours,
    };
    let plan = match plan(chunk, view, record, tx.position) {
        Ok(plan) => plan,
        Err(refusal) => return tx.rollback(Err(refusal)).await,
    };
    write(&mut tx, plan.logged).await?;
    save_marks(&mut tx, id, &plan.marks).await?;
    save_events(&mut tx, id, &plan.events).await?;
    save(&mut tx, &plan.record).await?;
    tx.position = plan.position;
    tx.records.push(plan.record);
    tx.commit(Ok(plan.outcome)).await
}

/// Returns the keys that a write of ours has touched since the gate was opened.
async fn ours(
    connection: &mut SqliteConnection,
    id: ResourceId,
    opened: u64,
) -> Result<HashSet<ObjectKey>, EngineError> {
    let rows = sqlx::query(
        "SELECT DISTINCT namespace, name FROM changes
         WHERE resource_id = ? AND rv > ? AND effect <> 2 AND as_imported = 0",
    )
    .bind(id.0)
    .bind(db(opened))
    .fetch_all(connection)
    .await?;
    rows.iter().map(key).collect()
}

async fn marks(
    connection: &mut SqliteConnection,
    wanted: &str,
) -> Result<HashMap<ObjectKey, Mark>, EngineError> {
    let rows = sqlx::query(
        "SELECT i.namespace, i.name, i.uid, i.rv FROM json_each(?) k CROSS JOIN imported i
         WHERE i.resource_id = k.value ->> 0 AND i.namespace = k.value ->> 1
           AND i.name = k.value ->> 2",
    )
    .bind(wanted)
    .fetch_all(connection)
    .await?;
    rows.iter()
        .map(|row| {
            Ok((
                key(row)?,
                Mark {
                    uid: row.try_get("uid")?,
                    rv: un_db(row.try_get("rv")?),
                },
            ))
        })
        .collect()
}

async fn events(
    connection: &mut SqliteConnection,
    wanted: &str,
) -> Result<HashMap<ObjectKey, LastEvent>, EngineError> {
    let rows = sqlx::query(
        "SELECT e.namespace, e.name, e.rv, e.deleted, e.labels
         FROM json_each(?) k CROSS JOIN mirror_events e
         WHERE e.resource_id = k.value ->> 0 AND e.namespace = k.value ->> 1
           AND e.name = k.value ->> 2",
    )
    .bind(wanted)
    .fetch_all(connection)
    .await?;
    rows.iter()
        .map(|row| {
            let key = key(row)?;
            let labels = labels_of(row.try_get("labels")?, &key)?;
            let rv = un_db(row.try_get("rv")?);
            Ok((
                key,
                LastEvent {
                    rv,
                    deleted: row.try_get("deleted")?,
                    labels,
                },
            ))
        })
        .collect()
}

async fn save_marks(
    connection: &mut SqliteConnection,
    id: ResourceId,
    marks: &HashMap<ObjectKey, Option<Mark>>,
) -> Result<(), EngineError> {
    let set: Vec<_> = marks
        .iter()
        .filter_map(|(k, m)| Some((k, m.as_ref()?)))
        .collect();
    if !set.is_empty() {
        let mut insert = QueryBuilder::new(
            "INSERT OR REPLACE INTO imported (resource_id, namespace, name, uid, rv) ",
        );
        insert.push_values(set, |mut row, (key, mark)| {
            row.push_bind(id.0)
                .push_bind(key.namespace().to_owned())
                .push_bind(key.name().to_owned())
                .push_bind(mark.uid.clone())
                .push_bind(db(mark.rv));
        });
        insert
            .build()
            .persistent(false)
            .execute(&mut *connection)
            .await?;
    }
    let gone = keys(
        marks
            .iter()
            .filter(|(_, m)| m.is_none())
            .map(|(k, _)| (id, k)),
    );
    sqlx::query(
        "DELETE FROM imported WHERE (resource_id, namespace, name) IN
             (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?))",
    )
    .bind(gone)
    .execute(connection)
    .await?;
    Ok(())
}

async fn save_events(
    connection: &mut SqliteConnection,
    id: ResourceId,
    events: &HashMap<ObjectKey, LastEvent>,
) -> Result<(), EngineError> {
    if events.is_empty() {
        return Ok(());
    }
    let now = millis(Timestamp::now());
    let mut insert = QueryBuilder::new(
        "INSERT OR REPLACE INTO mirror_events \
         (resource_id, namespace, name, rv, deleted, labels, imported_at) ",
    );
    insert.push_values(events, |mut row, (key, event)| {
        row.push_bind(id.0)
            .push_bind(key.namespace().to_owned())
            .push_bind(key.name().to_owned())
            .push_bind(db(event.rv))
            .push_bind(event.deleted)
            .push_bind(labels_text(&event.labels))
            .push_bind(now);
    });
    insert.build().persistent(false).execute(connection).await?;
    Ok(())
}
