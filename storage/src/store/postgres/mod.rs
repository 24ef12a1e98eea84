//! The PostgreSQL engine: any number of servers on one database, and any number of clusters in it.
//!
//! One connection of each server writes, in its committer's order; a few others read beside it.
//! Every transaction that writes begins by locking the row of its cluster, so that seq and versions
//! follow the order of commits over all servers. Nothing else is needed for correctness: no
//! sequence, no notification, no lock that outlives its transaction, no prepared statement, so a
//! pooler between may hand every transaction to another connection.

mod commit;
mod compact;
mod connection;
mod error;
mod import;
mod instance;
mod lineage;
mod migrate;
pub(super) mod moving;
mod notifier;
mod open;
mod place;
mod probe;
mod projection;
mod read;
mod rejoin;
mod resources;
mod rows;
mod tx;
mod write;

use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

use crds::control::{DigestItem, GateSpec};
use tokio::sync::watch;
use tokio_postgres::types::Type;

pub use self::error::PostgresError;
pub(crate) use self::instance::Postgres;
pub(crate) use self::open::Found;
pub use self::place::{FoundHistories, OtherDatabase};
use self::tx::Tx;
use super::DatabaseInfo;
use super::engine::{
    Commit, Compaction, DictionaryOf, Engine, EngineError, ImportChunk, ImportOutcome, Loaded, Op,
    OpOutcome, Refusal, Tail,
};
use crate::cache::{Log, LogError, LogPage};
use crate::model::{Dictionary, ObjectKey, ResourceDef, ResourceId, ResourceRecord, StoredObject};

#[async_trait::async_trait]
impl Log for Postgres {
    async fn events(
        &self,
        resource: ResourceId,
        after: u64,
        max: usize,
    ) -> Result<LogPage, LogError> {
        read::events(self, resource, after, max)
            .await
            .map_err(|error| LogError(Box::new(error)))
    }
}

#[async_trait::async_trait]
impl Engine for Postgres {
    async fn load(&self) -> Result<Loaded, EngineError> {
        read::load(self).await
    }

    async fn objects(
        &self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
        dictionary: &Arc<Dictionary>,
    ) -> Result<Vec<StoredObject>, EngineError> {
        read::objects(self, resource, after, max, dictionary).await
    }

    async fn tail(
        &self,
        seq: u64,
        max: usize,
        dictionary_of: DictionaryOf<'_>,
    ) -> Result<Tail, EngineError> {
        read::tail(self, seq, max, dictionary_of).await
    }

    async fn newest_seq(&self) -> Result<Option<u64>, EngineError> {
        read::newest_seq(self).await.map(Some)
    }

    fn projects(&self) -> bool {
        true
    }

    fn announcements(&self) -> Option<watch::Receiver<u64>> {
        Some(self.notifier.announced())
    }

    fn is_listening(&self) -> bool {
        self.notifier.is_listening()
    }

    fn arrivals(&self) -> Option<watch::Receiver<u64>> {
        Some(self.notifier.arrivals())
    }

    fn info(&self) -> Option<DatabaseInfo> {
        let mut info = self.info.get()?.clone();
        info.notifications = self.notifier.is_listening();
        Some(info)
    }

    fn history(&self) -> Option<String> {
        Some(self.place.history.clone())
    }

    fn elsewhere(&self) -> Option<String> {
        self.connector.elsewhere()
    }

    async fn rejoin(&self, counter: u64) -> Result<(), EngineError> {
        rejoin::rejoin(self, counter).await
    }

    async fn is_put_back(&self) -> Result<bool, EngineError> {
        rejoin::is_put_back(self).await
    }

    async fn begin_anew(&self, revision: u64) -> Result<(), EngineError> {
        rejoin::begin_above(self, revision).await
    }

    async fn commit(&self, ops: Vec<Op>) -> Result<Commit<Vec<OpOutcome>>, EngineError> {
        commit::commit(self, ops).await
    }

    async fn define(&self, def: &ResourceDef) -> Result<Commit<ResourceRecord>, EngineError> {
        resources::define(Tx::begin(self).await?, def).await
    }

    async fn reset(
        &self,
        id: ResourceId,
        fence: Option<u64>,
    ) -> Result<Commit<Result<(), Refusal>>, EngineError> {
        resources::reset(Tx::begin(self).await?, id, fence).await
    }

    async fn import(
        &self,
        chunk: ImportChunk,
    ) -> Result<Commit<Result<ImportOutcome, Refusal>>, EngineError> {
        import::import(Tx::begin(self).await?, chunk).await
    }

    async fn set_gate(
        &self,
        id: ResourceId,
        gate: &GateSpec,
        holder: Option<&str>,
    ) -> Result<Commit<Result<(), Refusal>>, EngineError> {
        resources::set_gate(Tx::begin(self).await?, id, gate, holder).await
    }

    async fn take_fence(&self, id: ResourceId) -> Result<Commit<u64>, EngineError> {
        resources::take_fence(Tx::begin(self).await?, id).await
    }

    async fn raise_floor(&self, floor: u64) -> Result<Commit<()>, EngineError> {
        let mut tx = Tx::begin(self).await?;
        tx.position.counter = tx.position.counter.max(floor);
        tx.commit(()).await
    }

    async fn compactable(
        &self,
        before: SystemTime,
        max_bytes: u64,
        _: usize,
    ) -> Result<Option<Compaction>, EngineError> {
        compact::compactable(self, before, max_bytes).await
    }

    async fn compact(&self, compaction: &Compaction) -> Result<Commit<()>, EngineError> {
        compact::compact(Tx::begin(self).await?, compaction).await
    }

    async fn collect_garbage(&self, max: usize) -> Result<usize, EngineError> {
        compact::collect_garbage(self, max).await
    }

    fn is_unprepared(&self) -> bool {
        self.follower.take_opened()
    }

    async fn prepare(&self) -> Result<(), EngineError> {
        compact::prepare(self).await
    }

    async fn save_definition(&self, group: &str, body: &str) -> Result<(), EngineError> {
        // Behind the lock: the cluster may be on its way to another database.
        let tx = Tx::begin(self).await?;
        tx.execute(
            "INSERT INTO reports_server.definitions (cluster, api_group, body)
             VALUES ($1, $2, $3)
             ON CONFLICT (cluster, api_group) DO UPDATE SET body = excluded.body",
            &[
                (tx.cluster(), Type::INT4),
                (&group, Type::TEXT),
                (&body, Type::TEXT),
            ],
        )
        .await?;
        tx.commit(()).await.map(drop)
    }

    async fn load_definitions(&self) -> Result<Vec<(String, String)>, EngineError> {
        read::definitions(self).await
    }

    async fn marks(
        &self,
        resource: ResourceId,
        after: Option<(&str, &str)>,
        max: usize,
    ) -> Result<Vec<DigestItem>, EngineError> {
        read::marks(self, resource, after, max).await
    }

    async fn close(&self) {
        let tasks = self
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(tasks);
        self.readers.close().await;
        self.follower.close().await;
        self.writer.close().await;
    }
}
