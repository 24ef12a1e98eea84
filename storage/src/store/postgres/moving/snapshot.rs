//! The reads of a move from here to another PostgreSQL, as of one moment.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::Postgres;
use super::super::connection::{LONG_STATEMENT, Parameter, PgConnection};
use super::super::resources::RECORD;
use super::super::rows::{
    Keys, column, db, key, limit, number, previous_labels_text, record, resource_id, text,
};
use super::sums::{MEMORY_SUMS, SUMS, memory_sums, sums};
use crate::model::{ObjectKey, Position, ResourceId, ResourceRecord};
use crate::store::engine::{EngineError, corrupt};
use crate::store::moving::rows::{
    ChangeRow, CommitRow, EventRow, LogRows, MarkRow, ObjectRow, RowKey,
};
use crate::store::moving::source::{MemorySums, PAGE_BYTES, SourceSnapshot, Sums};

/// Begins a snapshot, after the one that the connection had before.
const BEGIN: &str = "ROLLBACK;
    BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SET LOCAL idle_in_transaction_session_timeout = '60s'";

/// The columns of an object `o` with the `text` of its frame; and the findings in it, each with the
/// time when it was first seen.
const OBJECT: &str = "o.resource_id, o.namespace, o.name, o.uid, o.rv, o.as_imported, o.labels,
     o.leaves, o.text AS frame, (
     SELECT json_agg(json_build_array(d.finding, d.first_seen))::text
     FROM reports_server.findings d WHERE d.cluster = $1 AND d.report = o.report) AS first_seen";

/// The bytes of the texts of objects `o`, with frames `f`, before one.
const BEFORE: &str =
    "coalesce(sum(octet_length(o.leaves) + octet_length(f.text)) OVER earlier, 0) AS before";
/// The objects before one.
const EARLIER: &str = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING";

/// The connection of the last snapshot, for the next one.
pub(super) type Parked = Arc<Mutex<Option<PgConnection>>>;

/// The database as it is at one moment.
pub(super) struct Snapshot {
    /// Always there, until this is dropped.
    connection: Option<PgConnection>,
    /// False from the beginning of a statement until its end: a connection that fails is not used
    /// again.
    sound: bool,
    parked: Parked,
    cluster: i32,
}

impl Snapshot {
    /// Takes a snapshot; it shows the database of the moment when it is first read from.
    pub async fn begin(engine: &Postgres, parked: &Parked) -> Result<Self, EngineError> {
        let last = parked.lock().unwrap_or_else(PoisonError::into_inner).take();
        let connection = match last {
            Some(connection) if engine.connector.is_current(&connection) => connection,
            _ => engine.connector.connect().await?,
        };
        connection.batch(BEGIN, LONG_STATEMENT).await?;
        Ok(Self {
            connection: Some(connection),
            sound: true,
            parked: Arc::clone(parked),
            cluster: engine.cluster,
        })
    }

