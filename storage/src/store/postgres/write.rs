//! Changes of an import on their way into the tables.

use std::collections::{HashMap, HashSet};

use tokio_postgres::types::Type;

use super::projection::Projections;
use super::rows::{
    Keys, db, effect_number, existing, key, labels_text, previous_columns, type_number,
};
use super::tx::Tx;
use crate::model::ObjectKey;
use crate::model::frame::Framed;
use crate::store::decide::{Existing, Logged, last_states};
use crate::store::engine::EngineError;

/// Brings objects to a state. Parameters: the cluster, and arrays of resource, namespace, name,
/// uid, version, whether as imported, labels, hash of the frame, leaves, number of frame and
/// report, digest, tally, time of the scan.
pub(super) const PUT: &str = "INSERT INTO reports_server.objects
         (cluster, resource_id, namespace, name, uid, rv, as_imported, labels, frame,
          frame_hash, leaves, report, digest, tally, scanned_at)
     SELECT $1, u.resource_id, u.namespace, u.name, u.uid, u.rv, u.as_imported, u.labels,
         u.seq, u.hash, u.leaves, u.seq, u.digest, u.tally, to_timestamp(u.scanned)
     FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
         AS u(resource_id, namespace, name, uid, rv, as_imported, labels, hash, leaves, seq,
              digest, tally, scanned)
     ON CONFLICT (cluster, resource_id, namespace, name) DO UPDATE SET uid = excluded.uid,
         rv = excluded.rv, as_imported = excluded.as_imported, labels = excluded.labels,
         frame = excluded.frame, frame_hash = excluded.frame_hash, leaves = excluded.leaves,
         digest = excluded.digest, tally = excluded.tally,
         scanned_at = excluded.scanned_at";

/// Returns the stored objects of a resource at `wanted`.
pub(super) async fn existing_objects(
    tx: &Tx<'_>,
    wanted: &Keys<'_>,
) -> Result<HashMap<ObjectKey, Existing>, EngineError> {
    let [resources, namespaces, names] = wanted.parameters();
    let rows = tx
        .query(
            "SELECT o.namespace, o.name, o.uid, o.rv, o.as_imported, o.labels
             FROM unnest($2, $3, $4) AS k(resource_id, namespace, name)
             CROSS JOIN LATERAL (
                 SELECT * FROM reports_server.objects o
                 WHERE o.cluster = $1 AND o.resource_id = k.resource_id
                     AND o.namespace = k.namespace AND o.name = k.name OFFSET 0) o",
            &[(tx.cluster(), Type::INT4), resources, namespaces, names],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let key = key(row)?;
            let existing = existing(row, &key)?;
            Ok((key, existing))
        })
        .collect()
}

/// Logs changes and brings `objects` to the state after them.
pub(super) async fn write(tx: &mut Tx<'_>, logged: Vec<Logged>) -> Result<(), EngineError> {
    let Some(last) = logged.last() else {
        return Ok(());
    };
    let newest = last.change.seq;
    tx.make_room(newest).await?;
    let texts: Vec<Framed> = logged.iter().map(|l| Framed::of(&l.json)).collect();
    store_frames(tx, &logged, &texts).await?;
    log(tx, &logged, &texts).await?;
    tx.bytes += logged.iter().map(Logged::bytes).sum::<i64>();

    let (gone, there) = last_states(&logged);
    project(tx, there.iter().chain(&gone).copied()).await?;
    let first = logged[0].change.seq;
    let kept: HashSet<u64> = there.iter().map(|l| l.change.seq).collect();
    let replaced: Vec<i64> = (first..=newest)
        .filter(|seq| !kept.contains(seq))
        .map(db)
        .collect();
    let touched = there.iter().chain(&gone);
    let keys = Keys::of(touched.map(|l| (l.resource, &l.change.object.key)));
    note_stale(tx, newest, &keys, &replaced).await?;
    put(tx, &there, |l| {
        usize::try_from(l.change.seq - first).map_or(&texts[0], |n| &texts[n])
    })
    .await?;
    remove(tx, &gone).await?;

    tx.changes
        .extend(logged.into_iter().map(|l| (l.resource, l.change)));
    Ok(())
}

