//! A database that fails: before a transaction, or after it was committed, when nobody can know.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::SystemTime;

use crds::control::{DigestItem, GateSpec};

use super::Fixture;
use crate::cache::{Log, LogError, LogPage};
use crate::model::{Dictionary, ObjectKey, ResourceDef, ResourceId, ResourceRecord, StoredObject};
use crate::store::DatabaseInfo;
use crate::store::engine::{
    Commit, Compaction, DictionaryOf, Engine, EngineError, ImportChunk, ImportOutcome, Loaded, Op,
    OpOutcome, Refusal, Tail,
};

/// The fault of the next transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// It fails and nothing is written.
    Before,
    /// It is committed, and then fails.
    After,
    /// It and all that follow fail.
    Down,
    /// The next read of objects fails, and no transaction does.
    Objects,
}

/// Arms a [`Faulty`] engine.
#[derive(Clone, Default)]
pub struct Trigger(Arc<AtomicU8>);

impl Trigger {
    pub fn arm(&self, fault: Fault) {
        self.0.store(fault as u8, Ordering::SeqCst);
    }

    /// Returns the fault for one transaction.
    fn take(&self) -> Fault {
        let armed = self.0.load(Ordering::SeqCst);
        if armed == Fault::Objects as u8 {
            return Fault::None;
        }
        if armed != Fault::Down as u8 {
            self.arm(Fault::None);
        }
        [Fault::None, Fault::Before, Fault::After, Fault::Down][usize::from(armed)]
    }

    /// Returns whether this read of objects fails.
    fn take_objects(&self) -> bool {
        let (armed, none) = (Fault::Objects as u8, Fault::None as u8);
        let taken = self
            .0
            .compare_exchange(armed, none, Ordering::SeqCst, Ordering::SeqCst);
        taken.is_ok()
    }
}

/// A fixture whose engine fails when it is told to.
pub struct FaultyFixture<'a> {
    pub inner: &'a dyn Fixture,
    pub trigger: Trigger,
}

#[async_trait::async_trait]
impl Fixture for FaultyFixture<'_> {
    async fn open(&self) -> Arc<dyn Engine> {
        Arc::new(Faulty {
            inner: self.inner.open().await,
            trigger: self.trigger.clone(),
        })
    }
}

struct Faulty {
    inner: Arc<dyn Engine>,
    trigger: Trigger,
}

fn failure() -> EngineError {
    EngineError::Database(sqlx::Error::WorkerCrashed)
}

impl Faulty {
    async fn transaction<T>(
        &self,
        transaction: impl Future<Output = Result<T, EngineError>> + Send,
    ) -> Result<T, EngineError> {
        match self.trigger.take() {
            Fault::None | Fault::Objects => transaction.await,
            Fault::Before | Fault::Down => Err(failure()),
            Fault::After => transaction.await.and_then(|_| Err(failure())),
        }
    }

