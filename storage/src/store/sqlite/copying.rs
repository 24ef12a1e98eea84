//! Copies of the database that are made while it is in use.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqliteRow};
use sqlx::{ConnectOptions as _, Connection as _, Row as _, SqliteConnection};

use super::rows::{key, limit};
use crate::model::{Dictionary, Encoded, GroupResource, packed};
use crate::store::engine::{EngineError, corrupt};

/// Objects whose texts are read at a time.
const OBJECTS: usize = 50;
/// The remedy for a text that cannot be read, while a server still has the object in memory.
const REMEDY: &str = "no copy is made, since no server starts with it; this server still has the \
                      object in memory: change an annotation of it, or delete it, and try again";

/// Writes the database as it is now to a new file, and reads the file once, with the text of every
/// object. Writes go on meanwhile; the write-ahead log grows by them until the file is written.
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
    let checked = check(&mut copy).await;
    copy.close().await?;
    checked
}

async fn check(copy: &mut SqliteConnection) -> Result<(), EngineError> {
    let said: String = sqlx::query_scalar("PRAGMA quick_check(1)")
        .fetch_one(&mut *copy)
        .await?;
    sound(&said)?;
    match readable(copy).await {
        Err(EngineError::Corrupt { what, reason }) => {
            Err(corrupt(&what, format!("{reason}; {REMEDY}")))
        }
        read => read,
    }
}

/// Returns an error that names an object whose text cannot be read. SQLite's own checks do not look
/// into texts, and a start reads those of all objects. The log is not looked at: no history goes on
/// from a copy.
pub(super) async fn readable(connection: &mut SqliteConnection) -> Result<(), EngineError> {
    let mut after = 0_i64;
    loop {
        // The objects of resources that were reset are read by nobody.
        let rows = sqlx::query(
            "SELECT o.rowid AS place, r.api_group, r.resource, o.namespace, o.name, o.body
             FROM objects o CROSS JOIN resources r ON r.id = o.resource_id
             WHERE o.rowid > ? ORDER BY o.rowid LIMIT ?",
        )
        .bind(after)
        .bind(limit(OBJECTS))
        .fetch_all(&mut *connection)
        .await?;
        let Some(last) = rows.last() else {
            return Ok(());
        };
        after = last.try_get("place")?;
        let read = tokio::task::spawn_blocking(move || rows.iter().try_for_each(read));
        read.await.map_err(|error| corrupt(&"objects", error))??;
    }
}

/// Reads the text of an object as a start does.
fn read(row: &SqliteRow) -> Result<(), EngineError> {
    let resource = GroupResource::new(
        row.try_get::<&str, _>("api_group")?,
        row.try_get::<&str, _>("resource")?,
    );
    let object = format!("{resource} {}", key(row)?);
    let text = packed::unpack(row.try_get("body")?);
    let text = text.map_err(|error| unreadable(&object, &error))?;
    let encoded = Encoded::from_json(text, Dictionary::built_in());
    encoded
        .map(drop)
        .map_err(|error| unreadable(&object, &error))
}

fn unreadable(object: &str, error: &dyn std::error::Error) -> EngineError {
    corrupt(&object, format!("its text cannot be read: {error}"))
}

/// Returns an error unless SQLite has found nothing.
pub(super) fn sound(said: &str) -> Result<(), EngineError> {
    match said {
        "ok" => Ok(()),
        said => Err(corrupt(&"the copy of the database", said)),
    }
}