/// Stores the texts, each under the seq of its change.
async fn store_frames(tx: &Tx<'_>, logged: &[Logged], texts: &[Framed]) -> Result<(), EngineError> {
    let seqs: Vec<i64> = logged.iter().map(|l| db(l.change.seq)).collect();
    let frames: Vec<&str> = texts.iter().map(|text| &*text.frame).collect();
    tx.execute(
        "INSERT INTO reports_server.frames (cluster, id, text) SELECT $1, * FROM unnest($2, $3)",
        &[
            (tx.cluster(), Type::INT4),
            (&seqs, Type::INT8_ARRAY),
            (&frames, Type::TEXT_ARRAY),
        ],
    )
    .await?;
    Ok(())
}

/// Notes the frames that no object has any more from `seq` on: those of the objects at `keys`, and
/// those that came with changes which later ones have replaced.
async fn note_stale(
    tx: &Tx<'_>,
    seq: u64,
    keys: &Keys<'_>,
    replaced: &[i64],
) -> Result<(), EngineError> {
    let [resources, namespaces, names] = keys.parameters();
    tx.execute(
        "INSERT INTO reports_server.stale_frames (cluster, seq, frame)
         SELECT $1, $2, o.frame FROM unnest($3, $4, $5) AS k(resource_id, namespace, name)
         CROSS JOIN LATERAL (
             SELECT o.frame FROM reports_server.objects o
             WHERE o.cluster = $1 AND o.resource_id = k.resource_id
                 AND o.namespace = k.namespace AND o.name = k.name OFFSET 0) o
         UNION ALL SELECT $1, $2, u.frame FROM unnest($6) AS u(frame)",
        &[
            (tx.cluster(), Type::INT4),
            (&db(seq), Type::INT8),
            resources,
            namespaces,
            names,
            (&replaced, Type::INT8_ARRAY),
        ],
    )
    .await?;
    Ok(())
}

async fn log(tx: &Tx<'_>, logged: &[Logged], texts: &[Framed]) -> Result<(), EngineError> {
    let column = |value: fn(&Logged) -> i64| logged.iter().map(value).collect::<Vec<_>>();
    let previous: Vec<_> = logged
        .iter()
        .map(|l| previous_columns(&l.change.previous))
        .collect();
    let (previous, labels): (Vec<Option<i64>>, Vec<Option<String>>) = previous.into_iter().unzip();
    let types: Vec<i16> = logged.iter().map(|l| type_number(l.change.type_)).collect();
    let effects: Vec<i16> = logged
        .iter()
        .map(|l| effect_number(l.change.effect))
        .collect();
    let as_imported: Vec<bool> = logged.iter().map(|l| l.change.object.as_imported).collect();
    let leaves: Vec<&str> = texts.iter().map(|text| &*text.leaves).collect();
    let keys = Keys::of(logged.iter().map(|l| (l.resource, &l.change.object.key)));
    let [resources, namespaces, names] = keys.parameters();
    tx.execute(
        "INSERT INTO reports_server.changes
             (cluster, seq, resource_id, rv, prev_rv, type, effect, as_imported, namespace, name,
              prev_labels, leaves, frame)
         SELECT $1, u.*, u.seq FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
             AS u(seq, resource_id, rv, prev_rv, type, effect, as_imported, namespace, name,
                  prev_labels, leaves)",
        &[
            (tx.cluster(), Type::INT4),
            (&column(|l| db(l.change.seq)), Type::INT8_ARRAY),
            resources,
            (&column(|l| db(l.change.object.rv)), Type::INT8_ARRAY),
            (&previous, Type::INT8_ARRAY),
            (&types, Type::INT2_ARRAY),
            (&effects, Type::INT2_ARRAY),
            (&as_imported, Type::BOOL_ARRAY),
            namespaces,
            names,
            (&labels, Type::TEXT_ARRAY),
            (&leaves, Type::TEXT_ARRAY),
        ],
    )
    .await?;
    Ok(())
}

