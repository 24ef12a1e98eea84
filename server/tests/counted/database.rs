//! The databases, and the figures that they give of themselves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pgtest::{Postgres, USER};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use storage::store::{PostgresOptions, StoreOptions};
use tempfile::TempDir;

/// Length of SQLite's log at which it is begun anew, and says nothing of what was written: a
/// thousand pages and their heads.
const LONGEST_LOG: u64 = 1000 * (8192 + 24);

/// The end of the log, and the statements of the server so far. Its question for the newest commit
/// is left out: it asks every now and then by the clock. Those of requests are in the figures of the
/// store.
const MARK: &str = "
    SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::int8,
        (SELECT coalesce(sum(s.calls), 0)::int8
         FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid
         WHERE r.rolname = $1
           AND s.query NOT LIKE 'SELECT seq, batch FROM reports_server.commits%')";

/// Bytes of all tables and indexes but the log, which alone is in partitions, and of the log.
const POSTGRES_BYTES: &str = "
    SELECT coalesce(sum(size) FILTER (WHERE NOT relispartition), 0)::int8,
        coalesce(sum(size) FILTER (WHERE relispartition), 0)::int8
    FROM (SELECT c.relispartition, pg_total_relation_size(c.oid) AS size
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE n.nspname = 'reports_server' AND c.relkind = 'r') tables";
/// The same in SQLite.
const SQLITE_BYTES: &str = "
    SELECT coalesce(sum(CASE WHEN name IN ('changes', 'changes_event') THEN 0 ELSE pgsize END), 0),
        coalesce(sum(CASE WHEN name IN ('changes', 'changes_event') THEN pgsize ELSE 0 END), 0)
    FROM dbstat";

pub enum Database {
    Sqlite(TempDir),
    Postgres(Box<Postgres>),
}

/// Sums at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Bytes of the write-ahead log.
    pub log: u64,
    /// Statements of the server; none are counted in SQLite.
    pub statements: u64,
}

/// Bytes on disk.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// All tables and their indexes, without the log of changes.
    pub kept: u64,
    /// The log of changes.
    pub changes: u64,
}

impl Database {
    pub fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    /// Starts a PostgreSQL that writes no images of whole pages into its log, and does nothing of
    /// its own accord.
    pub async fn postgres() -> Self {
        let options = pgtest::PostgresOptions::quick()
            .with("autovacuum", "off")
            .with("checkpoint_timeout", "1h")
            .with("shared_preload_libraries", "pg_stat_statements");
        let server = Postgres::start(options).await.unwrap();
        let extension = server.sql("CREATE EXTENSION pg_stat_statements").await;
        extension.unwrap();
        Self::Postgres(Box::new(server))
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    pub fn options(&self) -> StoreOptions {
        match self {
            Self::Sqlite(directory) => StoreOptions::new(file(directory)),
            Self::Postgres(server) => {
                let options = PostgresOptions::new(server.params_dir().unwrap(), "counted");
                StoreOptions::on(storage::store::Database::Postgres(options))
            }
        }
    }

    /// Makes room in the log of changes. The server does so once, soon after its start, and the
    /// partitions would be in the costs of whatever runs then.
    pub async fn prepare(&self) {
        if let Self::Postgres(server) = self {
            let client = server.client().await.unwrap();
            let prepare =
                "SELECT reports_server.prepare_log_v1(cluster) FROM reports_server.clusters";
            client.batch_execute(prepare).await.unwrap();
        }
    }

    /// Returns the sums, from which those of a later [`Database::mark`] count.
    pub async fn begin(&self) -> Mark {
        if let Self::Sqlite(directory) = self {
            cut_log(&file(directory)).await;
        }
        self.mark().await
    }

    pub async fn mark(&self) -> Mark {
        match self {
            Self::Sqlite(directory) => Mark {
                log: log_length(&file(directory)),
                statements: 0,
            },
            Self::Postgres(server) => {
                let client = server.superuser().await.unwrap();
                let row = client.query_one(MARK, &[&USER]).await.unwrap();
                Mark {
                    log: unsigned(row.get(0)),
                    statements: unsigned(row.get(1)),
                }
            }
        }
    }

    /// Returns the bytes on disk, after what is not needed any more was given free.
    pub async fn stored(&self) -> Stored {
        let (kept, changes) = match self {
            Self::Sqlite(directory) => {
                let mut connection = connect(&file(directory)).await;
                let bytes: (i64, i64) = sqlx::query_as(SQLITE_BYTES)
                    .fetch_one(&mut connection)
                    .await
                    .unwrap();
                connection.close().await.unwrap();
                bytes
            }
            Self::Postgres(server) => {
                server.sql("VACUUM").await.unwrap();
                let client = server.superuser().await.unwrap();
                let row = client.query_one(POSTGRES_BYTES, &[]).await.unwrap();
                (row.get(0), row.get(1))
            }
        };
        Stored {
            kept: unsigned(kept),
            changes: unsigned(changes),
        }
    }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap()
}

fn file(directory: &TempDir) -> PathBuf {
    directory.path().join("reports.db")
}

async fn connect(file: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .busy_timeout(Duration::from_secs(5));
    options.connect().await.unwrap()
}

/// Brings what is in the log into the database and cuts the log to nothing.
async fn cut_log(file: &Path) {
    let mut connection = connect(file).await;
    let (busy, _, _): (i64, i64, i64) = sqlx::query_as("PRAGMA wal_checkpoint(TRUNCATE)")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(busy, 0, "somebody uses the log");
    connection.close().await.unwrap();
}

fn log_length(file: &Path) -> u64 {
    let log = file.with_extension("db-wal");
    let length = std::fs::metadata(log).unwrap().len();
    assert!(length < LONGEST_LOG, "the log was begun anew");
    length
}