    async fn rows(
        &mut self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, EngineError> {
        let connection = self.connection.as_ref().ok_or(EngineError::Parted)?;
        self.sound = false;
        let rows = connection.long_query(statement, parameters).await?;
        self.sound = true;
        Ok(rows)
    }

    /// Returns the one row of a statement with the cluster as its only parameter.
    async fn row(&mut self, statement: &str) -> Result<Row, EngineError> {
        let cluster = self.cluster;
        let rows = self.rows(statement, &[(&cluster, Type::INT4)]).await?;
        rows.into_iter().next().ok_or(EngineError::Parted)
    }

    /// Returns a page of a table with the key of objects.
    async fn page(
        &mut self,
        statement: &str,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
    ) -> Result<Vec<Row>, EngineError> {
        let (cluster, max) = (self.cluster, limit(max));
        let (namespace, name) = (
            after.map_or("", ObjectKey::namespace),
            after.map_or("", ObjectKey::name),
        );
        let parameters: [Parameter<'_>; 5] = [
            (&cluster, Type::INT4),
            (&resource.0, Type::INT8),
            (&namespace, Type::TEXT),
            (&name, Type::TEXT),
            (&max, Type::INT8),
        ];
        self.rows(statement, &parameters).await
    }

    /// Returns the rows of a table at some keys.
    async fn at(&mut self, statement: &str, wanted: &[RowKey]) -> Result<Vec<Row>, EngineError> {
        let cluster = self.cluster;
        let keys = Keys::of(wanted.iter().map(|(id, key)| (*id, key)));
        let [resources, namespaces, names] = keys.parameters();
        let parameters: [Parameter<'_>; 4] = [(&cluster, Type::INT4), resources, namespaces, names];
        self.rows(statement, &parameters).await
    }

    /// Returns commits behind `seq`, with at most `max` changes, and [`PAGE_BYTES`] of texts, beyond
    /// the first one.
    async fn commits(&mut self, seq: u64, max: usize) -> Result<Vec<CommitRow>, EngineError> {
        let cluster = self.cluster;
        let rows = self
            .rows(
                "SELECT c.compacted, k.seq, k.counter, k.batch, k.changes, k.records, k.bytes,
                     k.committed_at, k.refused
                 FROM reports_server.clusters c LEFT JOIN LATERAL (
                     SELECT * FROM reports_server.commits k
                     WHERE k.cluster = $1 AND k.seq > $2 ORDER BY k.seq LIMIT $3) k ON true
                 WHERE c.cluster = $1 ORDER BY k.seq",
                &[
                    (&cluster, Type::INT4),
                    (&db(seq), Type::INT8),
                    (&limit(max.max(1)), Type::INT8),
                ],
            )
            .await?;
        let head = rows.first().ok_or(EngineError::Parted)?;
        if number(head, "compacted")? > seq {
            return Err(corrupt(&"the log", "was dropped beyond what is copied"));
        }
        let mut commits: Vec<CommitRow> = Vec::new();
        let mut changes = 0;
        for row in &rows {
            if column::<Option<i64>>(row, "seq")?.is_none() {
                break;
            }
            let commit = commit(row)?;
            changes += usize::try_from(commit.changes).unwrap_or(0);
            let large = |first: &CommitRow| commit.bytes - first.bytes > limit(PAGE_BYTES);
            if commits
                .first()
                .is_some_and(|first| changes > max || large(first))
            {
                break;
            }
            commits.push(commit);
        }
        Ok(commits)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if self.sound
            && let Some(connection) = self.connection.take()
        {
            let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
            *parked = Some(connection);
        }
    }
}

#[async_trait::async_trait]
impl SourceSnapshot for Snapshot {
    async fn position(&mut self) -> Result<Position, EngineError> {
        let row = self
            .row(
                "SELECT seq, counter FROM reports_server.commits
                 WHERE cluster = $1 ORDER BY seq DESC LIMIT 1",
            )
            .await?;
        Ok(Position {
            seq: number(&row, "seq")?,
            counter: number(&row, "counter")?,
        })
    }

    async fn compacted(&mut self) -> Result<u64, EngineError> {
        let row = self
            .row("SELECT compacted FROM reports_server.clusters WHERE cluster = $1")
            .await?;
        number(&row, "compacted")
    }

    async fn base(&mut self) -> Result<Option<CommitRow>, EngineError> {
        let row = self
            .row(
                "SELECT k.* FROM reports_server.clusters c
                 JOIN reports_server.commits k ON k.cluster = c.cluster AND k.seq = c.compacted
                 WHERE c.cluster = $1",
            )
            .await?;
        commit(&row).map(Some)
    }

    async fn has(&mut self, seq: u64, batch: i64) -> Result<bool, EngineError> {
        let cluster = self.cluster;
        let rows = self
            .rows(
                "SELECT FROM reports_server.commits
                 WHERE cluster = $1 AND seq = $2 AND batch = $3",
                &[
                    (&cluster, Type::INT4),
                    (&db(seq), Type::INT8),
                    (&batch, Type::INT8),
                ],
            )
            .await?;
        Ok(!rows.is_empty())
    }

    async fn records(&mut self) -> Result<Vec<ResourceRecord>, EngineError> {
        let cluster = self.cluster;
        let statement = format!(
            "SELECT {RECORD} FROM reports_server.resources r WHERE r.cluster = $1 ORDER BY r.id"
        );
        let rows = self.rows(&statement, &[(&cluster, Type::INT4)]).await?;
        rows.iter().map(record).collect()
    }

    async fn count(&mut self) -> Result<u64, EngineError> {
        let row = self
            .row(
                "SELECT count(*) AS objects FROM reports_server.objects
                 WHERE cluster = $1 AND resource_id IN (
                     SELECT id FROM reports_server.resources WHERE cluster = $1)",
            )
            .await?;
        number(&row, "objects")
    }

    async fn objects(
        &mut self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
    ) -> Result<Vec<ObjectRow>, EngineError> {
        let statement = format!(
            "SELECT {OBJECT}
             FROM (SELECT o.*, f.text, {BEFORE}
                   FROM (SELECT * FROM reports_server.objects
                         WHERE cluster = $1 AND resource_id = $2 AND (namespace, name) > ($3, $4)
                         ORDER BY namespace, name LIMIT $5) o
                   CROSS JOIN LATERAL (SELECT text FROM reports_server.frames
                                       WHERE cluster = $1 AND id = o.frame OFFSET 0) f
                   WINDOW earlier AS (ORDER BY o.namespace, o.name {EARLIER})) o
             WHERE o.before < {PAGE_BYTES} ORDER BY o.namespace, o.name"
        );
        let rows = self.page(&statement, resource, after, max).await?;
        rows.iter().map(object).collect()
    }

    async fn objects_at(
        &mut self,
        wanted: &[RowKey],
        max: usize,
    ) -> Result<(Vec<ObjectRow>, usize), EngineError> {
        let wanted = wanted.get(..max).unwrap_or(wanted);
        let statement = format!(
            "SELECT {OBJECT}, o.found, o.place
             FROM (SELECT o.*, f.text, k.place, count(*) OVER () AS found, {BEFORE}
                   FROM unnest($2, $3, $4)
                       WITH ORDINALITY AS k(resource_id, namespace, name, place)
                   CROSS JOIN LATERAL (
                       SELECT * FROM reports_server.objects o
                       WHERE o.cluster = $1 AND o.resource_id = k.resource_id
                           AND o.namespace = k.namespace AND o.name = k.name OFFSET 0) o
                   CROSS JOIN LATERAL (SELECT text FROM reports_server.frames
                                       WHERE cluster = $1 AND id = o.frame OFFSET 0) f
                   WINDOW earlier AS (ORDER BY k.place {EARLIER})) o
             WHERE o.before < {PAGE_BYTES} ORDER BY o.place"
        );
        let rows = self.at(&statement, wanted).await?;
        let looked = match rows.last() {
            Some(last) if number(last, "found")? > rows.len() as u64 => number(last, "place")?,
            _ => wanted.len() as u64,
        };
        let looked = usize::try_from(looked).unwrap_or(wanted.len());
        let objects: Result<Vec<ObjectRow>, EngineError> = rows.iter().map(object).collect();
        Ok((objects?, looked))
    }

    async fn log(&mut self, seq: u64, max: usize) -> Result<LogRows, EngineError> {
        let commits = self.commits(seq, max).await?;
        let Some(last) = commits.last() else {
            return Ok(LogRows::default());
        };
        let (cluster, last) = (self.cluster, last.seq);
        let rows = self
            .rows(
                "SELECT c.seq, c.resource_id, c.rv, c.prev_rv, c.type, c.effect, c.as_imported,
                     c.namespace, c.name, c.prev_labels, c.leaves, f.text AS frame
                 FROM reports_server.changes c
                 LEFT JOIN LATERAL (SELECT text FROM reports_server.frames
                                    WHERE cluster = $1 AND id = c.frame OFFSET 0) f ON true
                 WHERE c.cluster = $1 AND c.seq > $2 AND c.seq <= $3 ORDER BY c.seq",
                &[
                    (&cluster, Type::INT4),
                    (&db(seq), Type::INT8),
                    (&last, Type::INT8),
                ],
            )
            .await?;
        let made: i64 = commits.iter().map(|commit| i64::from(commit.changes)).sum();
        if i64::try_from(rows.len()).ok() != Some(made) {
            let reason = format!("has {} changes where {made} were made", rows.len());
            return Err(corrupt(&"the log", reason));
        }
        let changes: Result<Vec<ChangeRow>, EngineError> = rows.iter().map(change).collect();
        Ok(LogRows {
            changes: changes?,
            commits,
        })
    }

    async fn log_sums(&mut self, seq: u64) -> Result<(i64, i64), EngineError> {
        let cluster = self.cluster;
        let rows = self
            .rows(
                "SELECT count(*) AS changes, coalesce(sum(rv), 0)::bigint AS versions
                 FROM reports_server.changes WHERE cluster = $1 AND seq > $2",
                &[(&cluster, Type::INT4), (&db(seq), Type::INT8)],
            )
            .await?;
        let row = rows.first().ok_or(EngineError::Parted)?;
        Ok((column(row, "changes")?, column(row, "versions")?))
    }

    async fn marks(
        &mut self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
    ) -> Result<Vec<MarkRow>, EngineError> {
        let rows = self
            .page(
                "SELECT resource_id, namespace, name, uid, rv FROM reports_server.imported
                 WHERE cluster = $1 AND resource_id = $2 AND (namespace, name) > ($3, $4)
                 ORDER BY namespace, name LIMIT $5",
                resource,
                after,
                max,
            )
            .await?;
        rows.iter().map(mark).collect()
    }

    async fn marks_at(&mut self, wanted: &[RowKey]) -> Result<Vec<MarkRow>, EngineError> {
        let rows = self
            .at(
                "SELECT i.resource_id, i.namespace, i.name, i.uid, i.rv
                 FROM unnest($2, $3, $4) AS k(resource_id, namespace, name)
                 JOIN reports_server.imported i ON i.cluster = $1
                     AND i.resource_id = k.resource_id AND i.namespace = k.namespace
                     AND i.name = k.name",
                wanted,
            )
            .await?;
        rows.iter().map(mark).collect()
    }

    async fn sums(&mut self, resource: ResourceId) -> Result<Sums, EngineError> {
        let cluster = self.cluster;
        let parameters: [Parameter<'_>; 2] = [(&cluster, Type::INT4), (&resource.0, Type::INT8)];
        let rows = self.rows(SUMS, &parameters).await?;
        sums(rows.first().ok_or(EngineError::Parted)?)
    }

    async fn memory_sums(
        &mut self,
        resource: ResourceId,
    ) -> Result<Option<MemorySums>, EngineError> {
        let cluster = self.cluster;
        let parameters: [Parameter<'_>; 2] = [(&cluster, Type::INT4), (&resource.0, Type::INT8)];
        let rows = self.rows(MEMORY_SUMS, &parameters).await?;
        let row = rows.first().ok_or(EngineError::Parted)?;
        memory_sums(row).map(Some)
    }

    async fn events(
        &mut self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
    ) -> Result<Vec<EventRow>, EngineError> {
        let rows = self
            .page(
                "SELECT * FROM reports_server.mirror_events
                 WHERE cluster = $1 AND resource_id = $2 AND (namespace, name) > ($3, $4)
                 ORDER BY namespace, name LIMIT $5",
                resource,
                after,
                max,
            )
            .await?;
        rows.iter().map(event).collect()
    }

    async fn events_at(&mut self, wanted: &[RowKey]) -> Result<Vec<EventRow>, EngineError> {
        let rows = self
            .at(
                "SELECT e.* FROM unnest($2, $3, $4) AS k(resource_id, namespace, name)
                 JOIN reports_server.mirror_events e ON e.cluster = $1
                     AND e.resource_id = k.resource_id AND e.namespace = k.namespace
                     AND e.name = k.name",
                wanted,
            )
            .await?;
        rows.iter().map(event).collect()
    }

    async fn definitions(&mut self) -> Result<Vec<(String, String)>, EngineError> {
        let cluster = self.cluster;
        let rows = self
            .rows(
                "SELECT api_group, body FROM reports_server.definitions
                 WHERE cluster = $1 ORDER BY api_group",
                &[(&cluster, Type::INT4)],
            )
            .await?;
        rows.iter()
            .map(|row| Ok((column(row, "api_group")?, column(row, "body")?)))
            .collect()
    }
}

fn row_key(row: &Row) -> Result<RowKey, EngineError> {
    Ok((resource_id(row)?, key(row)?))
}

fn object(row: &Row) -> Result<ObjectRow, EngineError> {
    let key = row_key(row)?;
    let body = text(&key.1, column(row, "frame")?, column(row, "leaves")?)?;
    Ok(ObjectRow {
        key,
        uid: column(row, "uid")?,
        rv: column(row, "rv")?,
        as_imported: column(row, "as_imported")?,
        labels: column(row, "labels")?,
        body,
        first_seen: column(row, "first_seen")?,
    })
}

fn change(row: &Row) -> Result<ChangeRow, EngineError> {
    let key = row_key(row)?;
    let frame: Option<&str> = column(row, "frame")?;
    let leaves = column(row, "leaves")?;
    let body = frame.map(|frame| text(&key.1, frame, leaves)).transpose()?;
    let prev_labels = previous_labels_text(column(row, "prev_labels")?, body.as_deref(), &key.1)?;
    Ok(ChangeRow {
        seq: column(row, "seq")?,
        key,
        rv: column(row, "rv")?,
        prev_rv: column(row, "prev_rv")?,
        type_: column(row, "type")?,
        effect: column(row, "effect")?,
        as_imported: column(row, "as_imported")?,
        prev_labels,
        // Its commit says it.
        committed_at: 0,
        body,
    })
}

fn commit(row: &Row) -> Result<CommitRow, EngineError> {
    Ok(CommitRow {
        seq: column(row, "seq")?,
        counter: column(row, "counter")?,
        batch: column(row, "batch")?,
        changes: column(row, "changes")?,
        records: column(row, "records")?,
        bytes: column(row, "bytes")?,
        committed_at: column(row, "committed_at")?,
        refused: column(row, "refused")?,
    })
}

fn mark(row: &Row) -> Result<MarkRow, EngineError> {
    Ok(MarkRow {
        key: row_key(row)?,
        uid: column(row, "uid")?,
        rv: column(row, "rv")?,
    })
}

fn event(row: &Row) -> Result<EventRow, EngineError> {
    let imported: SystemTime = column(row, "imported_at")?;
    let imported = Timestamp::try_from(imported).map_err(|error| corrupt(&"an event", error))?;
    Ok(EventRow {
        key: row_key(row)?,
        rv: column(row, "rv")?,
        deleted: column(row, "deleted")?,
        labels: column(row, "labels")?,
        imported_at: imported.as_millisecond(),
    })
}