    /// Fails while the database is down; reads fail only then.
    fn up(&self) -> Result<(), EngineError> {
        match self.trigger.0.load(Ordering::SeqCst) {
            armed if armed == Fault::Down as u8 => Err(failure()),
            _ => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl Log for Faulty {
    async fn events(
        &self,
        resource: ResourceId,
        after: u64,
        max: usize,
    ) -> Result<LogPage, LogError> {
        self.up().map_err(|error| LogError(Box::new(error)))?;
        self.inner.events(resource, after, max).await
    }
}

#[async_trait::async_trait]
impl Engine for Faulty {
    async fn load(&self) -> Result<Loaded, EngineError> {
        self.up()?;
        self.inner.load().await
    }

    async fn objects(
        &self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
        dictionary: &Arc<Dictionary>,
    ) -> Result<Vec<StoredObject>, EngineError> {
        if self.trigger.take_objects() {
            return Err(failure());
        }
        let objects = self.inner.objects(resource, after, max, dictionary);
        objects.await
    }

    async fn tail(
        &self,
        seq: u64,
        max: usize,
        dictionary_of: DictionaryOf<'_>,
    ) -> Result<Tail, EngineError> {
        self.up()?;
        // One by one, so that pages have to be put together.
        self.inner.tail(seq, max.min(1), dictionary_of).await
    }

    async fn newest_seq(&self) -> Result<Option<u64>, EngineError> {
        self.inner.newest_seq().await
    }

    fn announcements(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        self.inner.announcements()
    }

    fn is_listening(&self) -> bool {
        self.inner.is_listening()
    }

    fn arrivals(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        self.inner.arrivals()
    }

    fn is_unprepared(&self) -> bool {
        self.inner.is_unprepared()
    }

    fn info(&self) -> Option<DatabaseInfo> {
        self.inner.info()
    }

    async fn rejoin(&self, counter: u64) -> Result<(), EngineError> {
        self.transaction(self.inner.rejoin(counter)).await
    }

    async fn is_put_back(&self) -> Result<bool, EngineError> {
        self.up()?;
        self.inner.is_put_back().await
    }

    async fn begin_anew(&self, revision: u64) -> Result<(), EngineError> {
        self.transaction(self.inner.begin_anew(revision)).await
    }

    async fn prepare(&self) -> Result<(), EngineError> {
        self.up()?;
        self.inner.prepare().await
    }

    async fn commit(&self, ops: Vec<Op>) -> Result<Commit<Vec<OpOutcome>>, EngineError> {
        self.transaction(self.inner.commit(ops)).await
    }

    async fn define(&self, def: &ResourceDef) -> Result<Commit<ResourceRecord>, EngineError> {
        self.transaction(self.inner.define(def)).await
    }

    async fn reset(
        &self,
        id: ResourceId,
        fence: Option<u64>,
    ) -> Result<Commit<Result<(), Refusal>>, EngineError> {
        self.transaction(self.inner.reset(id, fence)).await
    }

    async fn import(
        &self,
        chunk: ImportChunk,
    ) -> Result<Commit<Result<ImportOutcome, Refusal>>, EngineError> {
        self.transaction(self.inner.import(chunk)).await
    }

    async fn set_gate(
        &self,
        id: ResourceId,
        gate: &GateSpec,
        holder: Option<&str>,
    ) -> Result<Commit<Result<(), Refusal>>, EngineError> {
        self.transaction(self.inner.set_gate(id, gate, holder))
            .await
    }

    async fn take_fence(&self, id: ResourceId) -> Result<Commit<u64>, EngineError> {
        self.transaction(self.inner.take_fence(id)).await
    }

    async fn raise_floor(&self, floor: u64) -> Result<Commit<()>, EngineError> {
        self.transaction(self.inner.raise_floor(floor)).await
    }

    async fn compactable(
        &self,
        before: SystemTime,
        max_bytes: u64,
        max: usize,
    ) -> Result<Option<Compaction>, EngineError> {
        self.up()?;
        self.inner.compactable(before, max_bytes, max).await
    }

    async fn compact(&self, compaction: &Compaction) -> Result<Commit<()>, EngineError> {
        self.transaction(self.inner.compact(compaction)).await
    }

    async fn collect_garbage(&self, max: usize) -> Result<usize, EngineError> {
        self.up()?;
        self.inner.collect_garbage(max).await
    }

    async fn save_definition(&self, group: &str, body: &str) -> Result<(), EngineError> {
        self.transaction(self.inner.save_definition(group, body))
            .await
    }

    async fn load_definitions(&self) -> Result<Vec<(String, String)>, EngineError> {
        self.up()?;
        self.inner.load_definitions().await
    }

    async fn marks(
        &self,
        resource: ResourceId,
        after: Option<(&str, &str)>,
        max: usize,
    ) -> Result<Vec<DigestItem>, EngineError> {
        self.up()?;
        self.inner.marks(resource, after, max).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
