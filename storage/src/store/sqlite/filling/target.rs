//! The file that is filled, as the mover sees it.

use std::collections::HashMap;

use super::super::arrival::go_on_from;
use super::super::resources::save;
use super::super::rows::db;
use super::{Filling, put};
use crate::model::{ObjectKey, Position, ResourceId, ResourceRecord};
use crate::store::engine::{EngineError, corrupt};
use crate::store::moving::rows::{EventRow, LastCommit, LogRows, MarkRow, ObjectRow, RowKey};
use crate::store::moving::source::{MemorySums, Sums};
use crate::store::moving::target::{Fingerprint, Target};

#[async_trait::async_trait]
impl Target for Filling {
    fn ids(&self) -> &HashMap<ResourceId, i64> {
        &self.ids
    }

    fn attempt(&self) -> i64 {
        self.attempt
    }

    // Nobody else writes to it, and it is not replaced by another one: no step gets lost.
    fn last_step(&self) -> i64 {
        self.attempt
    }

    fn is_shared(&self) -> bool {
        false
    }

    // Each attempt has a file of its own.
    async fn clear_part(&self) -> Result<bool, EngineError> {
        Ok(false)
    }

    async fn begin_log(&self, _: u64) -> Result<(), EngineError> {
        Ok(())
    }

    async fn log(&mut self, log: &LogRows) -> Result<(), EngineError> {
        let mut tx = self.sqlite.writer.begin().await?;
        let added = put::changes(&mut tx, log, &self.ids).await?;
        tx.log_bytes += added;
        tx.commit(()).await.map(drop)
    }

    async fn records(&mut self, records: &[ResourceRecord]) -> Result<(), EngineError> {
        let mut tx = self.sqlite.writer.begin().await?;
        for record in records {
            if !self.ids.contains_key(&record.id) {
                put::resource(&mut tx, record).await?;
            }
            save(&mut tx, record).await?;
        }
        tx.commit(()).await?;
        let ids = records.iter().map(|record| (record.id, record.id.0));
        self.ids.extend(ids);
        Ok(())
    }

    async fn leave(&mut self, resource: ResourceId) -> Result<(), EngineError> {
        if self.ids.contains_key(&resource) {
            let mut tx = self.sqlite.writer.begin().await?;
            put::drop_resource(&mut tx, resource).await?;
            tx.commit(()).await?;
            self.ids.remove(&resource);
        }
        Ok(())
    }

    async fn objects(&mut self, rows: Vec<ObjectRow>, gone: &[RowKey]) -> Result<(), EngineError> {
        let known = rows.into_iter();
        let known = known.filter(|row| self.ids.contains_key(&row.key.0));
        let known: Vec<ObjectRow> = known.collect();
        // Compressing takes a while.
        let packed = tokio::task::spawn_blocking(move || put::packed(known)).await;
        let rows = packed.map_err(|error| corrupt(&"objects", error))??;
        let gone = self.keys(gone);
        let mut tx = self.sqlite.writer.begin().await?;
        put::objects(&mut tx, &rows).await?;
        put::remove_objects(&mut tx, &gone).await?;
        tx.commit(()).await.map(drop)
    }

    async fn marks(&self, rows: &[MarkRow], wanted: &[RowKey]) -> Result<(), EngineError> {
        let known = rows.iter();
        let known = known.filter(|row| self.ids.contains_key(&row.key.0));
        let known: Vec<&MarkRow> = known.collect();
        let wanted = self.keys(wanted);
        let mut tx = self.sqlite.writer.begin().await?;
        put::marks(&mut tx, &known, &wanted).await?;
        tx.commit(()).await.map(drop)
    }

    async fn events(&self, rows: &[EventRow], wanted: &[RowKey]) -> Result<(), EngineError> {
        let known = rows.iter();
        let known = known.filter(|row| self.ids.contains_key(&row.key.0));
        let known: Vec<&EventRow> = known.collect();
        let wanted = self.keys(wanted);
        let mut tx = self.sqlite.writer.begin().await?;
        put::events(&mut tx, &known, &wanted).await?;
        tx.commit(()).await.map(drop)
    }

    async fn forget_marks(&self, resource: ResourceId) -> Result<(), EngineError> {
        self.forget("DELETE FROM imported WHERE resource_id = ?", resource)
            .await
    }

    async fn forget_events(&self, resource: ResourceId) -> Result<(), EngineError> {
        self.forget("DELETE FROM mirror_events WHERE resource_id = ?", resource)
            .await
    }

    async fn fingerprints(
        &self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
    ) -> Result<Vec<Fingerprint>, EngineError> {
        self.fingerprints_behind(resource, after, max).await
    }

    async fn fingerprints_at(
        &self,
        resource: ResourceId,
        wanted: &[RowKey],
    ) -> Result<Vec<Fingerprint>, EngineError> {
        self.fingerprints_of(resource, wanted).await
    }

    async fn sums(&self, resource: ResourceId) -> Result<Sums, EngineError> {
        self.sums_of(resource).await
    }

    async fn log_sums(&self, seq: u64) -> Result<(i64, i64), EngineError> {
        self.sums_of_log(seq).await
    }

    async fn memory_sums(&self, resource: ResourceId) -> Result<MemorySums, EngineError> {
        self.sums_of_memory(resource).await
    }

    async fn finish(
        &self,
        position: Position,
        compacted: u64,
        definitions: &[(String, String)],
        last: Option<(u64, i64)>,
    ) -> Result<(), EngineError> {
        let last = LastCommit {
            seq: position.seq,
            batch: last.map(|(_, batch)| batch),
            counter: position.counter,
        };
        let mut tx = self.sqlite.writer.begin().await?;
        let dropped = put::drop_changes(&mut tx, db(compacted)).await?;
        tx.log_bytes -= dropped;
        put::definitions(&mut tx, definitions).await?;
        go_on_from(&mut tx, &last).await?;
        tx.position = position;
        // The mark in the other database must not outlive it: SQLite waits for the disk.
        tx.commit(()).await.map(drop)
    }

    async fn abandon(&self) -> Result<(), EngineError> {
        self.remove().await
    }

    async fn release(&self) {
        self.sqlite.close_file().await;
    }

    async fn close(&self) {
        self.sqlite.close_file().await;
    }
}

impl Filling {
    async fn forget(
        &self,
        statement: &'static str,
        resource: ResourceId,
    ) -> Result<(), EngineError> {
        let mut tx = self.sqlite.writer.begin().await?;
        sqlx::query(statement)
            .bind(resource.0)
            .execute(&mut *tx)
            .await?;
        tx.commit(()).await.map(drop)
    }
}
