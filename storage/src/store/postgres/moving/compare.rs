//! The content of the database, to be compared.

use tokio_postgres::types::Type;

use super::super::rows::{column, db, key, limit};
use super::Filling;
use super::sums::{SUMS, sums};
use crate::model::{ObjectKey, ResourceId};
use crate::store::engine::EngineError;
use crate::store::moving::rows::RowKey;
use crate::store::moving::source::Sums;
use crate::store::moving::target::Fingerprint;

impl Filling {
    /// Returns at most `max` objects of a resource behind `after`, by namespace, then name.
    pub async fn fingerprints(
        &self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
    ) -> Result<Vec<Fingerprint>, EngineError> {
        let id = self.id(resource).unwrap_or(ResourceId(0));
        let max = limit(max);
        let reader = self.engine.readers.get().await?;
        let rows = reader
            .long_query(
                "SELECT o.namespace, o.name, o.uid, o.rv, o.as_imported, o.labels,
                     encode(sha256(convert_to(
                         reports_server.report_text_v1(f.text, o.leaves), 'UTF8')), 'hex') AS sum
                 FROM (SELECT * FROM reports_server.objects
                       WHERE cluster = $1 AND resource_id = $2 AND (namespace, name) > ($3, $4)
                       ORDER BY namespace, name LIMIT $5) o
                 LEFT JOIN LATERAL (SELECT text FROM reports_server.frames
                                    WHERE cluster = $1 AND id = o.frame OFFSET 0) f ON true
                 ORDER BY o.namespace, o.name",
                &[
                    self.cluster(),
                    (&id.0, Type::INT8),
                    (&after.map_or("", ObjectKey::namespace), Type::TEXT),
                    (&after.map_or("", ObjectKey::name), Type::TEXT),
                    (&max, Type::INT8),
                ],
            )
            .await?;
        reader.keep();
        rows.iter().map(fingerprint).collect()
    }

    /// Returns the objects at some keys, those that are there, under the numbers of the database
    /// that is moved.
    pub async fn fingerprints_at(
        &self,
        resource: ResourceId,
        wanted: &[RowKey],
    ) -> Result<Vec<Fingerprint>, EngineError> {
        let keys = self.keys(wanted.iter().filter(|(id, _)| *id == resource));
        let [resources, namespaces, names] = keys.parameters();
        let reader = self.engine.readers.get().await?;
        let rows = reader
            .long_query(
                "SELECT o.namespace, o.name, o.uid, o.rv, o.as_imported, o.labels,
                     encode(sha256(convert_to(
                         reports_server.report_text_v1(f.text, o.leaves), 'UTF8')), 'hex') AS sum
                 FROM unnest($2, $3, $4) AS k(resource_id, namespace, name)
                 JOIN reports_server.objects o ON o.cluster = $1
                     AND o.resource_id = k.resource_id AND o.namespace = k.namespace
                     AND o.name = k.name
                 LEFT JOIN LATERAL (SELECT text FROM reports_server.frames
                                    WHERE cluster = $1 AND id = o.frame OFFSET 0) f ON true",
                &[self.cluster(), resources, namespaces, names],
            )
            .await?;
        reader.keep();
        rows.iter().map(fingerprint).collect()
    }

    /// Returns sums of the objects of a resource, and of its imported marks.
    pub async fn sums(&self, resource: ResourceId) -> Result<Sums, EngineError> {
        let id = self.id(resource).unwrap_or(ResourceId(0));
        let reader = self.engine.readers.get().await?;
        let parameters = [self.cluster(), (&id.0, Type::INT8)];
        let rows = reader.long_query(SUMS, &parameters).await?;
        reader.keep();
        sums(rows.first().ok_or(EngineError::Parted)?)
    }

    /// Returns the number of changes behind `seq`, and the sum of their versions.
    pub async fn log_sums(&self, seq: u64) -> Result<(i64, i64), EngineError> {
        let reader = self.engine.readers.get().await?;
        let rows = reader
            .long_query(
                "SELECT count(*) AS changes, coalesce(sum(rv), 0)::bigint AS versions
                 FROM reports_server.changes WHERE cluster = $1 AND seq > $2",
                &[self.cluster(), (&db(seq), Type::INT8)],
            )
            .await?;
        reader.keep();
        let row = rows.first().ok_or(EngineError::Parted)?;
        Ok((column(row, "changes")?, column(row, "versions")?))
    }
}

fn fingerprint(row: &tokio_postgres::Row) -> Result<Fingerprint, EngineError> {
    Ok((
        key(row)?,
        column(row, "uid")?,
        column(row, "rv")?,
        column(row, "as_imported")?,
        column(row, "labels")?,
        // A frame that is missing is a text that differs.
        column::<Option<String>>(row, "sum")?.unwrap_or_default(),
    ))
}
