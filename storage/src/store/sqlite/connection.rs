//! Connections, and the one transaction at a time that writes.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::rows::{db, un_db};
use crate::cache::Change;
use crate::model::{Position, ResourceId, ResourceRecord};
use crate::store::engine::{Commit, EngineError};

/// The size of a page. Pages of 8 KiB hold some four typical reports.
const PAGE_SIZE: u32 = 8192;

/// Size to which the write-ahead log is cut after a burst of writes, in bytes.
const JOURNAL_SIZE_LIMIT: &str = "67108864";

/// Returns the options of the writing connection.
pub(super) fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .page_size(PAGE_SIZE)
        .auto_vacuum(SqliteAutoVacuum::Incremental)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(5))
        .pragma("journal_size_limit", JOURNAL_SIZE_LIMIT)
        .disable_statement_logging()
}

/// Returns connections that read beside it; opened when they are needed.
pub(super) fn readers(path: &Path, max: u32) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .busy_timeout(Duration::from_secs(5))
        .disable_statement_logging();
    SqlitePoolOptions::new()
        .max_connections(max)
        .connect_lazy_with(options)
}

/// The connection that writes.
pub(super) struct Writer {
    options: SqliteConnectOptions,
    /// The connection; none after an error, whose transaction may still be open: the next one
    /// connects anew.
    connection: Arc<Mutex<Option<SqliteConnection>>>,
}

impl Writer {
    pub fn new(options: SqliteConnectOptions, connection: SqliteConnection) -> Self {
        Self {
            // A file that is gone meanwhile is not begun anew.
            options: options.create_if_missing(false),
            connection: Arc::new(Mutex::new(Some(connection))),
        }
    }

    /// Begins a transaction and takes the lock that every writer takes.
    pub async fn begin(&self) -> Result<Tx, EngineError> {
        let mut slot = Arc::clone(&self.connection).lock_owned().await;
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => self.options.connect().await?,
        };
        sqlx::query("BEGIN IMMEDIATE")
            .execute(&mut connection)
            .await?;
        let (seq, counter) = sqlx::query_as("SELECT seq, counter FROM position")
            .fetch_one(&mut connection)
            .await?;
        let before = Position {
            seq: un_db(seq),
            counter: un_db(counter),
        };
        let (changes, records) = (Vec::new(), Vec::new());
        Ok(Tx {
            connection,
            slot,
            before,
            log_bytes: 0,
            position: before,
            changes,
            records,
        })
    }

    /// Closes the connection, which folds the write-ahead log into the database.
    pub async fn close(&self) {
        if let Some(connection) = self.connection.lock().await.take()
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "closing the database");
        }
    }
}

/// A transaction that writes. Dropped without [`Tx::commit`] it is rolled back, with its
/// connection.
pub(super) struct Tx {
    connection: SqliteConnection,
    slot: OwnedMutexGuard<Option<SqliteConnection>>,
    before: Position,
    /// Bytes by which the log grows.
    pub log_bytes: i64,
    /// The position in the sequence after the commit.
    pub position: Position,
    /// The changes, for the cache.
    pub changes: Vec<(ResourceId, Change)>,
    /// Records that were changed, for the cache.
    pub records: Vec<ResourceRecord>,
}

impl Tx {
    /// Commits.
    pub async fn commit<T>(mut self, outcome: T) -> Result<Commit<T>, EngineError> {
        let Position { seq, counter } = self.position;
        if self.position != self.before || self.log_bytes != 0 {
            sqlx::query("UPDATE position SET seq = ?, counter = ?, log_bytes = log_bytes + ?")
                .bind(db(seq))
                .bind(db(counter))
                .bind(self.log_bytes)
                .execute(&mut self.connection)
                .await?;
        }
        sqlx::query("COMMIT").execute(&mut self.connection).await?;
        *self.slot = Some(self.connection);
        Ok(Commit {
            outcome,
            before: self.before.seq,
            position: self.position,
            changes: self.changes,
            records: self.records,
        })
    }

    /// Takes everything back.
    pub async fn rollback<T>(mut self, outcome: T) -> Result<Commit<T>, EngineError> {
        sqlx::query("ROLLBACK")
            .execute(&mut self.connection)
            .await?;
        *self.slot = Some(self.connection);
        let (changes, records) = (Vec::new(), Vec::new());
        Ok(Commit {
            outcome,
            before: self.before.seq,
            position: self.before,
            changes,
            records,
        })
    }
}

impl Deref for Tx {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.connection
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }
}
