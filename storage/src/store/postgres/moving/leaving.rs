//! The database that is moved, as its servers share it: whose turn it is, who can follow, and the
//! mark by which the move ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crds::control::DatabaseMove;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::super::Postgres;
use super::super::connection::{LONG_STATEMENT, Parameter, PgConnection, STATEMENT, Writer};
use super::super::rows::{column, db, un_db};
use super::DURABLE;
use super::snapshot::{Parked, Snapshot};
use crate::model::ResourceId;
use crate::store::engine::{EngineError, corrupt};
use crate::store::moving::rows::{Departure, LastCommit, Marker};
use crate::store::moving::source::{Hold, MarkError, Order, Source, SourceSnapshot, Turn};

/// Leases for which the log is kept for an attempt that is not heard of.
const KEPT: f64 = 3.0;
/// Leases after which a server that is not heard of is taken to be gone; each tells of itself ten times
/// as often. Whoever comes back later finds the mark, and follows if it can; until then it refuses what
/// it is asked. So this is longer than the outages that pass by themselves, and the kubelet takes to
/// bring an order.
const GONE: f64 = 15.0;
/// Bits of an attempt's number that are random, below those of the clock: a failover may lose the
/// number that was given last.
const RANDOM_BITS: u32 = 20;

/// A database that its servers can move.
pub(crate) struct Leaving {
    engine: Arc<Postgres>,
    /// The name that tells this server from others.
    server: String,
    /// Seconds for which a server that is not heard of keeps its turn.
    lease: f64,
    /// A connection beside those of the engine, so that writes are not kept waiting. It is opened
    /// by the first move; without one there are no more than the options allow.
    own: Writer,
    parked: Parked,
    /// The highest number of an attempt that another database knows of.
    passed: AtomicI64,
}

impl Leaving {
    /// Returns the database behind `engine`, of this process. A server that is not heard of for
    /// `lease` loses its turn.
    pub fn new(engine: Arc<Postgres>, lease: Duration) -> Self {
        Self {
            lease: lease.as_secs_f64(),
            own: Writer::new(Arc::clone(&engine.connector)),
            engine,
            server: uuid::Uuid::new_v4().to_string(),
            parked: Arc::new(Mutex::new(None)),
            passed: AtomicI64::new(0),
        }
    }

    /// Returns a number that a function gives of an order.
    async fn asked(&self, statement: &str, order: Order<'_>) -> Result<i32, EngineError> {
        let attempt = self.lowest_attempt();
        let parameters: [Parameter<'_>; 8] = [
            (&self.engine.cluster, Type::INT4),
            // It stays the same, whatever a failover loses.
            (&self.engine.place.history, Type::TEXT),
            (&attempt, Type::INT8),
            (&order.identity, Type::TEXT),
            (&order.name, Type::TEXT),
            (&self.server, Type::TEXT),
            (&order.id, Type::TEXT),
            (&self.lease, Type::FLOAT8),
        ];
        let (connection, slot) = self.own.take().await?;
        let rows = connection.query(statement, &parameters).await?;
        slot.put(connection);
        column(rows.first().ok_or(EngineError::Parted)?, "turn")
    }

    /// Returns the lowest number that the next attempt may have.
    fn lowest_attempt(&self) -> i64 {
        let now = jiff::Timestamp::now().as_millisecond() << RANDOM_BITS;
        let passed = self.passed.load(Ordering::Relaxed);
        now.max(passed) + rand::random_range(1..1 << RANDOM_BITS)
    }

    /// Returns the record of the attempt of this server; `None` where another one has taken its
    /// place.
    async fn marker(&self) -> Result<Option<Marker>, EngineError> {
        let (connection, slot) = self.own.take().await?;
        let rows = connection
            .query(
                "SELECT source, attempt, identity, name FROM reports_server.departures
                 WHERE cluster = $1 AND holder = $2 AND moved_at IS NULL",
                &[
                    (&self.engine.cluster, Type::INT4),
                    (&self.server, Type::TEXT),
                ],
            )
            .await?;
        slot.put(connection);
        let marker = |row: &Row| {
            Ok(Marker {
                source: column(row, "source")?,
                attempt: column(row, "attempt")?,
                is_ordered: true,
                identity: column(row, "identity")?,
                name: column(row, "name")?,
                moved_at: None,
            })
        };
        rows.first().map(marker).transpose()
    }

