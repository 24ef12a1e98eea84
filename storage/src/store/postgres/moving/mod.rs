//! The database that a move fills: rows go in under the numbers of this database, and nobody else
//! sees the cluster before it is opened. And the database that is moved, where that is PostgreSQL.

mod compare;
mod leaving;
mod log;
mod marks;
mod objects;
mod records;
mod snapshot;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_postgres::types::Type;

pub(crate) use self::compare::Fingerprint;
pub(crate) use self::leaving::Leaving;
pub(super) use self::leaving::find as departure;

use super::connection::{LONG_STATEMENT, Parameter, PgConnection, Slot};
use super::place::Place;
use super::rows::{Keys, column, db};
use super::{Postgres, migrate, rejoin};
use crate::model::ResourceId;
use crate::store::engine::EngineError;
use crate::store::moving::rows::{Marker, RowKey};
use crate::store::moving::source::MemorySums;
use crate::store::{OpenError, PostgresOptions};

/// Rows of each table that are dropped in one transaction when an attempt begins anew.
const CLEARED: i32 = 5_000;

/// A transaction that ends by itself where its server is not heard of any more.
const BEGIN: &str = "BEGIN;
    SET LOCAL idle_in_transaction_session_timeout = '30s';
    SET LOCAL statement_timeout = '60s';
    SET LOCAL lock_timeout = '10s'";

/// Has the commit of a transaction wait until it, and all before it, survive a crash.
const DURABLE: &str = "SELECT set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') = 'off'";

/// Sums of the imported marks of a resource and of its last events: number, and hashes.
const MEMORY_SUMS: &str = "SELECT (
        SELECT count(*) || ' ' || coalesce(sum(('x' || substr(encode(sha256(convert_to(
            concat_ws('/', namespace, name, uid, rv), 'UTF8')), 'hex'), 1, 15))::bit(60)::bigint), 0)
        FROM reports_server.imported WHERE cluster = $1 AND resource_id = $2) AS marks, (
        SELECT count(*) || ' ' || coalesce(sum(('x' || substr(encode(sha256(convert_to(
            concat_ws('/', namespace, name, rv, deleted, labels), 'UTF8')), 'hex'), 1, 15))
            ::bit(60)::bigint), 0)
        FROM reports_server.mirror_events WHERE cluster = $1 AND resource_id = $2) AS events";

/// A cluster in this database that is being filled by one attempt.
pub(crate) struct Filling {
    engine: Arc<Postgres>,
    source: String,
    attempt: i64,
    /// Numbers of the resources: in the database that is moved, and here.
    ids: HashMap<ResourceId, i64>,
    /// The last number of an object. They are negative, because later ones follow the sequence of
    /// changes.
    number: i64,
    /// Bytes of all bodies in the log.
    bytes: i64,
}

impl Postgres {
    /// Begins to fill the cluster that `options` name. Returns `None` where it holds reports
    /// already that are not of an earlier attempt of the same database.
    pub async fn fill(
        options: &PostgresOptions,
        marker: &Marker,
    ) -> Result<Option<Filling>, OpenError> {
        let (connector, connection, greeting) = Self::connect(options).await?;
        migrate::migrate(&connection).await?;
        let rows = connection
            .long_query(
                "SELECT reports_server.begin_move_v2($1, $2, $3, $4, $5) AS cluster",
                &[
                    (&marker.identity, Type::TEXT),
                    (&marker.name, Type::TEXT),
                    (&marker.source, Type::TEXT),
                    (&marker.attempt, Type::INT8),
                    (&marker.is_ordered, Type::BOOL),
                ],
            )
            .await
            .map_err(EngineError::from)?;
        let place = Place::find(&connection, &marker.identity)
            .await
            .map_err(EngineError::from)?;
        connection.close().await;
        let row = rows.first().ok_or(EngineError::Parted)?;
        if column::<Option<i32>>(row, "cluster")?.is_none() {
            return Ok(None);
        }
        let place = place.ok_or(EngineError::Parted)?;
        Ok(Some(Filling {
            engine: Arc::new(Self::assemble(connector, greeting, place, options)),
            source: marker.source.clone(),
            attempt: marker.attempt,
            ids: HashMap::new(),
            number: 0,
            bytes: 0,
        }))
    }

    /// Opens the cluster to which a database was moved; it may have been opened before.
    pub async fn open_moved(options: &PostgresOptions, marker: &Marker) -> Result<Self, OpenError> {
        let (connector, connection, greeting) = Self::connect(options).await?;
        let place = Place::find(&connection, &marker.identity)
            .await
            .map_err(EngineError::from)?;
        let other = || OpenError::MovedElsewhere(marker.identity.clone());
        let place = place.ok_or_else(other)?;
        migrate::migrate(&connection).await?;
        connection.close().await;
        let engine = Self::assemble(connector, greeting, place, options);
        if !engine.open_move(&marker.source, marker.attempt).await? {
            return Err(other());
        }
        Ok(engine)
    }

    /// Opens the cluster after it was filled, or finds it open. Returns false where it is not the
    /// one that this attempt has filled.
    pub async fn open_move(&self, source: &str, attempt: i64) -> Result<bool, EngineError> {
        let (connection, slot) = self.writer.take().await?;
        let rows = connection
            .long_query(
                // Whoever finds it open does not open it again, so that has to survive a crash.
                "WITH durable AS MATERIALIZED (
                     SELECT set_config('synchronous_commit', 'on', true)
                     WHERE current_setting('synchronous_commit') = 'off')
                 SELECT reports_server.open_move_v1($1, $2, $3) AS open,
                     (SELECT count(*) FROM durable)",
                &[
                    (&self.cluster, Type::INT4),
                    (&source, Type::TEXT),
                    (&attempt, Type::INT8),
                ],
            )
            .await?;
        slot.put(connection);
        let open = column(rows.first().ok_or(EngineError::Parted)?, "open")?;
        if open {
            rejoin::check_origin(self).await?;
            if let Err(error) = self.look_around().await {
                tracing::warn!(%error, "checking what the database can do");
            }
        }
        Ok(open)
    }

    /// Begins the histories anew where the database was put back, for a server that goes on in it:
    /// its counter is known there.
    pub async fn go_on(&self) -> Result<(), EngineError> {
        if rejoin::is_put_back(self).await? {
            rejoin::begin_above(self, 0).await?;
        }
        Ok(())
    }
}

