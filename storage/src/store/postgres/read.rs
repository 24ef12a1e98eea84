//! Reads beside the writer.

use std::sync::Arc;

use crds::control::DigestItem;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::resources::RECORD;
use super::rows::{
    change, column, db, effect_number, key, limit, number, object, record, resource_id,
    stored_object, text,
};
use super::{Postgres, lineage};
use crate::cache::{Change, Effect, Event, LogPage, Previous, PreviousRef};
use crate::model::{Dictionary, ObjectKey, Position, ResourceId, StoredObject};
use crate::store::engine::{DictionaryOf, EngineError, Loaded, Tail, corrupt};

/// Bytes of bodies that are read at a time to catch up, beyond the first commit.
const TAIL_BYTES: i64 = 8 << 20;

/// Returns records and position, of the same moment.
pub(super) async fn load(engine: &Postgres) -> Result<Loaded, EngineError> {
    let reader = engine.readers.get().await?;
    let known = engine.lineage.newest();
    let rows = reader
        .page_query(
            &format!(
                "SELECT k.seq, k.counter, k.batch, {RECORD},
                     EXISTS (SELECT FROM reports_server.commits l
                             WHERE l.cluster = $1 AND l.seq = $2 AND l.batch = $3) AS known
                 FROM (SELECT seq, counter, batch FROM reports_server.commits
                       WHERE cluster = $1 ORDER BY seq DESC LIMIT 1) k
                 LEFT JOIN reports_server.resources r ON r.cluster = $1"
            ),
            &[
                (&engine.cluster, Type::INT4),
                (&known.seq, Type::INT8),
                (&known.batch, Type::INT8),
            ],
        )
        .await?;
    reader.keep();
    let head = rows.first().ok_or(EngineError::Parted)?;
    // What the cache holds is of another history, and must not be carried on in this one.
    if !column::<bool>(head, "known")? {
        return Err(EngineError::Parted);
    }
    let newest = lineage::Commit {
        seq: column(head, "seq")?,
        batch: column(head, "batch")?,
    };
    let position = Position {
        seq: number(head, "seq")?,
        counter: number(head, "counter")?,
    };
    let mut records = Vec::with_capacity(rows.len());
    for row in &rows {
        if column::<Option<i64>>(row, "id")?.is_some() {
            records.push(record(row)?);
        }
    }
    engine.lineage.advance(newest);
    Ok(Loaded { position, records })
}

/// Returns a page of objects, by namespace, then name.
pub(super) async fn objects(
    engine: &Postgres,
    resource: ResourceId,
    after: Option<&ObjectKey>,
    max: usize,
    dictionary: &Arc<Dictionary>,
) -> Result<Vec<StoredObject>, EngineError> {
    let reader = engine.readers.get().await?;
    let mut rows = reader
        .long_query(
            "SELECT o.namespace, o.name, o.rv, o.as_imported, o.leaves, f.text AS frame
             FROM (SELECT * FROM reports_server.objects
                   WHERE cluster = $1 AND resource_id = $2 AND (namespace, name) > ($3, $4)
                   ORDER BY namespace, name LIMIT $5) o
             CROSS JOIN LATERAL (SELECT text FROM reports_server.frames
                                 WHERE cluster = $1 AND id = o.frame OFFSET 0) f
             ORDER BY o.namespace, o.name",
            &[
                (&engine.cluster, Type::INT4),
                (&resource.0, Type::INT8),
                (&after.map_or("", ObjectKey::namespace), Type::TEXT),
                (&after.map_or("", ObjectKey::name), Type::TEXT),
                (&limit(max), Type::INT8),
            ],
        )
        .await?;
    reader.keep();
    // Compressing is most of a start's work, so two threads share it.
    let back = rows.split_off(rows.len() / 2);
    let read = |rows: Vec<Row>| {
        let dictionary = Arc::clone(dictionary);
        tokio::task::spawn_blocking(move || stored(&rows, &dictionary))
    };
    let (front, back) = (read(rows), read(back));
    let mut objects = front.await.map_err(|error| corrupt(&"objects", error))??;
    objects.extend(back.await.map_err(|error| corrupt(&"objects", error))??);
    Ok(objects)
}

