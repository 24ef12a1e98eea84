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
mod line;
mod migrate;
mod projection;
mod read;
mod rejoin;
mod resources;
mod rows;
mod tx;
mod write;

use std::{sync::Arc, time::SystemTime};

use crds::control::{DigestItem, GateSpec};
use tokio_postgres::types::Type;

pub use self::error::PostgresError;
use self::{
    connection::{Connector, Link, Readers, Writer},
    line::Line,
    projection::KnownChecks,
    rows::column,
    tx::Tx,
};
use super::{
    OpenError, PostgresOptions,
    engine::{
        Commit, Compaction, Engine, EngineError, ImportChunk, ImportOutcome, Loaded, Op, OpOutcome,
        Refusal, Tail,
    },
};
use crate::{
    cache::{Log, LogError, LogPage},
    model::{ObjectKey, ResourceDef, ResourceId, ResourceRecord, StoredObject},
};

/// Connections beside those that read objects and events: one writes, one follows other servers,
/// one listens to them and one tells them.
const RESERVED: usize = 4;

/// See the module's documentation.
pub(crate) struct Postgres {
    connector: Arc<Connector>,
    writer: Writer,
    /// Asks where the sequence has arrived, and reads what is new: never behind a large page.
    follower: Readers,
    readers: Readers,
    /// The cluster's number in this database.
    cluster: i32,
    line: Line,
    checks: KnownChecks,
}

impl Postgres {
    /// Connects, brings the schema up to date and finds the cluster's place in the database.
    pub async fn open(options: &PostgresOptions) -> Result<Self, OpenError> {
        let connector = Arc::new(Connector::new(
            &options.directory,
            &options.application_name,
        ));
        let link = connector.connect().await.map_err(EngineError::from)?;
        migrate::migrate(&link).await?;
        let cluster = register(&link, options).await?;
        link.close().await;
        let readers = options.max_connections.saturating_sub(RESERVED);
        let engine = Self {
            writer: Writer::new(Arc::clone(&connector)),
            follower: Readers::new(Arc::clone(&connector), 1),
            readers: Readers::new(Arc::clone(&connector), readers),
            connector,
            cluster,
            line: Line::default(),
            checks: KnownChecks::default(),
        };
        rejoin::check_origin(&engine).await?;
        Ok(engine)
    }
}

/// Finds the cluster's number, or gives it one.
async fn register(link: &Link, options: &PostgresOptions) -> Result<i32, EngineError> {
    let rows = link
        .long_query(
            "SELECT reports_server.register_v1($1, $2, $3) AS cluster",
            &[
                (&options.cluster_identity, Type::TEXT),
                (&options.cluster_name, Type::TEXT),
                (&true, Type::BOOL),
            ],
        )
        .await?;
    let row = rows.first().ok_or(EngineError::Parted)?;
    column(row, "cluster")
}

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
    ) -> Result<Vec<StoredObject>, EngineError> {
        read::objects(self, resource, after, max).await
    }

    async fn tail(&self, seq: u64, max: usize) -> Result<Tail, EngineError> {
        read::tail(self, seq, max).await
    }

    async fn newest_seq(&self) -> Result<Option<u64>, EngineError> {
        read::newest_seq(self).await.map(Some)
    }

    fn projects(&self) -> bool {
        true
    }

    async fn rejoin(&self, counter: u64) -> Result<(), EngineError> {
        rejoin::rejoin(self, counter).await
    }

    async fn commit(&self, ops: Vec<Op>) -> Result<Commit<Vec<OpOutcome>>, EngineError> {
        commit::commit(self, ops).await
    }

    async fn define(&self, def: &ResourceDef) -> Result<Commit<ResourceRecord>, EngineError> {
        resources::define(Tx::begin(self).await?, def).await
    }

    async fn reset(&self, id: ResourceId) -> Result<Commit<Result<(), Refusal>>, EngineError> {
        resources::reset(Tx::begin(self).await?, id).await
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
    ) -> Result<Commit<()>, EngineError> {
        resources::set_gate(Tx::begin(self).await?, id, gate, holder).await
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

    async fn prepare(&self) -> Result<(), EngineError> {
        compact::prepare(self).await
    }

    async fn save_definition(&self, group: &str, body: &str) -> Result<(), EngineError> {
        let (link, slot) = self.writer.take().await?;
        link.execute(
            "INSERT INTO reports_server.definitions (cluster, api_group, body)
             VALUES ($1, $2, $3)
             ON CONFLICT (cluster, api_group) DO UPDATE SET body = excluded.body",
            &[
                (&self.cluster, Type::INT4),
                (&group, Type::TEXT),
                (&body, Type::TEXT),
            ],
        )
        .await?;
        slot.put(link);
        Ok(())
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
        self.readers.close().await;
        self.follower.close().await;
        self.writer.close().await;
    }
}
