//! The database that is filled, as the mover sees it: each part is beside its statements.

use std::collections::HashMap;

use super::Filling;
use crate::model::{ObjectKey, Position, ResourceId, ResourceRecord};
use crate::store::engine::EngineError;
use crate::store::moving::rows::{EventRow, LogRows, MarkRow, ObjectRow, RowKey};
use crate::store::moving::source::{MemorySums, Sums};
use crate::store::moving::target::{Fingerprint, Target};

#[async_trait::async_trait]
impl Target for Filling {
    fn ids(&self) -> &HashMap<ResourceId, i64> {
        Filling::ids(self)
    }

    fn attempt(&self) -> i64 {
        Filling::attempt(self)
    }

    fn last_step(&self) -> i64 {
        Filling::last_step(self)
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn clear_part(&self) -> Result<bool, EngineError> {
        Filling::clear_part(self).await
    }

    async fn begin_log(&self, from: u64) -> Result<(), EngineError> {
        Filling::begin_log(self, from).await
    }

    async fn log(&mut self, log: &LogRows) -> Result<(), EngineError> {
        Filling::log(self, log).await
    }

    async fn records(&mut self, records: &[ResourceRecord]) -> Result<(), EngineError> {
        Filling::records(self, records).await
    }

    async fn leave(&mut self, resource: ResourceId) -> Result<(), EngineError> {
        Filling::leave(self, resource).await
    }

    async fn objects(&mut self, rows: Vec<ObjectRow>, gone: &[RowKey]) -> Result<(), EngineError> {
        Filling::objects(self, rows, gone).await
    }

    async fn marks(&self, rows: &[MarkRow], wanted: &[RowKey]) -> Result<(), EngineError> {
        Filling::marks(self, rows, wanted).await
    }

    async fn events(&self, rows: &[EventRow], wanted: &[RowKey]) -> Result<(), EngineError> {
        Filling::events(self, rows, wanted).await
    }

    async fn forget_marks(&self, resource: ResourceId) -> Result<(), EngineError> {
        Filling::forget_marks(self, resource).await
    }

    async fn forget_events(&self, resource: ResourceId) -> Result<(), EngineError> {
        Filling::forget_events(self, resource).await
    }

    async fn fingerprints(
        &self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
    ) -> Result<Vec<Fingerprint>, EngineError> {
        Filling::fingerprints(self, resource, after, max).await
    }

    async fn fingerprints_at(
        &self,
        resource: ResourceId,
        wanted: &[RowKey],
    ) -> Result<Vec<Fingerprint>, EngineError> {
        Filling::fingerprints_at(self, resource, wanted).await
    }

    async fn sums(&self, resource: ResourceId) -> Result<Sums, EngineError> {
        Filling::sums(self, resource).await
    }

    async fn log_sums(&self, seq: u64) -> Result<(i64, i64), EngineError> {
        Filling::log_sums(self, seq).await
    }

    async fn memory_sums(&self, resource: ResourceId) -> Result<MemorySums, EngineError> {
        Filling::memory_sums(self, resource).await
    }

    async fn finish(
        &self,
        position: Position,
        compacted: u64,
        definitions: &[(String, String)],
        last: Option<(u64, i64)>,
    ) -> Result<(), EngineError> {
        Filling::finish(self, position, compacted, definitions, last).await
    }

    async fn abandon(&self) -> Result<(), EngineError> {
        Filling::clear(self, 0).await?;
        Filling::abandon(self).await
    }

    // It stays open for the whole process: others open it beside.
    async fn release(&self) {}

    async fn close(&self) {
        Filling::close(self).await;
    }
}
