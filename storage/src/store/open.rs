//! Opening a store: its database, its cache, and the tasks that go on beside it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::coalesced::Coalesced;
use super::committer::Committer;
use super::engine::Engine;
use super::follow::Versions;
use super::handle::Inner;
use super::maintenance::{self, History};
use super::postgres::Postgres;
use super::queue::Queue;
use super::registry::Registry;
use super::sqlite::Sqlite;
use super::stats::Counters;
use super::{Database, OpenError, Store, StoreOptions, compression, follower, moving};
use crate::cache::Shared;
use crate::model::Position;

impl Store {
    /// Opens the database that `options` name and fills the cache from it.
    ///
    /// # Errors
    /// If it is a file that another process has open, or it cannot be opened, brought up to date or
    /// read.
    pub async fn open(options: StoreOptions) -> Result<Self, OpenError> {
        let engine: Arc<dyn Engine> = match &options.database {
            Database::Sqlite(path) => Arc::new(Sqlite::open_in_use(path).await?.not_moved().await?),
            Database::Postgres(options) => Arc::new(Postgres::open(options).await?),
            Database::Movable(options_of_move) => {
                let (engine, mover, progress) =
                    moving::open(options_of_move, &options.etcd).await?;
                let store = Self::begin(engine, options, Some(progress)).await?;
                if let Some(mover) = mover {
                    mover.start(store.downgrade(), store.inner.stop.clone());
                }
                return Ok(store);
            }
        };
        Self::start(engine, options).await
    }

    /// Starts a store on `engine`.
    pub(crate) async fn start(
        engine: Arc<dyn Engine>,
        options: StoreOptions,
    ) -> Result<Self, OpenError> {
        Self::begin(engine, options, None).await
    }

    async fn begin(
        engine: Arc<dyn Engine>,
        options: StoreOptions,
        moving: Option<watch::Receiver<moving::Progress>>,
    ) -> Result<Self, OpenError> {
        if engine.is_put_back().await? {
            let revision = options.etcd.revision().await;
            engine
                .begin_anew(revision.map_err(OpenError::Revision)?)
                .await?;
        }
        let has_file = match &options.database {
            Database::Movable(options) => options.file.is_some(),
            Database::Sqlite(_) | Database::Postgres(_) => false,
        };
        let shared = Arc::new(Shared {
            applied: AtomicU64::new(0),
            commits: watch::Sender::new(Position::default()),
            indexed_labels: options.indexed_labels.into(),
            ring_limits: options.ring,
        });
        let registry = Arc::<Registry>::default();
        let queue = Arc::new(Queue::new(options.queue));
        let counters = Counters::new();
        let mut committer = Committer {
            engine: Arc::clone(&engine),
            registry: Arc::clone(&registry),
            shared: Arc::clone(&shared),
            queue: Arc::clone(&queue),
            counters: Arc::clone(&counters),
            observer: options.observer,
            position: Position::default(),
            versions: Versions::default(),
            in_step: true,
            parted: false,
        };
        committer.load().await?;
        let committer = tokio::sync::Mutex::new(Some(tokio::spawn(committer.run())));
        let stop = CancellationToken::new();
        let inner = Inner {
            engine,
            registry,
            shared,
            queue,
            counters,
            follower: Arc::default(),
            newest: Coalesced::default(),
            committer,
            stop,
            moving,
            has_file,
        };
        let store = Self {
            inner: Arc::new(inner),
        };
        let history = History {
            age: options.history,
            bytes: options.history_bytes,
        };
        maintenance::start(store.downgrade(), store.inner.stop.clone(), history);
        compression::start(store.downgrade(), store.inner.stop.clone());
        let follower = Arc::clone(&store.inner.follower);
        follower::start(follower, store.downgrade(), store.inner.stop.clone());
        Ok(store)
    }
}