    /// Returns how far the server is whose turn it is.
    async fn told(&self) -> Result<Option<Box<DatabaseMove>>, EngineError> {
        let rows = self
            .rows("SELECT told FROM reports_server.departures WHERE cluster = $1")
            .await?;
        let told: Option<&str> = match rows.first() {
            Some(row) => column(row, "told")?,
            None => None,
        };
        // A server of another release may tell something else.
        Ok(told.and_then(|told| serde_json::from_str(told).ok()))
    }

    /// Carries out a statement with the cluster as its only parameter.
    async fn rows(&self, statement: &str) -> Result<Vec<Row>, EngineError> {
        let (connection, slot) = self.own.take().await?;
        let parameters: [Parameter<'_>; 1] = [(&self.engine.cluster, Type::INT4)];
        let rows = connection.query(statement, &parameters).await?;
        slot.put(connection);
        Ok(rows)
    }
}

#[async_trait::async_trait]
impl Source for Leaving {
    async fn turn(&self, order: Order<'_>) -> Result<Turn, EngineError> {
        let statement =
            "SELECT reports_server.begin_departure_v1($1, $2, $3, $4, $5, $6, $7, $8) AS turn";
        let own = match self.asked(statement, order).await? {
            0 => self.marker().await?,
            1 => None,
            2 => return Ok(Turn::GivenUp),
            _ => return Ok(Turn::Over),
        };
        match own {
            Some(marker) => Ok(Turn::Own(marker)),
            None => Ok(Turn::Others(self.told().await?)),
        }
    }

    fn pass(&self, attempt: i64) {
        self.passed.fetch_max(attempt, Ordering::Relaxed);
    }

    async fn give_up(&self, order: Order<'_>) -> Result<Turn, EngineError> {
        let statement =
            "SELECT reports_server.give_up_departure_v1($1, $2, $3, $4, $5, $6, $7, $8) AS turn";
        match self.asked(statement, order).await? {
            0 => Ok(self.marker().await?.map_or(Turn::Others(None), Turn::Own)),
            1 => Ok(Turn::Others(None)),
            2 => Ok(Turn::GivenUp),
            _ => Ok(Turn::Over),
        }
    }

    async fn cleaned(&self, attempt: i64) -> Result<(), EngineError> {
        let (connection, slot) = self.own.take().await?;
        connection
            .execute(
                "UPDATE reports_server.departures SET is_clean = true
                 WHERE cluster = $1 AND attempt = $2 AND holder = $3 AND moved_at IS NULL",
                &[
                    (&self.engine.cluster, Type::INT4),
                    (&attempt, Type::INT8),
                    (&self.server, Type::TEXT),
                ],
            )
            .await?;
        slot.put(connection);
        Ok(())
    }

    async fn renew(
        &self,
        attempt: i64,
        copied: u64,
        told: &DatabaseMove,
    ) -> Result<bool, EngineError> {
        let told = serde_json::to_string(told).map_err(|error| corrupt(&"a move", error))?;
        let (connection, slot) = self.own.take().await?;
        let renewed = connection
            .execute(
                "UPDATE reports_server.departures
                 SET renewed_at = clock_timestamp(), copied = $3, told = $4
                 WHERE cluster = $1 AND attempt = $2 AND holder = $5 AND moved_at IS NULL",
                &[
                    (&self.engine.cluster, Type::INT4),
                    (&attempt, Type::INT8),
                    (&db(copied), Type::INT8),
                    (&told, Type::TEXT),
                    (&self.server, Type::TEXT),
                ],
            )
            .await?;
        slot.put(connection);
        Ok(renewed > 0)
    }

