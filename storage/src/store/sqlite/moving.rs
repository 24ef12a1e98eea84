//! The reads of a move to another database, as of one moment, and the mark by which it ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crds::control::DatabaseMove;
use futures::TryStreamExt as _;
use futures::stream::BoxStream;
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite as Driver, Transaction};

use super::Sqlite;
use super::read::records;
use super::rows::{db, keys, limit, millis, text, un_db};
use crate::model::{ObjectKey, Position, ResourceId, ResourceRecord};
use crate::store::OpenError;
use crate::store::engine::{Engine as _, EngineError, corrupt};
use crate::store::moving::rows::{
    ChangeRow, CommitRow, Departure, EventRow, LastCommit, LogRows, MarkRow, Marker, ObjectRow,
    RowKey,
};
use crate::store::moving::source::{
    Hold, MarkError, MemorySums, Order, PAGE_BYTES, Source, SourceSnapshot, Sums, Turn,
};
use crate::store::postgres::Postgres;

/// Keys that are looked at before the bytes of a page are counted.
const KEYS: usize = 10;

/// The database as it is at one moment, however long it is looked at. The write-ahead log grows
/// meanwhile.
pub(super) struct Snapshot(pub(super) Transaction<'static, Driver>);

/// A database that is moved by the one server that has it open.
pub(crate) struct Leaving(pub Arc<Sqlite>);

#[async_trait::async_trait]
impl Source for Leaving {
    async fn turn(&self, order: Order<'_>) -> Result<Turn, EngineError> {
        let noted = self.0.note_attempt(order.identity, order.name);
        Ok(Turn::Own(noted.await?))
    }

    fn pass(&self, _: i64) {}

    async fn give_up(&self, order: Order<'_>) -> Result<Turn, EngineError> {
        if self.0.marker().await?.is_none() {
            return Ok(Turn::GivenUp);
        }
        self.turn(order).await
    }

    async fn cleaned(&self, _: i64) -> Result<(), EngineError> {
        Ok(())
    }

    async fn renew(&self, _: i64, _: u64, _: &DatabaseMove) -> Result<bool, EngineError> {
        Ok(true)
    }

    async fn attend(&self, _: &str) -> Result<(), EngineError> {
        Ok(())
    }

    async fn unaware(&self, _: &str) -> Result<i64, EngineError> {
        Ok(0)
    }

    async fn leave(&self) {}

    async fn departure(&self) -> Result<Option<Departure>, EngineError> {
        Ok(None)
    }

    async fn arrived(&self, _: &Departure) -> Result<(), EngineError> {
        Ok(())
    }

    async fn take_back(&self, departure: &Departure, revision: u64) -> Result<bool, EngineError> {
        self.0.take_back(departure.marker.attempt, revision).await
    }

    fn hand_on(&self, _: &Postgres) {}

    async fn copied(&self) -> Result<Option<u64>, EngineError> {
        Ok(None)
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn snapshot(&self) -> Result<Box<dyn SourceSnapshot>, EngineError> {
        Ok(Box::new(Snapshot(self.0.readers.begin().await?)))
    }

    async fn hold(&self, attempt: i64, _: Duration) -> Result<Box<dyn Hold>, EngineError> {
        let sqlite = Arc::clone(&self.0);
        Ok(Box::new(Held { sqlite, attempt }))
    }
}

/// A database to which nobody writes, as its committer waits.
struct Held {
    sqlite: Arc<Sqlite>,
    attempt: i64,
}

#[async_trait::async_trait]
impl Hold for Held {
    async fn last(&mut self) -> Result<LastCommit, EngineError> {
        self.sqlite.last_commit().await
    }

    async fn mark(
        self: Box<Self>,
        last: LastCommit,
        number: i64,
        ids: &HashMap<ResourceId, i64>,
    ) -> Result<Departure, MarkError> {
        let set = self.sqlite.mark_moved(self.attempt, last.seq, number);
        let marker = set.await.map_err(MarkError::Lost)?;
        Ok(Departure {
            marker,
            last,
            ids: ids.clone(),
        })
    }
}

impl Sqlite {
    /// Returns the database, unless it was moved: its content does not count then.
    pub async fn not_moved(self) -> Result<Self, OpenError> {
        match self.marker().await? {
            Some(marker) if marker.moved_at.is_some() => {
                self.close().await;
                Err(OpenError::Moved(marker.identity))
            }
            _ => Ok(self),
        }
    }

    /// Returns whether the database is moved, or to be.
    pub async fn marker(&self) -> Result<Option<Marker>, EngineError> {
        let row = sqlx::query("SELECT source, attempt, identity, name, seq FROM moves")
            .fetch_optional(&self.readers)
            .await?;
        row.as_ref().map(marker).transpose()
    }

    /// Returns where the reports have moved, if they have.
    pub async fn departure(&self) -> Result<Option<Departure>, EngineError> {
        let marker = self.marker().await?;
        let Some(marker) = marker.filter(|marker| marker.moved_at.is_some()) else {
            return Ok(None);
        };
        Ok(Some(Departure {
            marker,
            last: self.last_commit().await?,
            // A process that starts knows no numbers yet.
            ids: HashMap::new(),
        }))
    }

    async fn last_commit(&self) -> Result<LastCommit, EngineError> {
        let (seq, counter) = sqlx::query_as("SELECT seq, counter FROM position")
            .fetch_one(&self.readers)
            .await?;
        Ok(LastCommit {
            seq: un_db(seq),
            batch: None,
            counter: un_db(counter),
        })
    }

    /// Notes a new attempt to move, before any trace of it is seen elsewhere. The name of this
    /// database stays the same for all attempts.
    async fn note_attempt(&self, identity: &str, name: &str) -> Result<Marker, EngineError> {
        // There is room for the numbers behind it.
        let attempt = rand::random_range(1..=i64::MAX / 2);
        let mut tx = self.writer.begin().await?;
        sqlx::query(
            "INSERT INTO moves (id, source, attempt, identity, name) VALUES (1, ?, ?, ?, ?)
             ON CONFLICT (id) DO UPDATE SET attempt = excluded.attempt,
                 identity = excluded.identity, name = excluded.name WHERE seq IS NULL",
        )
        .bind(uuid::Uuid::new_v4().to_string())
        .bind(attempt)
        .bind(identity)
        .bind(name)
        .execute(&mut *tx)
        .await?;
        let row = sqlx::query("SELECT source, attempt, identity, name, seq FROM moves")
            .fetch_one(&mut *tx)
            .await?;
        let marker = marker(&row)?;
        tx.commit(()).await?;
        Ok(marker)
    }

    /// Marks the database as moved at `seq`, durably: a server that opens it from now on goes on in
    /// the other one.
    async fn mark_moved(&self, attempt: i64, seq: u64, number: i64) -> Result<Marker, EngineError> {
        let mut tx = self.writer.begin().await?;
        let row = sqlx::query(
            "UPDATE moves SET seq = ?, moved_at = ?, attempt = ? WHERE attempt = ?
             RETURNING source, attempt, identity, name, seq",
        )
        .bind(db(seq))
        .bind(millis(Timestamp::now()))
        .bind(number)
        .bind(attempt)
        .fetch_one(&mut *tx)
        .await?;
        let marker = marker(&row)?;
        tx.commit(()).await?;
        Ok(marker)
    }
}

fn marker(row: &SqliteRow) -> Result<Marker, EngineError> {
    let seq: Option<i64> = row.try_get("seq")?;
    Ok(Marker {
        source: row.try_get("source")?,
        attempt: row.try_get("attempt")?,
        // Nobody else has the file, and a copy of it from before may be put in its place.
        is_ordered: false,
        identity: row.try_get("identity")?,
        name: row.try_get("name")?,
        moved_at: seq.map(un_db),
    })
}

impl Snapshot {
    async fn all_at(&mut self, wanted: &[RowKey]) -> Result<Vec<ObjectRow>, EngineError> {
        let rows = sqlx::query(
            "SELECT o.resource_id, o.namespace, o.name, o.uid, o.rv, o.as_imported, o.labels,
                 o.body
             FROM json_each(?) k CROSS JOIN objects o
             WHERE o.resource_id = k.value ->> 0 AND o.namespace = k.value ->> 1
               AND o.name = k.value ->> 2",
        )
        .bind(keys(wanted.iter().map(|(id, key)| (*id, key))))
        .fetch_all(&mut *self.0)
        .await?;
        rows.iter().map(object).collect()
    }
}

#[async_trait::async_trait]
impl SourceSnapshot for Snapshot {
    async fn position(&mut self) -> Result<Position, EngineError> {
        let (seq, counter) = sqlx::query_as("SELECT seq, counter FROM position")
            .fetch_one(&mut *self.0)
            .await?;
        Ok(Position {
            seq: un_db(seq),
            counter: un_db(counter),
        })
    }

    async fn compacted(&mut self) -> Result<u64, EngineError> {
        let oldest: Option<i64> = sqlx::query_scalar("SELECT min(seq) FROM changes")
            .fetch_one(&mut *self.0)
            .await?;
        match oldest {
            Some(oldest) => Ok(un_db(oldest).saturating_sub(1)),
            None => Ok(self.position().await?.seq),
        }
    }

    async fn base(&mut self) -> Result<Option<CommitRow>, EngineError> {
        Ok(None)
    }

    async fn has(&mut self, _: u64, _: i64) -> Result<bool, EngineError> {
        Ok(true)
    }

    async fn records(&mut self) -> Result<Vec<ResourceRecord>, EngineError> {
        records(&mut self.0).await
    }

    async fn count(&mut self) -> Result<u64, EngineError> {
        let count: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM objects WHERE resource_id IN (SELECT id FROM resources)",
        )
        .fetch_one(&mut *self.0)
        .await?;
        Ok(un_db(count))
    }

    async fn objects(
        &mut self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
    ) -> Result<Vec<ObjectRow>, EngineError> {
        let rows = sqlx::query(
            "SELECT resource_id, namespace, name, uid, rv, as_imported, labels, body FROM objects
             WHERE resource_id = ? AND (namespace, name) > (?, ?)
             ORDER BY namespace, name LIMIT ?",
        )
        .bind(resource.0)
        .bind(after.map_or("", ObjectKey::namespace))
        .bind(after.map_or("", ObjectKey::name))
        .bind(limit(max))
        .fetch(&mut *self.0);
        page(rows, object, |row: &ObjectRow| row.body.len()).await
    }

    async fn objects_at(
        &mut self,
        wanted: &[RowKey],
        max: usize,
    ) -> Result<(Vec<ObjectRow>, usize), EngineError> {
        let (mut rows, mut looked, mut bytes) = (Vec::new(), 0, 0);
        for some in wanted.chunks(KEYS) {
            if looked >= max || bytes >= PAGE_BYTES {
                break;
            }
            let found = self.all_at(some).await?;
            bytes += found.iter().map(|row| row.body.len()).sum::<usize>();
            looked += some.len();
            rows.extend(found);
        }
        Ok((rows, looked))
    }

    async fn log(&mut self, seq: u64, max: usize) -> Result<LogRows, EngineError> {
        let rows = sqlx::query("SELECT * FROM changes WHERE seq > ? ORDER BY seq LIMIT ?")
            .bind(db(seq))
            .bind(limit(max))
            .fetch(&mut *self.0);
        let bytes = |row: &ChangeRow| row.body.as_ref().map_or(0, String::len);
        Ok(LogRows {
            changes: page(rows, change, bytes).await?,
            commits: Vec::new(),
        })
    }

    async fn log_sums(&mut self, seq: u64) -> Result<(i64, i64), EngineError> {
        let sums =
            sqlx::query_as("SELECT count(*), coalesce(sum(rv), 0) FROM changes WHERE seq > ?")
                .bind(db(seq))
                .fetch_one(&mut *self.0)
                .await?;
        Ok(sums)
    }

    async fn marks(
        &mut self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
    ) -> Result<Vec<MarkRow>, EngineError> {
        let rows = sqlx::query(
            "SELECT resource_id, namespace, name, uid, rv FROM imported
             WHERE resource_id = ? AND (namespace, name) > (?, ?)
             ORDER BY namespace, name LIMIT ?",
        )
        .bind(resource.0)
        .bind(after.map_or("", ObjectKey::namespace))
        .bind(after.map_or("", ObjectKey::name))
        .bind(limit(max))
        .fetch_all(&mut *self.0)
        .await?;
        rows.iter().map(mark_row).collect()
    }

    async fn marks_at(&mut self, wanted: &[RowKey]) -> Result<Vec<MarkRow>, EngineError> {
        let rows = sqlx::query(
            "SELECT i.resource_id, i.namespace, i.name, i.uid, i.rv
             FROM json_each(?) k CROSS JOIN imported i
             WHERE i.resource_id = k.value ->> 0 AND i.namespace = k.value ->> 1
               AND i.name = k.value ->> 2",
        )
        .bind(keys(wanted.iter().map(|(id, key)| (*id, key))))
        .fetch_all(&mut *self.0)
        .await?;
        rows.iter().map(mark_row).collect()
    }

    async fn sums(&mut self, resource: ResourceId) -> Result<Sums, EngineError> {
        let (objects, versions, marks) = sqlx::query_as(
            "SELECT count(*), coalesce(sum(rv), 0),
                 (SELECT count(*) FROM imported WHERE resource_id = ?1)
             FROM objects WHERE resource_id = ?1",
        )
        .bind(resource.0)
        .fetch_one(&mut *self.0)
        .await?;
        Ok(Sums {
            objects,
            versions,
            marks,
        })
    }

    async fn memory_sums(&mut self, _: ResourceId) -> Result<Option<MemorySums>, EngineError> {
        // Who writes them notes it.
        Ok(None)
    }

    async fn events(
        &mut self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
    ) -> Result<Vec<EventRow>, EngineError> {
        let rows = sqlx::query(
            "SELECT * FROM mirror_events WHERE resource_id = ? AND (namespace, name) > (?, ?)
             ORDER BY namespace, name LIMIT ?",
        )
        .bind(resource.0)
        .bind(after.map_or("", ObjectKey::namespace))
        .bind(after.map_or("", ObjectKey::name))
        .bind(limit(max))
        .fetch_all(&mut *self.0)
        .await?;
        rows.iter().map(event_row).collect()
    }

    async fn events_at(&mut self, wanted: &[RowKey]) -> Result<Vec<EventRow>, EngineError> {
        let rows = sqlx::query(
            "SELECT e.* FROM json_each(?) k CROSS JOIN mirror_events e
             WHERE e.resource_id = k.value ->> 0 AND e.namespace = k.value ->> 1
               AND e.name = k.value ->> 2",
        )
        .bind(keys(wanted.iter().map(|(id, key)| (*id, key))))
        .fetch_all(&mut *self.0)
        .await?;
        rows.iter().map(event_row).collect()
    }

    async fn definitions(&mut self) -> Result<Vec<(String, String)>, EngineError> {
        let query = sqlx::query_as("SELECT api_group, body FROM definitions ORDER BY api_group");
        Ok(query.fetch_all(&mut *self.0).await?)
    }
}

/// Returns the first rows, up to the one with which the page has [`PAGE_BYTES`].
async fn page<T>(
    mut rows: BoxStream<'_, Result<SqliteRow, sqlx::Error>>,
    read: fn(&SqliteRow) -> Result<T, EngineError>,
    bytes_of: fn(&T) -> usize,
) -> Result<Vec<T>, EngineError> {
    let (mut page, mut bytes) = (Vec::new(), 0);
    while bytes < PAGE_BYTES
        && let Some(row) = rows.try_next().await?
    {
        let row = read(&row)?;
        bytes += bytes_of(&row);
        page.push(row);
    }
    Ok(page)
}

fn key(row: &SqliteRow) -> Result<RowKey, EngineError> {
    let key = ObjectKey::new(row.try_get("namespace")?, row.try_get("name")?);
    Ok((ResourceId(row.try_get("resource_id")?), key))
}

fn object(row: &SqliteRow) -> Result<ObjectRow, EngineError> {
    let key = key(row)?;
    let body = text(row, "body")?.ok_or_else(|| corrupt(&key.1, "no text"))?;
    Ok(ObjectRow {
        key,
        uid: row.try_get("uid")?,
        rv: row.try_get("rv")?,
        as_imported: row.try_get("as_imported")?,
        labels: row.try_get("labels")?,
        body,
        first_seen: None,
    })
}

fn change(row: &SqliteRow) -> Result<ChangeRow, EngineError> {
    let type_: String = row.try_get("type")?;
    Ok(ChangeRow {
        seq: row.try_get("seq")?,
        key: key(row)?,
        rv: row.try_get("rv")?,
        prev_rv: row.try_get("prev_rv")?,
        type_: match type_.as_str() {
            "ADDED" => 0,
            "MODIFIED" => 1,
            _ => 2,
        },
        effect: row.try_get("effect")?,
        as_imported: row.try_get("as_imported")?,
        prev_labels: row.try_get("prev_labels")?,
        committed_at: row.try_get("committed_at")?,
        body: text(row, "body")?,
    })
}

fn mark_row(row: &SqliteRow) -> Result<MarkRow, EngineError> {
    Ok(MarkRow {
        key: key(row)?,
        uid: row.try_get("uid")?,
        rv: row.try_get("rv")?,
    })
}

fn event_row(row: &SqliteRow) -> Result<EventRow, EngineError> {
    Ok(EventRow {
        key: key(row)?,
        rv: row.try_get("rv")?,
        deleted: row.try_get("deleted")?,
        labels: row.try_get("labels")?,
        imported_at: row.try_get("imported_at")?,
    })
}
