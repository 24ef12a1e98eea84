//! Reads beside the writer.

use std::sync::Arc;

use crds::control::DigestItem;
use sqlx::sqlite::{SqlitePool, SqliteRow};
use sqlx::{Row as _, SqliteConnection};

use super::rows::{change, db, key, limit, object, record, resource_id, text, un_db};
use crate::cache::{Event, Previous, PreviousRef};
use crate::model::{Dictionary, ObjectKey, Position, ResourceId, ResourceRecord, StoredObject};
use crate::store::engine::{DictionaryOf, EngineError, Loaded, Tail, corrupt};

/// Returns records and position, of the same moment.
pub(super) async fn load(pool: &SqlitePool) -> Result<Loaded, EngineError> {
    let mut tx = pool.begin().await?;
    let (seq, counter): (i64, i64) = sqlx::query_as("SELECT seq, counter FROM position")
        .fetch_one(&mut *tx)
        .await?;
    let records = records(&mut tx).await?;
    Ok(Loaded {
        position: Position {
            seq: un_db(seq),
            counter: un_db(counter),
        },
        records,
    })
}

pub(super) async fn records(
    connection: &mut SqliteConnection,
) -> Result<Vec<ResourceRecord>, EngineError> {
    let rows = sqlx::query(
        "SELECT r.*, (SELECT max(c.rv) FROM changes c
                      WHERE c.resource_id = r.id AND c.effect <> 2) AS newest_change
         FROM resources r",
    );
    rows.fetch_all(connection)
        .await?
        .iter()
        .map(record)
        .collect()
}

/// Returns one record.
pub(super) async fn record_of(
    connection: &mut SqliteConnection,
    id: ResourceId,
) -> Result<Option<ResourceRecord>, EngineError> {
    let row = sqlx::query(
        "SELECT r.*, (SELECT max(c.rv) FROM changes c
                      WHERE c.resource_id = r.id AND c.effect <> 2) AS newest_change
         FROM resources r WHERE r.id = ?",
    );
    row.bind(id.0)
        .fetch_optional(connection)
        .await?
        .as_ref()
        .map(record)
        .transpose()
}

/// Returns a page of objects, by namespace, then name.
pub(super) async fn objects(
    pool: &SqlitePool,
    resource: ResourceId,
    after: Option<&ObjectKey>,
    max: usize,
    dictionary: &Arc<Dictionary>,
) -> Result<Vec<StoredObject>, EngineError> {
    let mut rows = sqlx::query(
        "SELECT namespace, name, rv, as_imported, body FROM objects
         WHERE resource_id = ? AND (namespace, name) > (?, ?)
         ORDER BY namespace, name LIMIT ?",
    )
    .bind(resource.0)
    .bind(after.map_or("", ObjectKey::namespace))
    .bind(after.map_or("", ObjectKey::name))
    .bind(limit(max))
    .fetch_all(pool)
    .await?;
    // Compressing is most of a start's work, so two threads share it.
    let back = rows.split_off(rows.len() / 2);
    let read = |rows: Vec<SqliteRow>| {
        let dictionary = Arc::clone(dictionary);
        tokio::task::spawn_blocking(move || stored(&rows, &dictionary))
    };
    let (front, back) = (read(rows), read(back));
    let mut objects = front.await.map_err(|error| corrupt(&"objects", error))??;
    objects.extend(back.await.map_err(|error| corrupt(&"objects", error))??);
    Ok(objects)
}

fn stored(rows: &[SqliteRow], dictionary: &Dictionary) -> Result<Vec<StoredObject>, EngineError> {
    rows.iter()
        .map(|row| {
            let (rv, as_imported) = (un_db(row.try_get("rv")?), row.try_get("as_imported")?);
            let key = key(row)?;
            let body = text(row, "body")?.ok_or_else(|| corrupt(&key, "no text"))?;
            object(key, body, rv, as_imported, dictionary)
        })
        .collect()
}