fn stored(rows: &[Row], dictionary: &Dictionary) -> Result<Vec<StoredObject>, EngineError> {
    rows.iter()
        .map(|row| {
            let (rv, as_imported) = (number(row, "rv")?, column(row, "as_imported")?);
            object(row, key(row)?, rv, as_imported, dictionary)
        })
        .collect()
}

/// Returns the newest committed seq.
pub(super) async fn newest_seq(engine: &Postgres) -> Result<u64, EngineError> {
    let reader = engine.follower.get().await?;
    // Before the database is asked: a commit of our own may be answered while it is.
    let known = engine.lineage.newest();
    let rows = reader
        .query(
            "SELECT seq, batch FROM reports_server.commits
             WHERE cluster = $1 ORDER BY seq DESC LIMIT 1",
            &[(&engine.cluster, Type::INT4)],
        )
        .await?;
    reader.keep();
    let row = rows.first().ok_or(EngineError::Parted)?;
    let seq: i64 = column(row, "seq")?;
    if seq < known.seq || (seq == known.seq && column::<i64>(row, "batch")? != known.batch) {
        return Err(EngineError::Parted);
    }
    number(row, "seq")
}

/// Returns whole commits behind `seq`, with at most `max` changes beyond the first commit.
///
pub(super) async fn tail(
    engine: &Postgres,
    seq: u64,
    max: usize,
    dictionary_of: DictionaryOf<'_>,
) -> Result<Tail, EngineError> {
    let reader = engine.follower.get().await?;
    let known = engine.lineage.newest();
    let rows = reader
        .query(
            "SELECT c.compacted, k.seq, k.counter, k.batch, k.changes, k.records, k.bytes,
                 EXISTS (SELECT FROM reports_server.commits l
                         WHERE l.cluster = $1 AND l.seq = $4 AND l.batch = $5) AS known
             FROM reports_server.clusters c LEFT JOIN LATERAL (
                 SELECT * FROM reports_server.commits k
                 WHERE k.cluster = $1 AND k.seq > $2 ORDER BY k.seq LIMIT $3) k ON true
             WHERE c.cluster = $1 ORDER BY k.seq",
            &[
                (&engine.cluster, Type::INT4),
                (&db(seq), Type::INT8),
                (&limit(max.max(1)), Type::INT8),
                (&known.seq, Type::INT8),
                (&known.batch, Type::INT8),
            ],
        )
        .await?;
    let head = rows.first().ok_or(EngineError::Parted)?;
    if !column::<bool>(head, "known")? || seq < number(head, "compacted")? {
        return Err(EngineError::Parted);
    }
    let Some(page) = Page::of(&rows, max)? else {
        reader.keep();
        return Ok(Tail {
            changes: Vec::new(),
            seq,
            counter: None,
            records: false,
        });
    };
    let changes = if page.changes == 0 {
        Vec::new()
    } else {
        reader
            .page_query(
                "SELECT c.seq, c.resource_id, c.rv, c.type, c.effect, c.namespace, c.name,
                     c.as_imported, c.prev_rv, c.prev_labels, c.leaves, f.text AS frame
                 FROM reports_server.changes c
                 LEFT JOIN LATERAL (SELECT text FROM reports_server.frames
                                    WHERE cluster = $1 AND id = c.frame OFFSET 0) f ON true
                 WHERE c.cluster = $1 AND c.seq > $2 AND c.seq <= $3 ORDER BY c.seq",
                &[
                    (&engine.cluster, Type::INT4),
                    (&db(seq), Type::INT8),
                    (&page.last.seq, Type::INT8),
                ],
            )
            .await?
    };
    reader.keep();
    if changes.len() != page.changes {
        // They were dropped between the two statements.
        return Err(EngineError::Parted);
    }
    engine.lineage.advance(page.last);
    Ok(Tail {
        changes: read_changes(&changes, dictionary_of)?,
        seq: page.last.seq.cast_unsigned(),
        counter: Some(page.counter),
        records: page.records,
    })
}

