//! The database that is moved, as its servers share it: whose turn it is, who can follow, and the
//! mark by which the move ends.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crds::control::DatabaseMove;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::Postgres;
use super::super::connection::{Parameter, Writer};
use super::super::rows::{column, db, un_db};
use super::held::Held;
use super::mark::find;
use super::snapshot::{Parked, Snapshot};
use crate::store::engine::{EngineError, corrupt};
use crate::store::moving::rows::{Departure, Marker};
use crate::store::moving::source::{Hold, Order, Source, SourceSnapshot, Turn};

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

    async fn arrived(&self, departure: &Departure) -> Result<(), EngineError> {
        let (connection, slot) = self.own.take().await?;
        connection
            .execute(
                "UPDATE reports_server.departures SET arrived_at = clock_timestamp()
                 WHERE cluster = $1 AND attempt = $2 AND moved_at IS NOT NULL
                     AND arrived_at IS NULL",
                &[
                    (&self.engine.cluster, Type::INT4),
                    (&departure.marker.attempt, Type::INT8),
                ],
            )
            .await?;
        slot.put(connection);
        Ok(())
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
        let held = Held::begin(&self.engine, &self.server, attempt, limit);
        Ok(Box::new(held.await?))
    }
}
