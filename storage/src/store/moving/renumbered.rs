//! An engine whose resources have other numbers than those that its users know.
//!
//! Memory, queue and orders name resources by the numbers of the database that was moved. They stay
//! in force for as long as the process lives; resources that come later are known by the negative
//! of their number in the new database, so that no number means two.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use crds::control::{DigestItem, GateSpec};
use tokio::sync::watch;

use crate::cache::{Change, Log, LogError, LogPage};
use crate::model::{Dictionary, ObjectKey, ResourceDef, ResourceId, ResourceRecord, StoredObject};
use crate::store::DatabaseInfo;
use crate::store::engine::{
    Commit, Compaction, DictionaryOf, Engine, EngineError, ImportChunk, ImportOutcome, Loaded, Op,
    OpOutcome, Refusal, Tail,
};

/// Two numbers for each resource.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    there: HashMap<ResourceId, ResourceId>,
    here: HashMap<ResourceId, ResourceId>,
}

impl Numbers {
    /// Returns the map from the numbers that users know to those of the new database.
    pub fn new(pairs: &HashMap<ResourceId, i64>) -> Self {
        let pairs = pairs
            .iter()
            .map(|(here, there)| (*here, ResourceId(*there)));
        Self {
            there: pairs.clone().collect(),
            here: pairs.map(|(here, there)| (there, here)).collect(),
        }
    }

    /// Returns the number in the database. It has none for a resource that was reset before the
    /// move.
    fn there(&self, id: ResourceId) -> ResourceId {
        match id {
            ResourceId(later) if later < 0 => ResourceId(-later),
            id => self.there.get(&id).copied().unwrap_or(ResourceId(0)),
        }
    }

    fn here(&self, id: ResourceId) -> ResourceId {
        self.here.get(&id).copied().unwrap_or(ResourceId(-id.0))
    }
}

/// See the module's documentation.
pub(super) struct Renumbered {
    engine: Arc<dyn Engine>,
    numbers: Numbers,
}

impl Renumbered {
    pub fn new(engine: Arc<dyn Engine>, numbers: Numbers) -> Self {
        Self { engine, numbers }
    }

    fn record(&self, record: ResourceRecord) -> ResourceRecord {
        ResourceRecord {
            id: self.numbers.here(record.id),
            ..record
        }
    }

    fn changes(&self, changes: Vec<(ResourceId, Change)>) -> Vec<(ResourceId, Change)> {
        let renumber = |(id, change)| (self.numbers.here(id), change);
        changes.into_iter().map(renumber).collect()
    }

    fn known<T>(&self, commit: Commit<T>) -> Commit<T> {
        let records = commit.records.into_iter();
        Commit {
            changes: self.changes(commit.changes),
            records: records.map(|record| self.record(record)).collect(),
            ..commit
        }
    }
}

fn renumber(compaction: Compaction, number: impl Fn(ResourceId) -> ResourceId) -> Compaction {
    let horizons = compaction.horizons.into_iter();
    Compaction {
        horizons: horizons.map(|(id, rv)| (number(id), rv)).collect(),
        ..compaction
    }
}

#[async_trait::async_trait]
impl Log for Renumbered {
    async fn events(
        &self,
        resource: ResourceId,
        after: u64,
        max: usize,
    ) -> Result<LogPage, LogError> {
        let resource = self.numbers.there(resource);
        self.engine.events(resource, after, max).await
    }
}

#[async_trait::async_trait]
impl Engine for Renumbered {
    async fn load(&self) -> Result<Loaded, EngineError> {
        let loaded = self.engine.load().await?;
        let records = loaded.records.into_iter();
        Ok(Loaded {
            position: loaded.position,
            records: records.map(|record| self.record(record)).collect(),
        })
    }

    async fn objects(
        &self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
        dictionary: &Arc<Dictionary>,
    ) -> Result<Vec<StoredObject>, EngineError> {
        let resource = self.numbers.there(resource);
        let objects = self.engine.objects(resource, after, max, dictionary);
        objects.await
    }

    async fn tail(
        &self,
        seq: u64,
        max: usize,
        dictionary_of: DictionaryOf<'_>,
    ) -> Result<Tail, EngineError> {
        let dictionary_of = |id: ResourceId| dictionary_of(self.numbers.here(id));
        let tail = self.engine.tail(seq, max, &dictionary_of).await?;
        Ok(Tail {
            changes: self.changes(tail.changes),
            ..tail
        })
    }

    async fn newest_seq(&self) -> Result<Option<u64>, EngineError> {
        self.engine.newest_seq().await
    }

