//! The database that a move fills: rows go in under the numbers of this database, and nobody else
//! sees the cluster before it is opened. And the database that is moved, where that is PostgreSQL.

mod compare;
mod held;
mod leaving;
mod log;
mod mark;
mod marks;
mod objects;
mod opening;
mod records;
mod snapshot;
mod sums;
mod target;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::{Instant, sleep};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

pub(crate) use self::leaving::Leaving;
pub(super) use self::mark::find as departure;

use super::connection::{LONG_STATEMENT, Parameter, PgConnection, Slot};
use super::place::Place;
use super::rows::{Keys, column, db};
use super::{Postgres, PostgresError, migrate, rejoin};
use crate::model::ResourceId;
use crate::store::engine::EngineError;
use crate::store::moving::rows::{Marker, RowKey};
use crate::store::moving::target::Begun as BegunAt;
use crate::store::{OpenError, PostgresOptions};

/// Rows of each table that are dropped in one transaction when an attempt begins anew.
const CLEARED: i32 = 5_000;

/// A transaction that ends by itself where its server is not heard of any more.
const BEGIN: &str = "BEGIN;
    SET LOCAL idle_in_transaction_session_timeout = '30s';
    SET LOCAL statement_timeout = '60s';
    SET LOCAL lock_timeout = '10s'";

/// The same for a transaction that changes tables which clusters share: what others write queues behind
/// it while it waits for a lock.
const BEGIN_BRIEFLY: &str = "BEGIN;
    SET LOCAL idle_in_transaction_session_timeout = '30s';
    SET LOCAL statement_timeout = '60s';
    SET LOCAL lock_timeout = '50ms'";

/// Time for which such a transaction is tried, and the pause between two attempts.
const BRIEFLY: (Duration, Duration) = (Duration::from_secs(20), Duration::from_millis(200));

/// The place of a move in the database that it leads to.
pub(crate) type Begun = BegunAt<Filling>;

/// A cluster in this database that is being filled by one attempt.
pub(crate) struct Filling {
    engine: Arc<Postgres>,
    attempt: i64,
    /// The number of the last step. A database that has lost one has another number.
    step: Mutex<Number>,
    /// Numbers of the resources: in the database that is moved, and here.
    ids: HashMap<ResourceId, i64>,
    /// The last number of an object. They are negative, because later ones follow the sequence of
    /// changes.
    number: i64,
    /// Bytes of all bodies in the log.
    bytes: i64,
}

/// The number of a step.
#[derive(Clone, Copy, Debug)]
struct Number {
    last: i64,
    /// True while it is not known whether the step behind it was made.
    is_open: bool,
}

impl Postgres {
    /// Begins to fill the cluster that `options` name, by an order.
    pub async fn fill(
        options: &PostgresOptions,
        marker: &Marker,
        order: &str,
    ) -> Result<Begun, OpenError> {
        let (connector, connection, greeting) = Self::connect(options).await?;
        migrate::migrate(&connection).await?;
        let rows = connection
            .long_query(
                "SELECT * FROM reports_server.begin_move_v2($1, $2, $3, $4, $5, $6)",
                &[
                    (&marker.identity, Type::TEXT),
                    (&marker.name, Type::TEXT),
                    (&marker.source, Type::TEXT),
                    (&marker.attempt, Type::INT8),
                    (&marker.is_ordered, Type::BOOL),
                    (&order, Type::TEXT),
                ],
            )
            .await
            .map_err(EngineError::from)?;
        let row = rows.first().ok_or(EngineError::Parted)?;
        let attempt = column(row, "attempt")?;
        match column::<i32>(row, "outcome")? {
            0 => {}
            1 => return Ok(Begun::Taken),
            2 => return Ok(Begun::Opened(attempt)),
            _ => return Ok(Begun::Passed(attempt)),
        }
        let place = Place::find(&connection, &marker.identity)
            .await
            .map_err(EngineError::from)?;
        let place = place.ok_or(EngineError::Parted)?;
        note_origin(&connection, place.cluster).await?;
        connection.close().await;
        Ok(Begun::Filling(Filling {
            engine: Arc::new(Self::assemble(connector, greeting, place, options)),
            attempt: marker.attempt,
            step: Mutex::new(Number {
                last: marker.attempt,
                is_open: false,
            }),
            ids: HashMap::new(),
            number: 0,
            bytes: 0,
        }))
    }
}

