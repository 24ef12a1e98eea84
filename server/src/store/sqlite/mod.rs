//! The SQLite engine.
use super::{OpenError, engine::*};
use crate::{
    cache::{Change, Event, Log, LogError},
    model::*,
};
use crds::control::{DigestItem, GateSpec};
use std::{path::Path, sync::Arc, time::SystemTime};

pub(crate) enum Sqlite {}
impl Sqlite {
    pub async fn open(path: &Path) -> Result<Self, OpenError> {
        Err(OpenError::Newer(path.display().to_string()))
    }
}
#[async_trait::async_trait]
impl Log for Sqlite {
    async fn events(&self, _: ResourceId, _: u64, _: usize) -> Result<Vec<Arc<Event>>, LogError> {
        match *self {}
    }
}
#[async_trait::async_trait]
impl Engine for Sqlite {
    async fn load(&self) -> Result<Loaded, EngineError> {
        match *self {}
    }
    async fn objects(
        &self,
        _: ResourceId,
        _: Option<&ObjectKey>,
        _: usize,
    ) -> Result<Vec<StoredObject>, EngineError> {
        match *self {}
    }
    async fn tail(&self, _: u64, _: usize) -> Result<Vec<(ResourceId, Change)>, EngineError> {
        match *self {}
    }
    async fn newest_seq(&self) -> Result<Option<u64>, EngineError> {
        match *self {}
    }
    async fn commit(&self, _: Vec<Op>) -> Result<Commit<Vec<OpOutcome>>, EngineError> {
        match *self {}
    }
    async fn define(&self, _: &ResourceDef) -> Result<Commit<ResourceRecord>, EngineError> {
        match *self {}
    }
    async fn reset(&self, _: ResourceId) -> Result<Commit<Result<(), Refusal>>, EngineError> {
        match *self {}
    }
    async fn import(
        &self,
        _: ImportChunk,
    ) -> Result<Commit<Result<ImportOutcome, Refusal>>, EngineError> {
        match *self {}
    }
    async fn set_gate(
        &self,
        _: ResourceId,
        _: &GateSpec,
        _: Option<&str>,
    ) -> Result<Commit<()>, EngineError> {
        match *self {}
    }
    async fn raise_floor(&self, _: u64) -> Result<Commit<()>, EngineError> {
        match *self {}
    }
    async fn compactable(
        &self,
        _: SystemTime,
        _: usize,
    ) -> Result<Option<Compaction>, EngineError> {
        match *self {}
    }
    async fn compact(&self, _: &Compaction) -> Result<Commit<()>, EngineError> {
        match *self {}
    }
    async fn collect_garbage(&self, _: usize) -> Result<usize, EngineError> {
        match *self {}
    }
    async fn save_definition(&self, _: &str, _: &str) -> Result<(), EngineError> {
        match *self {}
    }
    async fn load_definitions(&self) -> Result<Vec<(String, String)>, EngineError> {
        match *self {}
    }
    async fn marks(
        &self,
        _: ResourceId,
        _: Option<(&str, &str)>,
        _: usize,
    ) -> Result<Vec<DigestItem>, EngineError> {
        match *self {}
    }
    async fn close(&self) {
        match *self {}
    }
}
