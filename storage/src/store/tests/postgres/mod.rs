//! PostgreSQL takes part in the suite, straight and through a pooler that gives every transaction
//! another connection. All tests share one server, as clusters share a database.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

use pgtest::{Pgbouncer, PgbouncerOptions};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{Fixture, suite};
use crate::store::PostgresOptions;
use crate::store::engine::Engine;
use crate::store::postgres::Postgres;

/// A server, a pooler before it, and the directories that name them.
struct Servers {
    server: pgtest::Postgres,
    _pooler: Pgbouncer,
    directory: TempDir,
}

static SERVERS: LazyLock<Servers> = LazyLock::new(|| {
    // A runtime does not start inside another one.
    let start = std::thread::spawn(|| Runtime::new().unwrap().block_on(start()));
    start.join().unwrap()
});

async fn start() -> Servers {
    let server = pgtest::Postgres::start(pgtest::PostgresOptions::quick())
        .await
        .unwrap();
    let pooler = Pgbouncer::start(&server, PgbouncerOptions::default())
        .await
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    for (name, params) in [("direct", server.params()), ("pooled", pooler.params())] {
        params.write(&directory.path().join(name)).unwrap();
    }
    Servers {
        server,
        _pooler: pooler,
        directory,
    }
}

/// A cluster of its own in the shared database.
pub(super) struct Cluster {
    options: PostgresOptions,
}

impl Cluster {
    fn on(way: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let directory: PathBuf = SERVERS.directory.path().join(way);
        let identity = format!("cluster {}", NEXT.fetch_add(1, Ordering::Relaxed));
        Self {
            options: PostgresOptions::new(directory, identity),
        }
    }

    /// Connects without anything between.
    pub fn direct() -> Self {
        Self::on("direct")
    }

    /// Connects through pgbouncer in transaction mode.
    pub fn pooled() -> Self {
        Self::on("pooled")
    }
}

#[async_trait::async_trait]
impl Fixture for Cluster {
    async fn open(&self) -> Arc<dyn Engine> {
        Arc::new(Postgres::open(&self.options).await.unwrap())
    }
}

mod elsewhere;
mod faults;
mod messages;
mod replicas;
mod turns;
mod wakeups;

mod direct {
    super::suite::on_engine!(super::Cluster::direct());
}

mod pooled {
    super::suite::on_engine!(super::Cluster::pooled());
}

#[test]
fn random_histories_are_kept() {
    super::history::check(&|| Box::new(Cluster::direct()));
}

#[test]
fn random_mirrors_are_taken_over() {
    super::mirror::check(&|| Box::new(Cluster::direct()));
}