    async fn attend(&self, order: &str) -> Result<(), EngineError> {
        let gone = self.lease * GONE;
        let reader = self.engine.readers.get().await?;
        let own: [Parameter<'_>; 2] = [
            (&self.engine.cluster, Type::INT4),
            (&self.server, Type::TEXT),
        ];
        let mut note = own.to_vec();
        note.push((&order, Type::TEXT));
        reader
            .execute(
                "INSERT INTO reports_server.followers (cluster, server, order_id)
                 VALUES ($1, $2, $3)
                 ON CONFLICT (cluster, server)
                 DO UPDATE SET order_id = excluded.order_id, seen_at = clock_timestamp()",
                &note,
            )
            .await?;
        let mut forget = own.to_vec();
        forget.push((&gone, Type::FLOAT8));
        // In a transaction of its own, and without waiting for anybody: two servers that come back at
        // one time would wait for each other.
        reader
            .execute(
                "DELETE FROM reports_server.followers WHERE ctid = ANY (ARRAY (
                     SELECT ctid FROM reports_server.followers
                     WHERE cluster = $1 AND server <> $2
                         AND seen_at < clock_timestamp() - make_interval(secs => $3)
                     FOR UPDATE SKIP LOCKED))",
                &forget,
            )
            .await?;
        reader.keep();
        Ok(())
    }

    async fn unaware(&self, order: &str) -> Result<i64, EngineError> {
        let (connection, slot) = self.own.take().await?;
        let gone = self.lease * GONE;
        let rows = connection
            .query(
                "SELECT count(*) AS unaware FROM reports_server.followers
                 WHERE cluster = $1 AND order_id <> $2 AND server <> $3
                     AND seen_at >= clock_timestamp() - make_interval(secs => $4)",
                &[
                    (&self.engine.cluster, Type::INT4),
                    (&order, Type::TEXT),
                    (&self.server, Type::TEXT),
                    (&gone, Type::FLOAT8),
                ],
            )
            .await?;
        slot.put(connection);
        column(rows.first().ok_or(EngineError::Parted)?, "unaware")
    }

    async fn leave(&self) {
        let leaving = async {
            let reader = self.engine.readers.get().await?;
            let parameters: [Parameter<'_>; 2] = [
                (&self.engine.cluster, Type::INT4),
                (&self.server, Type::TEXT),
            ];
            let gone = reader.execute(
                "DELETE FROM reports_server.followers WHERE cluster = $1 AND server = $2",
                &parameters,
            );
            gone.await?;
            reader.keep();
            Ok::<(), EngineError>(())
        };
        // Others find out by themselves.
        if let Err(error) = leaving.await {
            tracing::debug!(%error, "telling other servers that this one ends");
        }
        self.own.close().await;
    }

    async fn departure(&self) -> Result<Option<Departure>, EngineError> {
        let reader = self.engine.readers.get().await?;
        let departure = find(&reader, &self.engine.place.identity).await?;
        reader.keep();
        Ok(departure)
    }

    async fn take_back(&self, departure: &Departure, revision: u64) -> Result<bool, EngineError> {
        let attempt = departure.marker.attempt;
        self.engine.take_back(attempt, revision).await
    }

    fn hand_on(&self, engine: &Postgres) {
        // Commits have the same numbers and names there.
        engine.lineage.restart(self.engine.lineage.newest());
    }

    async fn copied(&self) -> Result<Option<u64>, EngineError> {
        let kept = self.lease * KEPT;
        let reader = self.engine.readers.get().await?;
        let rows = reader
            .query(
                "SELECT copied FROM reports_server.departures
                 WHERE cluster = $1 AND moved_at IS NULL AND copied IS NOT NULL
                     AND renewed_at > clock_timestamp() - make_interval(secs => $2)",
                &[(&self.engine.cluster, Type::INT4), (&kept, Type::FLOAT8)],
            )
            .await?;
        reader.keep();
        let copied = rows.first().map(|row| column(row, "copied"));
        Ok(copied.transpose()?.map(un_db))
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn snapshot(&self) -> Result<Box<dyn SourceSnapshot>, EngineError> {
        let snapshot = Snapshot::begin(&self.engine, &self.parked).await?;
        Ok(Box::new(snapshot))
    }

    async fn hold(&self, attempt: i64, limit: Duration) -> Result<Box<dyn Hold>, EngineError> {
        let connection = self.engine.connector.connect().await?;
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
        let place = &self.engine.place;
        let rows = connection
            .query(
                "SELECT FROM reports_server.clusters
                 WHERE cluster = $1 AND identity = $2 AND history::text = $3 FOR UPDATE",
                &[
                    (&self.engine.cluster, Type::INT4),
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
                    (&self.engine.cluster, Type::INT4),
                    (&attempt, Type::INT8),
                    (&self.server, Type::TEXT),
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
        Ok(Box::new(Held {
            connection,
            cluster: self.engine.cluster,
            server: self.server.clone(),
            marker,
            until,
        }))
    }
}

/// A database whose writers wait behind the lock of this transaction. Dropped without a mark it is
/// rolled back, with its connection.
struct Held {
    connection: PgConnection,
    cluster: i32,
    server: String,
    /// The record of the attempt.
    marker: Marker,
    /// The end of the time for which others can wait.
    until: Instant,
}

impl Held {
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

fn last_commit(row: &Row) -> Result<LastCommit, EngineError> {
    Ok(LastCommit {
        seq: un_db(column(row, "seq")?),
        batch: Some(column(row, "batch")?),
        counter: un_db(column(row, "counter")?),
    })
}

fn taken() -> EngineError {
    corrupt(
        &"the move",
        "another server has begun it anew, or it was given up",
    )
}
