//! The content of the file, to be compared.

use futures::TryStreamExt as _;
use sha2::{Digest as _, Sha256};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::super::moving::Snapshot;
use super::super::rows::{key, keys, limit, text};
use super::Filling;
use super::sums::Sum;
use crate::model::{ObjectKey, ResourceId};
use crate::store::engine::{EngineError, corrupt};
use crate::store::moving::rows::RowKey;
use crate::store::moving::source::{MemorySums, SourceSnapshot as _, Sums};
use crate::store::moving::target::Fingerprint;

impl Filling {
    /// Returns at most `max` objects of a resource behind `after`, by namespace, then name.
    pub(super) async fn fingerprints_behind(
        &self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
    ) -> Result<Vec<Fingerprint>, EngineError> {
        let mut rows = sqlx::query(
            "SELECT namespace, name, uid, rv, as_imported, labels, body FROM objects
             WHERE resource_id = ? AND (namespace, name) > (?, ?)
             ORDER BY namespace, name LIMIT ?",
        )
        .bind(resource.0)
        .bind(after.map_or("", ObjectKey::namespace))
        .bind(after.map_or("", ObjectKey::name))
        .bind(limit(max))
        .fetch(&self.sqlite.readers);
        let mut found = Vec::new();
        while let Some(row) = rows.try_next().await? {
            found.push(fingerprint(&row)?);
        }
        Ok(found)
    }

    /// Returns the objects at some keys of a resource, those that are there.
    pub(super) async fn fingerprints_of(
        &self,
        resource: ResourceId,
        wanted: &[RowKey],
    ) -> Result<Vec<Fingerprint>, EngineError> {
        let wanted = wanted.iter().filter(|(id, _)| *id == resource);
        let wanted = keys(wanted.map(|(id, key)| (*id, key)));
        let mut rows = sqlx::query(
            "SELECT o.namespace, o.name, o.uid, o.rv, o.as_imported, o.labels, o.body
             FROM json_each(?) k CROSS JOIN objects o
             WHERE o.resource_id = k.value ->> 0 AND o.namespace = k.value ->> 1
               AND o.name = k.value ->> 2",
        )
        .bind(wanted)
        .fetch(&self.sqlite.readers);
        let mut found = Vec::new();
        while let Some(row) = rows.try_next().await? {
            found.push(fingerprint(&row)?);
        }
        Ok(found)
    }

    async fn snapshot(&self) -> Result<Snapshot, EngineError> {
        Ok(Snapshot(self.sqlite.readers.begin().await?))
    }

    /// Returns sums of the objects of a resource, and of its imported marks.
    pub(super) async fn sums_of(&self, resource: ResourceId) -> Result<Sums, EngineError> {
        self.snapshot().await?.sums(resource).await
    }

    /// Returns the number of changes behind `seq`, and the sum of their versions.
    pub(super) async fn sums_of_log(&self, seq: u64) -> Result<(i64, i64), EngineError> {
        self.snapshot().await?.log_sums(seq).await
    }

    /// Returns sums of all imported marks and last events of a resource, as PostgreSQL adds them up.
    pub(super) async fn sums_of_memory(
        &self,
        resource: ResourceId,
    ) -> Result<MemorySums, EngineError> {
        let marks = self
            .sum(
                "SELECT namespace || '/' || name || '/' || uid || '/' || rv AS text FROM imported
                 WHERE resource_id = ?",
                resource,
            )
            .await?;
        let events = self
            .sum(
                "SELECT namespace || '/' || name || '/' || rv || '/'
                     || CASE WHEN deleted THEN 't' ELSE 'f' END || '/' || labels AS text
                 FROM mirror_events WHERE resource_id = ?",
                resource,
            )
            .await?;
        Ok(MemorySums {
            marks: marks.to_string(),
            events: events.to_string(),
        })
    }

    async fn sum(&self, statement: &'static str, resource: ResourceId) -> Result<Sum, EngineError> {
        let mut rows = sqlx::query(statement)
            .bind(resource.0)
            .fetch(&self.sqlite.readers);
        let mut sum = Sum::default();
        while let Some(row) = rows.try_next().await? {
            sum.add(row.try_get("text")?);
        }
        Ok(sum)
    }
}

fn fingerprint(row: &SqliteRow) -> Result<Fingerprint, EngineError> {
    let key = key(row)?;
    let body = text(row, "body")?.ok_or_else(|| corrupt(&key, "no text"))?;
    Ok((
        key,
        row.try_get("uid")?,
        row.try_get("rv")?,
        row.try_get("as_imported")?,
        row.try_get("labels")?,
        hex::encode(Sha256::digest(body.as_bytes())),
    ))
}
