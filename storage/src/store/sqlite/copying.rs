//! Copies of the database that are made while it is in use.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use sqlx::{ConnectOptions as _, Connection as _};

use crate::store::engine::{EngineError, corrupt};

/// Writes the database as it is now to a new file, and reads the file once. Writes go on meanwhile;
/// the write-ahead log grows by them until this ends.
pub(super) async fn copy(readers: &SqlitePool, path: &Path) -> Result<(), EngineError> {
    let Some(text) = path.to_str() else {
        return Err(corrupt(&"the path of the copy", "is not UTF-8"));
    };
    // Not one of the pool's: they are for requests, and this takes long.
    let mut connection = readers.acquire().await?.detach();
    let copied = sqlx::query("VACUUM INTO ?")
        .bind(text)
        .execute(&mut connection)
        .await;
    connection.close().await?;
    copied?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .disable_statement_logging();
    let mut copy = options.connect().await?;
    let said: Result<String, sqlx::Error> = sqlx::query_scalar("PRAGMA quick_check(1)")
        .fetch_one(&mut copy)
        .await;
    copy.close().await?;
    sound(&said?)
}

/// Returns an error unless SQLite has found nothing.
pub(super) fn sound(said: &str) -> Result<(), EngineError> {
    match said {
        "ok" => Ok(()),
        said => Err(corrupt(&"the copy of the database", said)),
    }
}
