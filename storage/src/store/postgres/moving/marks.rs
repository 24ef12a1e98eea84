//! The memory of a mirror: marks of imports, and the last event of each key.

use std::time::SystemTime;

use tokio_postgres::types::Type;

use super::sums::{MEMORY_SUMS, memory_sums};
use super::{Filling, Step, delete_at, time};
use crate::model::ResourceId;
use crate::store::engine::EngineError;
use crate::store::moving::rows::{EventRow, MarkRow, RowKey};
use crate::store::moving::source::MemorySums;

impl Filling {
    /// Brings the imported marks at `wanted` to `rows`.
    pub async fn marks(&self, rows: &[MarkRow], wanted: &[RowKey]) -> Result<(), EngineError> {
        let step = self.begin().await?;
        self.delete(&step, "imported", wanted).await?;
        let known = |row: &&MarkRow| self.ids.contains_key(&row.key.0);
        let rows: Vec<&MarkRow> = rows.iter().filter(known).collect();
        let keys = self.keys(rows.iter().map(|row| &row.key));
        let [resources, namespaces, names] = keys.parameters();
        let uids: Vec<&str> = rows.iter().map(|row| &*row.uid).collect();
        let versions: Vec<i64> = rows.iter().map(|row| row.rv).collect();
        step.run(
            "INSERT INTO reports_server.imported (cluster, resource_id, namespace, name, uid, rv)
             SELECT $1, * FROM unnest($2, $3, $4, $5, $6)",
            &[
                self.cluster(),
                resources,
                namespaces,
                names,
                (&uids, Type::TEXT_ARRAY),
                (&versions, Type::INT8_ARRAY),
            ],
        )
        .await?;
        step.commit().await
    }

    /// Brings the last events at `wanted` to `rows`.
    pub async fn events(&self, rows: &[EventRow], wanted: &[RowKey]) -> Result<(), EngineError> {
        let step = self.begin().await?;
        self.delete(&step, "mirror_events", wanted).await?;
        let known = |row: &&EventRow| self.ids.contains_key(&row.key.0);
        let rows: Vec<&EventRow> = rows.iter().filter(known).collect();
        let keys = self.keys(rows.iter().map(|row| &row.key));
        let [resources, namespaces, names] = keys.parameters();
        let versions: Vec<i64> = rows.iter().map(|row| row.rv).collect();
        let deleted: Vec<bool> = rows.iter().map(|row| row.deleted).collect();
        let labels: Vec<&str> = rows.iter().map(|row| &*row.labels).collect();
        let imported: Vec<SystemTime> = rows.iter().map(|row| time(row.imported_at)).collect();
        step.run(
            "INSERT INTO reports_server.mirror_events
                 (cluster, resource_id, namespace, name, rv, deleted, labels, imported_at)
             SELECT $1, * FROM unnest($2, $3, $4, $5, $6, $7, $8)",
            &[
                self.cluster(),
                resources,
                namespaces,
                names,
                (&versions, Type::INT8_ARRAY),
                (&deleted, Type::BOOL_ARRAY),
                (&labels, Type::TEXT_ARRAY),
                (&imported, Type::TIMESTAMPTZ_ARRAY),
            ],
        )
        .await?;
        step.commit().await
    }

    /// Forgets the last events of a resource, which is not mirrored any more.
    pub async fn forget_events(&self, resource: ResourceId) -> Result<(), EngineError> {
        self.forget("mirror_events", resource).await
    }

    /// Forgets the imported marks of a resource.
    pub async fn forget_marks(&self, resource: ResourceId) -> Result<(), EngineError> {
        self.forget("imported", resource).await
    }

    async fn forget(&self, table: &'static str, resource: ResourceId) -> Result<(), EngineError> {
        let Some(id) = self.id(resource) else {
            return Ok(());
        };
        let step = self.begin().await?;
        step.run(
            &format!("DELETE FROM reports_server.{table} WHERE cluster = $1 AND resource_id = $2"),
            &[self.cluster(), (&id.0, Type::INT8)],
        )
        .await?;
        step.commit().await
    }

    /// Returns sums of all imported marks and last events of a resource.
    pub async fn memory_sums(&self, resource: ResourceId) -> Result<MemorySums, EngineError> {
        let id = self.id(resource).unwrap_or(ResourceId(0));
        let reader = self.engine.readers.get().await?;
        let parameters = [self.cluster(), (&id.0, Type::INT8)];
        let rows = reader.long_query(MEMORY_SUMS, &parameters).await?;
        reader.keep();
        memory_sums(rows.first().ok_or(EngineError::Parted)?)
    }

    async fn delete(
        &self,
        step: &Step<'_>,
        table: &'static str,
        wanted: &[RowKey],
    ) -> Result<(), EngineError> {
        let keys = self.keys(wanted.iter());
        if keys.is_empty() {
            return Ok(());
        }
        let [resources, namespaces, names] = keys.parameters();
        step.run(
            &delete_at(table),
            &[self.cluster(), resources, namespaces, names],
        )
        .await?;
        Ok(())
    }
}