/// Returns changes behind `seq`.
///
/// The body of a listed state is in `objects`. Where a later change has replaced it there, that
/// one follows in the log, and the listed state need not be seen any more.
pub(super) async fn tail(
    pool: &SqlitePool,
    seq: u64,
    max: usize,
    dictionary_of: DictionaryOf<'_>,
) -> Result<Tail, EngineError> {
    let rows = sqlx::query(
        "SELECT c.seq, c.resource_id, c.rv, c.type, c.effect, c.namespace, c.name, c.as_imported,
                c.prev_rv, c.prev_labels, coalesce(c.body, o.body) AS body
         FROM changes c
         LEFT JOIN objects o ON c.effect = 2 AND o.resource_id = c.resource_id
              AND o.namespace = c.namespace AND o.name = c.name AND o.rv = c.rv
         WHERE c.seq > ? ORDER BY c.seq LIMIT ?",
    )
    .bind(db(seq))
    .bind(limit(max))
    .fetch_all(pool)
    .await?;
    let read = |row: &SqliteRow| {
        let dictionary = dictionary_of(resource_id(row)?);
        change(row, &dictionary)
    };
    let changes = rows
        .iter()
        .filter_map(|row| read(row).transpose())
        .collect::<Result<_, _>>()?;
    let last = rows.last().map(|row| row.try_get("seq")).transpose()?;
    Ok(Tail {
        changes,
        seq: last.map_or(seq, un_db),
        counter: None,
        records: false,
    })
}

/// Returns events of a resource behind `after`, each with the state before it where the log still
/// has it.
pub(super) async fn events(
    pool: &SqlitePool,
    resource: ResourceId,
    after: u64,
    max: usize,
) -> Result<Vec<Arc<Event>>, EngineError> {
    let rows = sqlx::query(
        "SELECT c.*, p.body AS previous_body, p.as_imported AS previous_as_imported
         FROM changes c
         LEFT JOIN changes p ON p.resource_id = c.resource_id AND p.rv = c.prev_rv
              AND p.effect <> 2
         WHERE c.resource_id = ? AND c.rv > ? AND c.effect <> 2
         ORDER BY c.rv LIMIT ?",
    )
    .bind(resource.0)
    .bind(db(after))
    .bind(limit(max))
    .fetch_all(pool)
    .await?;
    let mut events = Vec::with_capacity(rows.len());
    for row in &rows {
        let Some((_, change)) = change(row, Dictionary::built_in())? else {
            continue;
        };
        let previous = match (change.previous, text(row, "previous_body")?) {
            (PreviousRef::None, _) => Previous::None,
            (PreviousRef::Unknown, _) => Previous::Unknown,
            (PreviousRef::At { labels, .. }, None) | (PreviousRef::Labels(labels), _) => {
                Previous::Labels(labels)
            }
            (PreviousRef::At { rv, .. }, Some(body)) => {
                let as_imported = row.try_get("previous_as_imported")?;
                let key = change.object.key.clone();
                let dictionary = Dictionary::built_in();
                Previous::Known(Arc::new(object(key, body, rv, as_imported, dictionary)?))
            }
        };
        events.push(Arc::new(Event::new(
            change.type_,
            change.seq,
            change.object,
            previous,
        )));
    }
    Ok(events)
}

/// Returns a page of imported marks.
pub(super) async fn marks(
    pool: &SqlitePool,
    resource: ResourceId,
    after: Option<(&str, &str)>,
    max: usize,
) -> Result<Vec<DigestItem>, EngineError> {
    let (namespace, name) = after.unwrap_or_default();
    let rows = sqlx::query(
        "SELECT i.namespace, i.name, i.uid, i.rv,
             coalesce(o.as_imported AND o.uid = i.uid, 0) AS as_imported,
             o.uid IS NOT NULL AS stored
         FROM imported i
         LEFT JOIN objects o ON o.resource_id = i.resource_id AND o.namespace = i.namespace
              AND o.name = i.name
         WHERE i.resource_id = ? AND (i.namespace, i.name) > (?, ?)
         ORDER BY i.namespace, i.name LIMIT ?",
    )
    .bind(resource.0)
    .bind(namespace)
    .bind(name)
    .bind(limit(max))
    .fetch_all(pool)
    .await?;
    rows.iter()
        .map(|row| {
            Ok(DigestItem {
                namespace: row.try_get("namespace")?,
                name: row.try_get("name")?,
                uid: row.try_get("uid")?,
                resource_version: un_db(row.try_get("rv")?).to_string(),
                checksum: String::new(),
                as_imported: row.try_get("as_imported")?,
                stored: row.try_get("stored")?,
            })
        })
        .collect()
}
