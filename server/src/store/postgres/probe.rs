//! What the database can do, looked at when the store is opened.

use database::ServerVersion;
use tokio_postgres::{error::SqlState, types::Type};

use super::{
    Postgres,
    connection::{Link, STATEMENT},
    error::PostgresError,
    rows::column,
};
use crate::store::{DatabaseInfo, OpenError, engine::EngineError};

/// What the first connection tells.
pub(super) struct Greeting {
    pub version: ServerVersion,
    pub pooler: bool,
}

/// Looks at what correctness rests on, and at what makes things faster.
///
/// # Errors
/// When a row that one transaction has locked can be locked by another: then nothing that is
/// promised here would hold.
pub(super) async fn probe(
    engine: &Postgres,
    greeting: Greeting,
) -> Result<DatabaseInfo, OpenError> {
    if !locks_rows(engine).await? {
        return Err(OpenError::Unsuitable(
            "a row that one transaction has locked can be locked by another".to_owned(),
        ));
    }
    let reader = engine.readers.get().await.map_err(EngineError::from)?;
    let rows = reader
        .query(
            "SELECT log_end IS NOT NULL AS partitions,
                 (SELECT attcompression = 'l' FROM pg_attribute
                  WHERE attrelid = 'reports_server.objects'::regclass AND attname = 'body') AS lz4
             FROM reports_server.clusters WHERE cluster = $1",
            &[(&engine.cluster, Type::INT4)],
        )
        .await
        .map_err(EngineError::from)?;
    reader.keep();
    let row = rows.first().ok_or(EngineError::Parted)?;
    let info = DatabaseInfo {
        version: greeting.version.to_string(),
        pooler: greeting.pooler,
        partitions: column(row, "partitions")?,
        lz4: column::<Option<bool>>(row, "lz4")?.unwrap_or(false),
        notifications: false,
    };
    tracing::info!(
        version = info.version,
        pooler = info.pooler,
        partitions = info.partitions,
        lz4 = info.lz4,
        "the database can do what is needed"
    );
    Ok(info)
}

/// Whether the row that orders all writers is held by one at a time.
async fn locks_rows(engine: &Postgres) -> Result<bool, EngineError> {
    const LOCK: &str = "SELECT FROM reports_server.clusters WHERE cluster = $1 FOR UPDATE";
    let first = engine.connector.connect().await?;
    first.batch("BEGIN", STATEMENT).await?;
    first.query(LOCK, &[(&engine.cluster, Type::INT4)]).await?;
    let second = engine.connector.connect().await?;
    let locked = second
        .query(&format!("{LOCK} NOWAIT"), &[(&engine.cluster, Type::INT4)])
        .await;
    end(first, second).await?;
    match locked {
        Ok(_) => Ok(false),
        Err(PostgresError::Statement(error))
            if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) =>
        {
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

async fn end(first: Link, second: Link) -> Result<(), EngineError> {
    first.batch("ROLLBACK", STATEMENT).await?;
    first.close().await;
    second.close().await;
    Ok(())
}