/// Returns the changes in some rows. A listed state that has no frame was replaced by a later
/// change; the frame of any other is there as long as somebody may want it.
fn read_changes(
    rows: &[Row],
    dictionary_of: DictionaryOf<'_>,
) -> Result<Vec<(ResourceId, Change)>, EngineError> {
    let mut changes = Vec::with_capacity(rows.len());
    for row in rows {
        let dictionary = dictionary_of(resource_id(row)?);
        match change(row, &dictionary)? {
            Some(change) => changes.push(change),
            None if column::<i16>(row, "effect")? == effect_number(Effect::State) => {}
            None => return Err(EngineError::Parted),
        }
    }
    Ok(changes)
}

/// Commits that are read together.
struct Page {
    last: lineage::Commit,
    counter: u64,
    changes: usize,
    records: bool,
}

impl Page {
    fn of(rows: &[Row], max: usize) -> Result<Option<Self>, EngineError> {
        let mut page: Option<Self> = None;
        let mut first_bytes = 0;
        for row in rows {
            let Some(seq) = column::<Option<i64>>(row, "seq")? else {
                break;
            };
            let bytes: i64 = column(row, "bytes")?;
            let changes = usize::try_from(column::<i32>(row, "changes")?).unwrap_or(0);
            let last = lineage::Commit {
                seq,
                batch: column(row, "batch")?,
            };
            let counter = number(row, "counter")?;
            let records: bool = column(row, "records")?;
            match &mut page {
                None => {
                    first_bytes = bytes;
                    page = Some(Self {
                        last,
                        counter,
                        changes,
                        records,
                    });
                }
                Some(page) if page.changes + changes > max || bytes - first_bytes > TAIL_BYTES => {
                    break;
                }
                Some(page) => {
                    *page = Self {
                        last,
                        counter,
                        changes: page.changes + changes,
                        records: page.records || records,
                    }
                }
            }
        }
        Ok(page)
    }
}

/// Returns events of a resource behind `after`, each with the state before it where the log still
/// has it; and the horizon of the same moment.
pub(super) async fn events(
    engine: &Postgres,
    resource: ResourceId,
    after: u64,
    max: usize,
) -> Result<LogPage, EngineError> {
    let reader = engine.readers.get().await?;
    let rows = reader
        .long_query(
            "SELECT coalesce(r.horizon, 0) AS horizon, c.seq, c.resource_id, c.rv, c.type,
                 c.effect, c.namespace, c.name, c.as_imported, c.prev_rv, c.prev_labels, c.leaves,
                 f.text AS frame, p.leaves AS previous_leaves, q.text AS previous_frame,
                 p.as_imported AS previous_as_imported
             FROM reports_server.resources r
             JOIN reports_server.clusters l ON l.cluster = $1
             LEFT JOIN LATERAL (
                 SELECT * FROM reports_server.changes c
                 WHERE c.cluster = $1 AND c.resource_id = $2 AND c.rv > $3 AND c.effect <> 2
                 ORDER BY c.rv LIMIT $4) c ON true
             LEFT JOIN LATERAL (
                 SELECT * FROM reports_server.changes p
                 WHERE p.cluster = $1 AND p.resource_id = $2 AND p.rv = c.prev_rv
                     AND p.effect <> 2 AND p.seq > l.compacted LIMIT 1) p ON true
             LEFT JOIN LATERAL (SELECT text FROM reports_server.frames
                                WHERE cluster = $1 AND id = c.frame OFFSET 0) f ON true
             LEFT JOIN LATERAL (SELECT text FROM reports_server.frames
                                WHERE cluster = $1 AND id = p.frame OFFSET 0) q ON true
             WHERE r.cluster = $1 AND r.id = $2 ORDER BY c.rv",
            &[
                (&engine.cluster, Type::INT4),
                (&resource.0, Type::INT8),
                (&db(after), Type::INT8),
                (&limit(max), Type::INT8),
            ],
        )
        .await?;
    reader.keep();
    // Another server has reset the resource; this one learns of it soon.
    let head = rows
        .first()
        .ok_or_else(|| corrupt(&format!("resource {}", resource.0), "was reset"))?;
    let horizon = number(head, "horizon")?;
    let mut events = Vec::with_capacity(rows.len());
    for row in &rows {
        if column::<Option<i64>>(row, "seq")?.is_none() {
            continue;
        }
        if let Some(event) = event(row)? {
            events.push(Arc::new(event));
        }
    }
    Ok(LogPage { events, horizon })
}