/// Notes the server that a cluster is filled on: if another one is there when it is open, it may lack
/// what was written since.
async fn note_origin(connection: &PgConnection, cluster: i32) -> Result<(), EngineError> {
    connection.batch(BEGIN, LONG_STATEMENT).await?;
    rejoin::note_origin_of(connection, &cluster).await?;
    Ok(connection.batch("COMMIT", LONG_STATEMENT).await?)
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
struct Step<'a> {
    filling: &'a Filling,
    number: i64,
    connection: PgConnection,
    slot: Slot,
}

impl Step<'_> {
    async fn run(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<tokio_postgres::Row>, PostgresError> {
        self.connection.long_query(statement, parameters).await
    }

    async fn commit(self) -> Result<(), EngineError> {
        self.filling.number().is_open = true;
        self.connection.batch("COMMIT", LONG_STATEMENT).await?;
        *self.filling.number() = Number {
            last: self.number,
            is_open: false,
        };
        self.slot.put(self.connection);
        Ok(())
    }
}

impl Filling {
    /// Returns the numbers of the resources: in the database that is moved, and here.
    pub fn ids(&self) -> &HashMap<ResourceId, i64> {
        &self.ids
    }

    fn cluster(&self) -> Parameter<'_> {
        (&self.engine.cluster, Type::INT4)
    }

    /// Begins the next step. One whose predecessor is not there is refused.
    async fn begin(&self) -> Result<Step<'_>, EngineError> {
        self.begin_as(BEGIN).await
    }

    async fn begin_as(&self, begin: &str) -> Result<Step<'_>, EngineError> {
        let (connection, slot) = self.engine.writer.take().await?;
        connection.batch(begin, LONG_STATEMENT).await?;
        let Number { last, is_open } = *self.number();
        let rows = connection
            .long_query(
                "SELECT reports_server.step_move_v1($1, $2, $3) AS number",
                &[self.cluster(), (&last, Type::INT8), (&is_open, Type::BOOL)],
            )
            .await?;
        let number: i64 = column(rows.first().ok_or(EngineError::Parted)?, "number")?;
        *self.number() = Number {
            last: number - 1,
            is_open: false,
        };
        Ok(Step {
            filling: self,
            number,
            connection,
            slot,
        })
    }

    fn number(&self) -> MutexGuard<'_, Number> {
        self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the last step: the cluster may be opened under it.
    pub fn last_step(&self) -> i64 {
        self.number().last
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
                    (&step.number, Type::INT8),
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
        let statement = "SELECT reports_server.begin_log_v1($1, $2, $3)::text";
        let from = db(from);
        self.briefly(statement, Some((&from, Type::INT8))).await
    }

    /// Carries out a statement that changes tables which clusters share, in a step of its own. While
    /// somebody reads them for long, it is tried again: what others write must not queue behind it.
    async fn briefly(
        &self,
        statement: &str,
        parameter: Option<Parameter<'_>>,
    ) -> Result<(), EngineError> {
        let give_up = Instant::now() + BRIEFLY.0;
        loop {
            let step = self.begin_as(BEGIN_BRIEFLY).await?;
            let mut parameters = vec![self.cluster(), (&step.number, Type::INT8)];
            parameters.extend(parameter.clone());
            match step.run(statement, &parameters).await {
                Ok(_) => return step.commit().await,
                Err(error)
                    if error.is(&SqlState::LOCK_NOT_AVAILABLE) && Instant::now() < give_up =>
                {
                    drop(step);
                    sleep(BRIEFLY.1).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn id(&self, resource: ResourceId) -> Option<ResourceId> {
        self.ids.get(&resource).copied().map(ResourceId)
    }

    /// Returns keys under the numbers of this database; those of resources that are gone are left
    /// out.
    fn keys<'a>(&self, keys: impl Iterator<Item = &'a RowKey>) -> Keys<'a> {
        Keys::of(keys.filter_map(|(resource, key)| Some((self.id(*resource)?, key))))
    }

    /// Returns the attempt that fills the cluster, as the database that is moved knows it.
    pub fn attempt(&self) -> i64 {
        self.attempt
    }

    /// Forgets the cluster, after [`Filling::clear`].
    pub async fn abandon(&self) -> Result<(), EngineError> {
        let statement = "SELECT reports_server.abandon_move_v2($1, $2)::text";
        self.briefly(statement, None).await
    }

    /// Closes the connections of an attempt that is given up.
    pub async fn close(&self) {
        use crate::store::engine::Engine as _;
        self.engine.close().await;
    }
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
