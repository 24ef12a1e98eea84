//! The changes of a copy before it is served in the place of a database that was lost.

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use super::Sqlite;
use super::copying::sound;
use super::rows::{db, un_db};
use crate::store::engine::{EngineError, corrupt};

/// Number of versions by which clients may be ahead of a copy. Versions are plentiful; it is the same
/// number as for a PostgreSQL that was put back.
const MARGIN: u64 = 1 << 20;

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
    pub async fn check_origin(path: &Path) -> Result<(), EngineError> {
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

    /// Returns an error where a page or an index of the database is damaged.
    pub async fn check(&self) -> Result<(), EngineError> {
        let said: String = sqlx::query_scalar("PRAGMA integrity_check(1)")
            .fetch_one(&self.readers)
            .await?;
        sound(&said)
    }

    /// Makes a copy fit to be served. Versions that were served after it was made would be given
    /// again, to other objects: so the counter jumps, and every history begins anew behind it. A move
    /// that was begun then is not continued. Of another cluster's etcd, nothing stays known.
    pub async fn take_over(&self, same_cluster: bool) -> Result<(), EngineError> {
        let mut tx = self.writer.begin().await?;
        tx.position.counter += MARGIN;
        let counter = db(tx.position.counter);
        sqlx::query(
            "UPDATE resources SET horizon = ?, newest_logged = max(newest_logged, ?)
             WHERE opened_rv IS NOT NULL",
        )
        .bind(counter)
        .bind(counter)
        .execute(&mut *tx)
        .await?;
        sqlx::query("DELETE FROM moves").execute(&mut *tx).await?;
        if !same_cluster {
            for statement in FOREIGN {
                sqlx::query(statement).execute(&mut *tx).await?;
            }
        }
        tx.commit(()).await.map(drop)
    }
}
