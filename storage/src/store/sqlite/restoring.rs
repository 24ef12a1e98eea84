//! The changes of a copy before it is served in the place of a database that was lost.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use super::Sqlite;
use super::arrival::go_on_from;
use super::connection::Tx;
use super::copying::{readable, sound};
use super::rows::{db, un_db};
use crate::store::engine::{EngineError, corrupt};
use crate::store::moving::rows::LastCommit;

/// Number of versions by which clients may be ahead of a copy. Versions are plentiful; it is the same
/// number as for a PostgreSQL that was put back.
const MARGIN: u64 = 1 << 20;

/// Statement that marks a copy as put back, in the number that SQLite keeps for its users.
const PUT_BACK: &str = "PRAGMA user_version = 1";
/// Statement that takes the mark away.
const SERVED: &str = "PRAGMA user_version = 0";

/// Statements that forget what is known of the etcd of another cluster: with the marks, everything
/// that is missing in this one would be taken for deleted.
const FOREIGN: [&str; 4] = [
    "DELETE FROM imported",
    "DELETE FROM mirror_events",
    "UPDATE objects SET as_imported = 0 WHERE as_imported <> 0",
    "UPDATE resources SET imported = 0 WHERE imported <> 0",
];

impl Sqlite {
    /// Returns an error unless the file at `path` is a database of ours. [`open`](Self::open) gives any
    /// other one, and a file without a byte, the tables that it lacks, and it is served as an empty one.
    /// Nor may it have a write-ahead log, which a copy of the file alone lacks.
    pub async fn check_origin(path: &Path) -> Result<(), EngineError> {
        if has_log(path).map_err(sqlx::Error::from)? {
            let why = "it was copied without its write-ahead log, which may hold the newest writes; \
                       take a backup instead, or copy it with VACUUM INTO; a file that is complete \
                       passes after PRAGMA journal_mode = DELETE";
            return Err(corrupt(&"the file", why));
        }
        let options = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .disable_statement_logging();
        let mut connection = options.connect().await?;
        let tables: Result<i64, sqlx::Error> = sqlx::query_scalar(
            "SELECT count(*) FROM sqlite_master WHERE type = 'table'
                 AND name IN ('_sqlx_migrations', 'objects', 'position', 'resources')",
        )
        .fetch_one(&mut connection)
        .await;
        connection.close().await?;
        match tables? {
            4 => Ok(()),
            _ => Err(corrupt(&"the file", "it is no database of reports")),
        }
    }

    /// Returns the number of stored objects.
    pub async fn objects_stored(&self) -> Result<u64, EngineError> {
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM objects")
            .fetch_one(&self.readers)
            .await?;
        Ok(un_db(count))
    }

    /// Returns an error where a page, an index or the text of an object is damaged.
    pub async fn check(&self) -> Result<(), EngineError> {
        let mut connection = self.readers.acquire().await?;
        let said: String = sqlx::query_scalar("PRAGMA integrity_check(1)")
            .fetch_one(&mut *connection)
            .await?;
        sound(&said)?;
        readable(&mut connection).await
    }

    /// Makes a copy fit to be served. Versions that were served after it was made would be given
    /// again, to other objects: so the counter jumps, and every history begins anew behind it. A move
    /// that was begun then is not continued. Of another cluster's etcd, nothing stays known. Etcd's
    /// revision is not known here, so the copy counts as put back until a server opens it.
    pub async fn take_over(&self, same_cluster: bool) -> Result<(), EngineError> {
        let mut tx = self.writer.begin().await?;
        tx.position.counter += MARGIN;
        begin_histories(&mut tx).await?;
        sqlx::query(PUT_BACK).execute(&mut *tx).await?;
        for statement in ["DELETE FROM moves", "DELETE FROM arrivals"] {
            sqlx::query(statement).execute(&mut *tx).await?;
        }
        if !same_cluster {
            for statement in FOREIGN {
                sqlx::query(statement).execute(&mut *tx).await?;
            }
        }
        tx.commit(()).await.map(drop)
    }

    /// See [`Engine::is_put_back`](crate::store::engine::Engine::is_put_back).
    pub(super) async fn has_put_back(&self) -> Result<bool, EngineError> {
        let mark: i64 = sqlx::query_scalar("SELECT user_version FROM pragma_user_version")
            .fetch_one(&self.readers)
            .await?;
        Ok(mark != 0)
    }

    /// See [`Engine::begin_anew`](crate::store::engine::Engine::begin_anew).
    pub(super) async fn begin_above(&self, revision: u64) -> Result<(), EngineError> {
        let mut tx = self.writer.begin().await?;
        tx.position.counter = tx.position.counter.max(revision + MARGIN);
        begin_histories(&mut tx).await?;
        sqlx::query(SERVED).execute(&mut *tx).await?;
        tx.commit(()).await.map(drop)
    }
}

impl Sqlite {
    /// Has the reports count here again that have moved away by an attempt. The database that they
    /// were moved to may have been in use, so every history begins anew, above etcd's `revision`.
    /// Returns false where no attempt of this number has moved them.
    pub async fn take_back(&self, attempt: i64, revision: u64) -> Result<bool, EngineError> {
        let mut tx = self.writer.begin().await?;
        let moved = sqlx::query(
            "UPDATE moves SET seq = NULL, moved_at = NULL WHERE attempt = ? AND seq IS NOT NULL",
        )
        .bind(attempt)
        .execute(&mut *tx)
        .await?;
        if moved.rows_affected() == 0 {
            return Ok(false);
        }
        tx.position.counter = tx.position.counter.max(revision) + MARGIN;
        begin_histories(&mut tx).await?;
        tx.commit(()).await?;
        Ok(true)
    }
}

impl Sqlite {
    /// Begins the histories anew where the database [is apart](Self::is_apart) from the one that was
    /// moved here, above etcd's `revision`.
    pub async fn begin_behind(&self, last: &LastCommit, revision: u64) -> Result<(), EngineError> {
        let mut tx = self.writer.begin().await?;
        let newest = tx.position.counter.max(last.counter).max(revision);
        tx.position.counter = newest + MARGIN;
        begin_histories(&mut tx).await?;
        go_on_from(&mut tx, last).await?;
        tx.commit(()).await.map(drop)
    }
}

/// Begins the history of every resource that was served anew, at the counter.
async fn begin_histories(tx: &mut Tx) -> Result<(), EngineError> {
    let counter = db(tx.position.counter);
    sqlx::query(
        "UPDATE resources SET horizon = ?, newest_logged = max(newest_logged, ?)
         WHERE opened_rv IS NOT NULL",
    )
    .bind(counter)
    .bind(counter)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Returns whether the header of a database says that it has a write-ahead log: both versions of its
/// format are 2. A copy that the server makes has none.
fn has_log(path: &Path) -> io::Result<bool> {
    let mut header = [0; 20];
    match File::open(path)?.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| header.ends_with(&[2, 2])),
    }
}
