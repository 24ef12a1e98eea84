//! Imports.

use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

use crds::control::ImportMode;
use tokio_postgres::types::Type;

use super::resources::{needed, save};
use super::rows::{Keys, column, db, key, labels_of, labels_text, number};
use super::tx::Tx;
use super::write::{delete, existing_objects, write};
use crate::model::{ObjectKey, ResourceId};
use crate::store::engine::{Commit, EngineError, ImportChunk, ImportOutcome, Refusal};
use crate::store::import::{LastEvent, Mark, View, plan};

/// Imports a chunk.
pub(super) async fn import(
    mut tx: Tx<'_>,
    chunk: ImportChunk,
) -> Result<Commit<Result<ImportOutcome, Refusal>>, EngineError> {
    let id = chunk.resource;
    let record = needed(&tx, id).await?;
    let ours = match (chunk.mode, record.opened) {
        (ImportMode::Straggler, Some(opened)) => ours(&tx, id, opened).await?,
        _ => HashSet::new(),
    };
    let view = {
        let wanted = Keys::of(chunk.items.iter().map(|item| (id, &item.key)));
        View {
            objects: existing_objects(&tx, &wanted).await?,
            marks: marks(&tx, &wanted).await?,
            events: events(&tx, &wanted).await?,
            ours,
        }
    };
    let before = record.clone();
    let plan = match plan(chunk, view, record, tx.position) {
        Ok(plan) => plan,
        Err(refusal) => return tx.rollback(Err(refusal)).await,
    };
    write(&mut tx, plan.logged).await?;
    save_marks(&tx, id, &plan.marks).await?;
    save_events(&tx, id, &plan.events).await?;
    if plan.record != before {
        save(&mut tx, &plan.record).await?;
    }
    // A move that copies them has to notice, as they are not in the log.
    tx.records_changed |= !(plan.marks.is_empty() && plan.events.is_empty());
    tx.position = plan.position;
    tx.records.push(plan.record);
    tx.commit(Ok(plan.outcome)).await
}

/// Returns the keys that a write of ours has touched since the gate was opened.
async fn ours(tx: &Tx<'_>, id: ResourceId, opened: u64) -> Result<HashSet<ObjectKey>, EngineError> {
    let rows = tx
        .query(
            "SELECT DISTINCT namespace, name FROM reports_server.changes
             WHERE cluster = $1 AND resource_id = $2 AND rv > $3 AND effect <> 2
                 AND NOT as_imported",
            &[
                (tx.cluster(), Type::INT4),
                (&id.0, Type::INT8),
                (&db(opened), Type::INT8),
            ],
        )
        .await?;
    rows.iter().map(key).collect()
}

async fn marks(tx: &Tx<'_>, wanted: &Keys<'_>) -> Result<HashMap<ObjectKey, Mark>, EngineError> {
    let [resources, namespaces, names] = wanted.parameters();
    let rows = tx
        .query(
            "SELECT i.namespace, i.name, i.uid, i.rv
             FROM unnest($2, $3, $4) AS k(resource_id, namespace, name)
             JOIN reports_server.imported i ON i.cluster = $1 AND i.resource_id = k.resource_id
                 AND i.namespace = k.namespace AND i.name = k.name",
            &[(tx.cluster(), Type::INT4), resources, namespaces, names],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let mark = Mark {
                uid: column(row, "uid")?,
                rv: number(row, "rv")?,
            };
            Ok((key(row)?, mark))
        })
        .collect()
}

async fn events(
    tx: &Tx<'_>,
    wanted: &Keys<'_>,
) -> Result<HashMap<ObjectKey, LastEvent>, EngineError> {
    let [resources, namespaces, names] = wanted.parameters();
    let rows = tx
        .query(
            "SELECT e.namespace, e.name, e.rv, e.deleted, e.labels
             FROM unnest($2, $3, $4) AS k(resource_id, namespace, name)
             JOIN reports_server.mirror_events e ON e.cluster = $1
                 AND e.resource_id = k.resource_id AND e.namespace = k.namespace
                 AND e.name = k.name",
            &[(tx.cluster(), Type::INT4), resources, namespaces, names],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let key = key(row)?;
            let last = LastEvent {
                rv: number(row, "rv")?,
                deleted: column(row, "deleted")?,
                labels: labels_of(column(row, "labels")?, &key)?,
            };
            Ok((key, last))
        })
        .collect()
}

async fn save_marks(
    tx: &Tx<'_>,
    id: ResourceId,
    marks: &HashMap<ObjectKey, Option<Mark>>,
) -> Result<(), EngineError> {
    let set: Vec<(&ObjectKey, &Mark)> = marks
        .iter()
        .filter_map(|(k, m)| Some((k, m.as_ref()?)))
        .collect();
    if !set.is_empty() {
        let keys = Keys::of(set.iter().map(|(key, _)| (id, *key)));
        let [resources, namespaces, names] = keys.parameters();
        let uids: Vec<&str> = set.iter().map(|(_, mark)| &*mark.uid).collect();
        let versions: Vec<i64> = set.iter().map(|(_, mark)| db(mark.rv)).collect();
        tx.execute(
            "INSERT INTO reports_server.imported (cluster, resource_id, namespace, name, uid, rv)
             SELECT $1, * FROM unnest($2, $3, $4, $5, $6)
             ON CONFLICT (cluster, resource_id, namespace, name)
                 DO UPDATE SET uid = excluded.uid, rv = excluded.rv",
            &[
                (tx.cluster(), Type::INT4),
                resources,
                namespaces,
                names,
                (&uids, Type::TEXT_ARRAY),
                (&versions, Type::INT8_ARRAY),
            ],
        )
        .await?;
    }
    let gone = marks.iter().filter(|(_, mark)| mark.is_none());
    delete(tx, "imported", &Keys::of(gone.map(|(key, _)| (id, key)))).await
}

async fn save_events(
    tx: &Tx<'_>,
    id: ResourceId,
    events: &HashMap<ObjectKey, LastEvent>,
) -> Result<(), EngineError> {
    if events.is_empty() {
        return Ok(());
    }
    let keys = Keys::of(events.keys().map(|key| (id, key)));
    let [resources, namespaces, names] = keys.parameters();
    let versions: Vec<i64> = events.values().map(|event| db(event.rv)).collect();
    let deleted: Vec<bool> = events.values().map(|event| event.deleted).collect();
    let labels: Vec<String> = events
        .values()
        .map(|event| labels_text(&event.labels))
        .collect();
    tx.execute(
        "INSERT INTO reports_server.mirror_events
             (cluster, resource_id, namespace, name, rv, deleted, labels, imported_at)
         SELECT $1, k.*, $8 FROM unnest($2, $3, $4, $5, $6, $7) AS k
         ON CONFLICT (cluster, resource_id, namespace, name) DO UPDATE SET rv = excluded.rv,
             deleted = excluded.deleted, labels = excluded.labels,
             imported_at = excluded.imported_at",
        &[
            (tx.cluster(), Type::INT4),
            resources,
            namespaces,
            names,
            (&versions, Type::INT8_ARRAY),
            (&deleted, Type::BOOL_ARRAY),
            (&labels, Type::TEXT_ARRAY),
            (&SystemTime::now(), Type::TIMESTAMPTZ),
        ],
    )
    .await?;
    Ok(())
}