/// Updates the projections from the stored objects to the new ones.
async fn project(
    tx: &Tx<'_>,
    objects: impl Iterator<Item = &Logged> + Clone,
) -> Result<(), EngineError> {
    let keys = Keys::of(objects.clone().map(|l| (l.resource, &l.change.object.key)));
    if keys.is_empty() {
        return Ok(());
    }
    let [resources, namespaces, names] = keys.parameters();
    let numbers: Vec<i64> = objects.clone().map(|l| db(l.change.seq)).collect();
    let projections = Projections::of(objects.map(|l| l.projection.as_deref()), None);
    let [digests, tallies, scanned, details, checks] = projections.parameters();
    tx.query(
        "SELECT reports_server.project_objects_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        &[
            (tx.cluster(), Type::INT4),
            resources,
            namespaces,
            names,
            (&numbers, Type::INT8_ARRAY),
            digests,
            tallies,
            scanned,
            details,
            checks,
        ],
    )
    .await?;
    Ok(())
}

async fn put<'a>(
    tx: &Tx<'_>,
    objects: &[&'a Logged],
    text: impl Fn(&Logged) -> &'a Framed,
) -> Result<(), EngineError> {
    if objects.is_empty() {
        return Ok(());
    }
    let keys = Keys::of(objects.iter().map(|l| (l.resource, &l.change.object.key)));
    let [resources, namespaces, names] = keys.parameters();
    let uids: Vec<&str> = objects.iter().map(|l| &*l.change.object.uid).collect();
    let versions: Vec<i64> = objects.iter().map(|l| db(l.change.object.rv)).collect();
    let as_imported: Vec<bool> = objects
        .iter()
        .map(|l| l.change.object.as_imported)
        .collect();
    let labels: Vec<String> = objects
        .iter()
        .map(|l| labels_text(&l.change.object.labels))
        .collect();
    let hashes: Vec<i64> = objects.iter().map(|l| text(l).hash).collect();
    let leaves: Vec<&str> = objects.iter().map(|l| &*text(l).leaves).collect();
    let numbers: Vec<i64> = objects.iter().map(|l| db(l.change.seq)).collect();
    let projections = Projections::of(objects.iter().map(|l| l.projection.as_deref()), None);
    let [digests, tallies, scanned, ..] = projections.parameters();
    tx.execute(
        PUT,
        &[
            (tx.cluster(), Type::INT4),
            resources,
            namespaces,
            names,
            (&uids, Type::TEXT_ARRAY),
            (&versions, Type::INT8_ARRAY),
            (&as_imported, Type::BOOL_ARRAY),
            (&labels, Type::TEXT_ARRAY),
            (&hashes, Type::INT8_ARRAY),
            (&leaves, Type::TEXT_ARRAY),
            (&numbers, Type::INT8_ARRAY),
            digests,
            tallies,
            scanned,
        ],
    )
    .await?;
    Ok(())
}

async fn remove(tx: &Tx<'_>, objects: &[&Logged]) -> Result<(), EngineError> {
    let keys = Keys::of(objects.iter().map(|l| (l.resource, &l.change.object.key)));
    delete(tx, "objects", &keys).await
}

/// Deletes the rows at `keys` from a table whose key they are.
pub(super) async fn delete(
    tx: &Tx<'_>,
    table: &'static str,
    keys: &Keys<'_>,
) -> Result<(), EngineError> {
    if keys.is_empty() {
        return Ok(());
    }
    let [resources, namespaces, names] = keys.parameters();
    tx.execute(
        &format!(
            "DELETE FROM reports_server.{table} t
             USING unnest($2, $3, $4) AS k(resource_id, namespace, name)
             WHERE t.cluster = $1 AND t.resource_id = k.resource_id
                 AND t.namespace = k.namespace AND t.name = k.name"
        ),
        &[(tx.cluster(), Type::INT4), resources, namespaces, names],
    )
    .await?;
    Ok(())
}
