//! The capabilities of the database, looked at when the store is opened.

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::Postgres;
use super::connection::{PgConnection, STATEMENT};
use super::error::PostgresError;
use super::instance::Greeting;
use super::rows::column;
use crate::store::engine::EngineError;
use crate::store::{DatabaseInfo, OpenError};

/// The findings of two sessions that run side by side.
struct Sessions {
    locks: bool,
    moves: bool,
    prepared: bool,
}

/// Looks at the properties that correctness depends on, and at those that make things faster.
///
/// # Errors
/// If a row that one transaction has locked can be locked by another: then no promise of the store
/// would hold.
pub(super) async fn probe(
    engine: &Postgres,
    greeting: Greeting,
) -> Result<DatabaseInfo, OpenError> {
    let sessions = sessions(engine).await?;
    if !sessions.locks {
        return Err(OpenError::Unsuitable(
            "a row that one transaction has locked can be locked by another".to_owned(),
        ));
    }
    let reader = engine.readers.get().await.map_err(EngineError::from)?;
    let rows = reader
        .query(
            "SELECT log_end IS NOT NULL AS partitions,
                 (SELECT attcompression = 'l' FROM pg_attribute
                  WHERE attrelid = 'reports_server.frames'::regclass AND attname = 'text') AS lz4
             FROM reports_server.clusters WHERE cluster = $1",
            &[(&engine.cluster, Type::INT4)],
        )
        .await
        .map_err(EngineError::from)?;
    reader.keep();
    let row = rows.first().ok_or(EngineError::Parted)?;
    let info = DatabaseInfo {
        version: greeting.version.to_string(),
        pooler: greeting.plain || sessions.moves,
        prepared_statements: sessions.prepared,
        partitions: column(row, "partitions")?,
        lz4: column::<Option<bool>>(row, "lz4")?.unwrap_or(false),
        notifications: false,
    };
    tracing::info!(
        version = info.version,
        pooler = info.pooler,
        prepared_statements = info.prepared_statements,
        partitions = info.partitions,
        lz4 = info.lz4,
        "the database can do what is needed"
    );
    Ok(info)
}

/// Has two connections work side by side. While the second is inside a transaction, a pooler gives
/// the first another session than the one that it began with.
async fn sessions(engine: &Postgres) -> Result<Sessions, EngineError> {
    const LOCK: &str = "SELECT FROM reports_server.clusters WHERE cluster = $1 FOR UPDATE";
    let cluster = [(&engine.cluster as _, Type::INT4)];
    let first = engine.connector.connect().await?;
    let prepared = first.prepare("SELECT 1").await;
    let before = session(&first).await?;
    let second = engine.connector.connect().await?;
    second.batch("BEGIN", STATEMENT).await?;
    second.query(LOCK, &cluster).await?;
    let moves = session(&first).await? != before;
    let locked = first.query(&format!("{LOCK} NOWAIT"), &cluster).await;
    let prepared = match prepared {
        Ok(statement) => first.prepared(&statement).await,
        Err(error) => Err(error),
    };
    second.batch("ROLLBACK", STATEMENT).await?;
    first.close().await;
    second.close().await;
    Ok(Sessions {
        locks: match locked {
            Ok(_) => false,
            Err(error) if error.is(&SqlState::LOCK_NOT_AVAILABLE) => true,
            Err(error) => return Err(error.into()),
        },
        moves,
        prepared: match prepared {
            Ok(_) => true,
            // A pooler that does not carry them says so, or hands the name to who has none.
            Err(PostgresError::Statement(error)) if !error.is_closed() => false,
            Err(error) => return Err(error.into()),
        },
    })
}

/// Returns the session of the database that a connection has now.
async fn session(connection: &PgConnection) -> Result<i32, EngineError> {
    let rows = connection
        .query("SELECT pg_backend_pid() AS pid", &[])
        .await?;
    let row = rows.first().ok_or(PostgresError::NoAnswer)?;
    column(row, "pid")
}
