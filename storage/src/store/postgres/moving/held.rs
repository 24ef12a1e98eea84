//! The last moment of a database that is moved.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio_postgres::types::Type;

use super::super::Postgres;
use super::super::connection::{LONG_STATEMENT, PgConnection, STATEMENT};
use super::super::rows::{column, db};
use super::mark::{DURABLE, last_commit};
use crate::model::ResourceId;
use crate::store::engine::{EngineError, corrupt};
use crate::store::moving::rows::{Departure, LastCommit, Marker};
use crate::store::moving::source::{Hold, MarkError};

/// A database whose writers wait behind the lock of this transaction. Dropped without a mark it is
/// rolled back, with its connection.
pub(super) struct Held {
    connection: PgConnection,
    cluster: i32,
    server: String,
    /// The record of the attempt.
    marker: Marker,
    /// The end of the time for which others can wait.
    until: Instant,
}

impl Held {
    /// Takes the lock of all writers, for about `limit` at most, as long as the attempt of `server` is in
    /// force.
    pub async fn begin(
        engine: &Postgres,
        server: &str,
        attempt: i64,
        limit: Duration,
    ) -> Result<Self, EngineError> {
        let connection = engine.connector.connect().await?;
        let longest = limit;
        let limit = limit.as_millis().max(1);
        let begin = format!(
            "BEGIN;
             SET LOCAL idle_in_transaction_session_timeout = '{limit}ms';
             SET LOCAL statement_timeout = '{limit}ms';
             SET LOCAL lock_timeout = '{limit}ms'"
        );
        connection.batch(&begin, STATEMENT).await?;
        let until = Instant::now() + longest;
        let place = &engine.place;
        let rows = connection
            .query(
                "SELECT FROM reports_server.clusters
                 WHERE cluster = $1 AND identity = $2 AND history::text = $3 FOR UPDATE",
                &[
                    (&engine.cluster, Type::INT4),
                    (&place.identity, Type::TEXT),
                    (&place.history, Type::TEXT),
                ],
            )
            .await?;
        if rows.is_empty() {
            place.check(&connection).await?;
            return Err(EngineError::Parted);
        }
        let rows = connection
            .query(
                "SELECT source, identity, name FROM reports_server.departures
                 WHERE cluster = $1 AND attempt = $2 AND holder = $3 AND moved_at IS NULL",
                &[
                    (&engine.cluster, Type::INT4),
                    (&attempt, Type::INT8),
                    (&server, Type::TEXT),
                ],
            )
            .await?;
        let row = rows.first().ok_or_else(taken)?;
        let marker = Marker {
            source: column(row, "source")?,
            attempt,
            is_ordered: true,
            identity: column(row, "identity")?,
            name: column(row, "name")?,
            moved_at: None,
        };
        Ok(Self {
            connection,
            cluster: engine.cluster,
            server: server.to_owned(),
            marker,
            until,
        })
    }

    async fn depart(
        &self,
        last: LastCommit,
        number: i64,
        ids: &HashMap<ResourceId, i64>,
    ) -> Result<(), EngineError> {
        let left = self.until.saturating_duration_since(Instant::now());
        let limit = format!("SET LOCAL statement_timeout = '{}ms'", left.as_millis());
        if left.as_millis() == 0 {
            return Err(corrupt(&"the last step", "took too long"));
        }
        self.connection.batch(&limit, STATEMENT).await?;
        let (here, there): (Vec<i64>, Vec<i64>) =
            ids.iter().map(|(here, there)| (here.0, *there)).unzip();
        // A mark that a crash of the database undoes would have both count.
        self.connection.query(DURABLE, &[]).await?;
        let rows = self
            .connection
            .query(
                "SELECT reports_server.depart_v1($1, $2, $3, $4, $5, $6, $7, $8) AS marked",
                &[
                    (&self.cluster, Type::INT4),
                    (&self.marker.attempt, Type::INT8),
                    (&self.server, Type::TEXT),
                    (&number, Type::INT8),
                    (&db(last.seq), Type::INT8),
                    (&last.batch, Type::INT8),
                    (&here, Type::INT8_ARRAY),
                    (&there, Type::INT8_ARRAY),
                ],
            )
            .await?;
        let marked: bool = column(rows.first().ok_or(EngineError::Parted)?, "marked")?;
        if !marked {
            return Err(taken());
        }
        // A commit that is cut short while it waits for a synchronous standby counts as made, and
        // is lost with this server all the same.
        let unlimited = "SET LOCAL statement_timeout = 0";
        Ok(self.connection.batch(unlimited, STATEMENT).await?)
    }
}

#[async_trait::async_trait]
impl Hold for Held {
    async fn last(&mut self) -> Result<LastCommit, EngineError> {
        let rows = self
            .connection
            .query(
                "SELECT seq, batch, counter FROM reports_server.commits
                 WHERE cluster = $1 ORDER BY seq DESC LIMIT 1",
                &[(&self.cluster, Type::INT4)],
            )
            .await?;
        last_commit(rows.first().ok_or(EngineError::Parted)?)
    }

    async fn mark(
        self: Box<Self>,
        last: LastCommit,
        number: i64,
        ids: &HashMap<ResourceId, i64>,
    ) -> Result<Departure, MarkError> {
        self.depart(last, number, ids)
            .await
            .map_err(MarkError::Unmarked)?;
        let committed = self.connection.batch("COMMIT", LONG_STATEMENT).await;
        committed.map_err(|error| MarkError::Unknown(error.into()))?;
        self.connection.close().await;
        let marker = Marker {
            attempt: number,
            moved_at: Some(last.seq),
            ..self.marker
        };
        Ok(Departure {
            marker,
            last,
            ids: ids.clone(),
        })
    }
}

fn taken() -> EngineError {
    corrupt(
        &"the move",
        "another server has begun it anew, or it was given up",
    )
}