    fn announcements(&self) -> Option<watch::Receiver<u64>> {
        self.engine.announcements()
    }

    fn is_listening(&self) -> bool {
        self.engine.is_listening()
    }

    fn arrivals(&self) -> Option<watch::Receiver<u64>> {
        self.engine.arrivals()
    }

    fn info(&self) -> Option<DatabaseInfo> {
        self.engine.info()
    }

    fn history(&self) -> Option<String> {
        self.engine.history()
    }

    fn elsewhere(&self) -> Option<String> {
        self.engine.elsewhere()
    }

    async fn rejoin(&self, counter: u64) -> Result<(), EngineError> {
        self.engine.rejoin(counter).await
    }

    async fn is_put_back(&self) -> Result<bool, EngineError> {
        self.engine.is_put_back().await
    }

    async fn begin_anew(&self, revision: u64) -> Result<(), EngineError> {
        self.engine.begin_anew(revision).await
    }

    fn projects(&self) -> bool {
        self.engine.projects()
    }

    fn is_unprepared(&self) -> bool {
        self.engine.is_unprepared()
    }

    async fn commit(&self, mut ops: Vec<Op>) -> Result<Commit<Vec<OpOutcome>>, EngineError> {
        for op in &mut ops {
            op.resource = self.numbers.there(op.resource);
        }
        Ok(self.known(self.engine.commit(ops).await?))
    }

    async fn define(&self, def: &ResourceDef) -> Result<Commit<ResourceRecord>, EngineError> {
        let mut commit = self.known(self.engine.define(def).await?);
        commit.outcome.id = self.numbers.here(commit.outcome.id);
        Ok(commit)
    }

    async fn reset(
        &self,
        id: ResourceId,
        fence: Option<u64>,
    ) -> Result<Commit<Result<(), Refusal>>, EngineError> {
        let id = self.numbers.there(id);
        Ok(self.known(self.engine.reset(id, fence).await?))
    }

    async fn import(
        &self,
        mut chunk: ImportChunk,
    ) -> Result<Commit<Result<ImportOutcome, Refusal>>, EngineError> {
        chunk.resource = self.numbers.there(chunk.resource);
        Ok(self.known(self.engine.import(chunk).await?))
    }

    async fn set_gate(
        &self,
        id: ResourceId,
        gate: &GateSpec,
        holder: Option<&str>,
    ) -> Result<Commit<Result<(), Refusal>>, EngineError> {
        let id = self.numbers.there(id);
        Ok(self.known(self.engine.set_gate(id, gate, holder).await?))
    }

    async fn take_fence(&self, id: ResourceId) -> Result<Commit<u64>, EngineError> {
        let id = self.numbers.there(id);
        Ok(self.known(self.engine.take_fence(id).await?))
    }

    async fn raise_floor(&self, floor: u64) -> Result<Commit<()>, EngineError> {
        Ok(self.known(self.engine.raise_floor(floor).await?))
    }

    async fn compactable(
        &self,
        before: SystemTime,
        max_bytes: u64,
        max: usize,
    ) -> Result<Option<Compaction>, EngineError> {
        let found = self.engine.compactable(before, max_bytes, max).await?;
        Ok(found.map(|found| renumber(found, |id| self.numbers.here(id))))
    }

    async fn compact(&self, compaction: &Compaction) -> Result<Commit<()>, EngineError> {
        let compaction = renumber(compaction.clone(), |id| self.numbers.there(id));
        Ok(self.known(self.engine.compact(&compaction).await?))
    }

    async fn collect_garbage(&self, max: usize) -> Result<usize, EngineError> {
        self.engine.collect_garbage(max).await
    }

    async fn prepare(&self) -> Result<(), EngineError> {
        self.engine.prepare().await
    }

    async fn save_definition(&self, group: &str, body: &str) -> Result<(), EngineError> {
        self.engine.save_definition(group, body).await
    }

    async fn load_definitions(&self) -> Result<Vec<(String, String)>, EngineError> {
        self.engine.load_definitions().await
    }

    async fn marks(
        &self,
        resource: ResourceId,
        after: Option<(&str, &str)>,
        max: usize,
    ) -> Result<Vec<DigestItem>, EngineError> {
        let resource = self.numbers.there(resource);
        self.engine.marks(resource, after, max).await
    }

    async fn write_copy(&self, path: &Path) -> Result<bool, EngineError> {
        self.engine.write_copy(path).await
    }

    async fn close(&self) {
        self.engine.close().await;
    }
}