/// Returns whether a cluster is being filled by a move.
pub(super) async fn is_filled(
    connection: &PgConnection,
    cluster: i32,
) -> Result<bool, EngineError> {
    let rows = connection
        .query(
            "SELECT FROM reports_server.moves WHERE cluster = $1 AND opened_at IS NULL",
            &[(&cluster, Type::INT4)],
        )
        .await?;
    Ok(!rows.is_empty())
}

/// A transaction of the attempt that is in force.
struct Step {
    connection: PgConnection,
    slot: Slot,
}

impl Step {
    async fn run(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<tokio_postgres::Row>, EngineError> {
        Ok(self.connection.long_query(statement, parameters).await?)
    }

    async fn commit(self) -> Result<(), EngineError> {
        self.connection.batch("COMMIT", LONG_STATEMENT).await?;
        self.slot.put(self.connection);
        Ok(())
    }
}

impl Filling {
    /// Returns the engine, for when the cluster is open.
    pub fn engine(&self) -> Arc<Postgres> {
        Arc::clone(&self.engine)
    }

    /// Returns the numbers of the resources: in the database that is moved, and here.
    pub fn ids(&self) -> &HashMap<ResourceId, i64> {
        &self.ids
    }

    fn cluster(&self) -> Parameter<'_> {
        (&self.engine.cluster, Type::INT4)
    }

    async fn begin(&self) -> Result<Step, EngineError> {
        let (connection, slot) = self.engine.writer.take().await?;
        connection.batch(BEGIN, LONG_STATEMENT).await?;
        let step = Step { connection, slot };
        step.run(
            "SELECT reports_server.fence_move_v1($1, $2)::text",
            &[self.cluster(), (&self.attempt, Type::INT8)],
        )
        .await?;
        Ok(step)
    }

    /// Drops the rows of an earlier attempt, and lets the log begin at `from`.
    pub async fn clear(&self, from: u64) -> Result<(), EngineError> {
        while self.clear_part().await? {}
        self.begin_log(from).await
    }

    /// Drops some rows of an earlier attempt; returns false once there are none.
    pub async fn clear_part(&self) -> Result<bool, EngineError> {
        let step = self.begin().await?;
        let rows = step
            .run(
                "SELECT reports_server.clear_move_v1($1, $2, $3) AS dropped",
                &[
                    self.cluster(),
                    (&self.attempt, Type::INT8),
                    (&CLEARED, Type::INT4),
                ],
            )
            .await?;
        let dropped: i64 = column(rows.first().ok_or(EngineError::Parted)?, "dropped")?;
        step.commit().await?;
        Ok(dropped > 0)
    }

    /// Lets the log begin at `from`.
    pub async fn begin_log(&self, from: u64) -> Result<(), EngineError> {
        let step = self.begin().await?;
        step.run(
            "SELECT reports_server.begin_log_v1($1, $2, $3)::text",
            &[
                self.cluster(),
                (&self.attempt, Type::INT8),
                (&db(from), Type::INT8),
            ],
        )
        .await?;
        step.commit().await
    }

    fn id(&self, resource: ResourceId) -> Option<ResourceId> {
        self.ids.get(&resource).copied().map(ResourceId)
    }

    /// Returns keys under the numbers of this database; those of resources that are gone are left
    /// out.
    fn keys<'a>(&self, keys: impl Iterator<Item = &'a RowKey>) -> Keys<'a> {
        Keys::of(keys.filter_map(|(resource, key)| Some((self.id(*resource)?, key))))
    }

    /// Opens the cluster: see [`Postgres::open_move`].
    pub async fn open(&self) -> Result<bool, EngineError> {
        let open = self.engine.open_move(&self.source, self.attempt).await?;
        if open {
            self.engine.go_on().await?;
        }
        Ok(open)
    }

    /// Returns the attempt that fills the cluster.
    pub fn attempt(&self) -> i64 {
        self.attempt
    }

    /// Forgets the cluster, after [`Filling::clear`].
    pub async fn abandon(&self) -> Result<(), EngineError> {
        let step = self.begin().await?;
        step.run(
            "SELECT reports_server.abandon_move_v1($1, $2)::text",
            &[self.cluster(), (&self.attempt, Type::INT8)],
        )
        .await?;
        step.commit().await
    }

    /// Closes the connections of an attempt that is given up.
    pub async fn close(&self) {
        use crate::store::engine::Engine as _;
        self.engine.close().await;
    }
}

/// Returns the columns of [`MEMORY_SUMS`].
fn memory_sums(row: &tokio_postgres::Row) -> Result<MemorySums, EngineError> {
    Ok(MemorySums {
        marks: column(row, "marks")?,
        events: column(row, "events")?,
    })
}

fn delete_at(table: &'static str) -> String {
    format!(
        "DELETE FROM reports_server.{table} t
         USING unnest($2, $3, $4) AS k(resource_id, namespace, name)
         WHERE t.cluster = $1 AND t.resource_id = k.resource_id
             AND t.namespace = k.namespace AND t.name = k.name"
    )
}

fn time(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
