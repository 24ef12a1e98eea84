//! The mark by which a cluster moves away.

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::super::connection::PgConnection;
use super::super::rows::{column, un_db};
use crate::model::ResourceId;
use crate::store::engine::EngineError;
use crate::store::moving::rows::{Departure, LastCommit, Marker};

/// Has the commit of a transaction wait until it, and all before it, survive a crash.
pub(super) const DURABLE: &str = "SELECT set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') = 'off'";

/// Returns where the reports of `identity` have moved from the database behind `connection`.
pub(in crate::store::postgres) async fn find(
    connection: &PgConnection,
    identity: &str,
) -> Result<Option<Departure>, EngineError> {
    let found = connection
        .query(
            "SELECT d.source, d.attempt, d.identity, d.name, d.seq, d.batch, d.counter, d.here,
                 d.there
             FROM reports_server.departures d
             JOIN reports_server.clusters c ON c.cluster = d.cluster
             WHERE c.identity = $1 AND d.moved_at IS NOT NULL",
            &[(&identity, Type::TEXT)],
        )
        .await;
    let rows = match found {
        Ok(rows) => rows,
        // No server has been here yet, or only those of earlier releases.
        Err(error)
            if error.is(&SqlState::UNDEFINED_TABLE) || error.is(&SqlState::INVALID_SCHEMA_NAME) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    rows.first().map(departure).transpose()
}

fn departure(row: &Row) -> Result<Departure, EngineError> {
    let here: Vec<i64> = column(row, "here")?;
    let there: Vec<i64> = column(row, "there")?;
    Ok(Departure {
        marker: Marker {
            source: column(row, "source")?,
            attempt: column(row, "attempt")?,
            is_ordered: true,
            identity: column(row, "identity")?,
            name: column(row, "name")?,
            moved_at: Some(un_db(column(row, "seq")?)),
        },
        last: last_commit(row)?,
        ids: here.into_iter().map(ResourceId).zip(there).collect(),
    })
}

/// Returns the commit in a row.
pub(super) fn last_commit(row: &Row) -> Result<LastCommit, EngineError> {
    Ok(LastCommit {
        seq: un_db(column(row, "seq")?),
        batch: Some(column(row, "batch")?),
        counter: un_db(column(row, "counter")?),
    })
}