fn event(row: &Row) -> Result<Option<Event>, EngineError> {
    let Some((_, change)) = change(row, Dictionary::built_in())? else {
        return Ok(None);
    };
    let previous = match (
        change.previous,
        column::<Option<&str>>(row, "previous_frame")?,
    ) {
        (PreviousRef::None, _) => Previous::None,
        (PreviousRef::Unknown, _) => Previous::Unknown,
        (PreviousRef::At { labels, .. }, None) | (PreviousRef::Labels(labels), _) => {
            Previous::Labels(labels)
        }
        (PreviousRef::At { rv, .. }, Some(frame)) => {
            let as_imported = column(row, "previous_as_imported")?;
            let key = change.object.key.clone();
            let body = text(&key, frame, column(row, "previous_leaves")?)?;
            let object = stored_object(key, body, rv, as_imported, Dictionary::built_in())?;
            Previous::Known(Arc::new(object))
        }
    };
    Ok(Some(Event::new(
        change.type_,
        change.seq,
        change.object,
        previous,
    )))
}

/// Returns a page of imported marks.
pub(super) async fn marks(
    engine: &Postgres,
    resource: ResourceId,
    after: Option<(&str, &str)>,
    max: usize,
) -> Result<Vec<DigestItem>, EngineError> {
    let (namespace, name) = after.unwrap_or_default();
    let reader = engine.readers.get().await?;
    let rows = reader
        .long_query(
            "SELECT i.namespace, i.name, i.uid, i.rv,
                 coalesce(o.as_imported AND o.uid = i.uid, false) AS as_imported,
                 o.uid IS NOT NULL AS stored
             FROM reports_server.imported i
             LEFT JOIN reports_server.objects o ON o.cluster = i.cluster
                  AND o.resource_id = i.resource_id AND o.namespace = i.namespace
                  AND o.name = i.name
             WHERE i.cluster = $1 AND i.resource_id = $2 AND (i.namespace, i.name) > ($3, $4)
             ORDER BY i.namespace, i.name LIMIT $5",
            &[
                (&engine.cluster, Type::INT4),
                (&resource.0, Type::INT8),
                (&namespace, Type::TEXT),
                (&name, Type::TEXT),
                (&limit(max), Type::INT8),
            ],
        )
        .await?;
    reader.keep();
    rows.iter()
        .map(|row| {
            Ok(DigestItem {
                namespace: column(row, "namespace")?,
                name: column(row, "name")?,
                uid: column(row, "uid")?,
                resource_version: number(row, "rv")?.to_string(),
                checksum: String::new(),
                as_imported: column(row, "as_imported")?,
                stored: column(row, "stored")?,
            })
        })
        .collect()
}

/// Returns the definitions of all API groups.
pub(super) async fn definitions(engine: &Postgres) -> Result<Vec<(String, String)>, EngineError> {
    let reader = engine.readers.get().await?;
    let rows = reader
        .long_query(
            "SELECT api_group, body FROM reports_server.definitions
             WHERE cluster = $1 ORDER BY api_group",
            &[(&engine.cluster, Type::INT4)],
        )
        .await?;
    reader.keep();
    rows.iter()
        .map(|row| Ok((column(row, "api_group")?, column(row, "body")?)))
        .collect()
}
