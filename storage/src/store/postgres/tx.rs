//! Transactions of several statements, for everything but plain writes.

use std::ops::Deref;

use tokio_postgres::types::Type;

use super::connection::{PgConnection, STATEMENT, Slot};
use super::error::PostgresError;
use super::rows::{column, db, un_db};
use super::{Postgres, lineage};
use crate::cache::Change;
use crate::model::{Position, ResourceId, ResourceRecord};
use crate::store::engine::{Commit, EngineError};

/// Begins a transaction that ends by itself where its server is not heard of any more. Settings
/// that end with the transaction reach the right one through a pooler as well.
const BEGIN: &str = "BEGIN;
    SET LOCAL idle_in_transaction_session_timeout = '10s';
    SET LOCAL statement_timeout = '10s';
    SET LOCAL lock_timeout = '5s'";

/// Partitions that a transaction makes when it finds the log full.
const PARTITION: i64 = 65_536;

/// A transaction that holds the lock of all writers of the cluster. Dropped without [`Tx::commit`]
/// it is rolled back, with its connection.
pub(super) struct Tx<'a> {
    engine: &'a Postgres,
    connection: PgConnection,
    slot: Slot,
    /// The newest commit before this one.
    newest: lineage::Commit,
    before: Position,
    /// Bytes of all bodies that were ever logged.
    pub bytes: i64,
    /// The seq below which the log has partitions for every one.
    log_end: Option<i64>,
    /// The position in the sequence after the commit.
    pub position: Position,
    /// The changes, for the cache.
    pub changes: Vec<(ResourceId, Change)>,
    /// Records that were changed, for the cache.
    pub records: Vec<ResourceRecord>,
    /// True when a record has changed.
    pub records_changed: bool,
}

impl<'a> Tx<'a> {
    /// Begins a transaction, takes the lock and makes sure that the database still continues the
    /// history that this server has seen.
    pub async fn begin(engine: &'a Postgres) -> Result<Self, EngineError> {
        let tx = Self::begin_anywhere(engine).await?;
        let known = engine.lineage.newest();
        if tx.newest != known && !tx.has(known).await? {
            return Err(EngineError::Parted);
        }
        Ok(tx)
    }

    /// Begins a transaction and takes the lock, where the database has the cluster's place.
    pub async fn begin_anywhere(engine: &'a Postgres) -> Result<Self, EngineError> {
        Locked::take(engine).await?.at_newest().await
    }

    /// Returns whether the database has `commit`.
    pub async fn has(&self, commit: lineage::Commit) -> Result<bool, EngineError> {
        let rows = self
            .connection
            .query(
                "SELECT FROM reports_server.commits
                 WHERE cluster = $1 AND seq = $2 AND batch = $3",
                &[
                    (&self.engine.cluster, Type::INT4),
                    (&commit.seq, Type::INT8),
                    (&commit.batch, Type::INT8),
                ],
            )
            .await?;
        Ok(!rows.is_empty())
    }

    /// Returns the cluster's number.
    pub fn cluster(&self) -> &i32 {
        &self.engine.cluster
    }

    /// Makes sure that the log takes everything up to `seq`.
    pub async fn make_room(&mut self, seq: u64) -> Result<(), EngineError> {
        let end = db(seq) + 1;
        if self.log_end.is_some_and(|log_end| log_end < end) {
            self.connection
                .query(
                    "SELECT reports_server.extend_log_v1($1, $2, $3)::text",
                    &[
                        (self.cluster(), Type::INT4),
                        (&end, Type::INT8),
                        (&PARTITION, Type::INT8),
                    ],
                )
                .await?;
            self.log_end = Some(end);
        }
        Ok(())
    }

    /// Commits. A change takes a number of the sequence, also without a change of an object: so the
    /// other servers notice.
    pub async fn commit<T>(mut self, outcome: T) -> Result<Commit<T>, EngineError> {
        if self.position == self.before && !self.records_changed {
            return self.end("COMMIT", outcome).await;
        }
        if self.position.seq == self.before.seq {
            self.position.seq += 1;
        }
        let newest = lineage::Commit {
            seq: db(self.position.seq),
            batch: lineage::new_batch(),
        };
        let changes = i32::try_from(self.changes.len()).unwrap_or(i32::MAX);
        self.connection
            .execute(
                "INSERT INTO reports_server.commits
                     (cluster, seq, counter, batch, changes, records, bytes)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
                &[
                    (self.cluster(), Type::INT4),
                    (&newest.seq, Type::INT8),
                    (&db(self.position.counter), Type::INT8),
                    (&newest.batch, Type::INT8),
                    (&changes, Type::INT4),
                    (&self.records_changed, Type::BOOL),
                    (&self.bytes, Type::INT8),
                ],
            )
            .await?;
        self.newest = newest;
        self.end("COMMIT", outcome).await
    }

    /// Takes everything back.
    pub async fn rollback<T>(mut self, outcome: T) -> Result<Commit<T>, EngineError> {
        self.position = self.before;
        self.changes.clear();
        self.records.clear();
        self.end("ROLLBACK", outcome).await
    }

    async fn end<T>(self, statement: &str, outcome: T) -> Result<Commit<T>, EngineError> {
        self.connection.batch(statement, STATEMENT).await?;
        self.engine.lineage.advance(self.newest);
        if self.position != self.before {
            self.engine.notifier.notify(un_db(self.newest.seq));
        }
        self.slot.put(self.connection);
        Ok(Commit {
            outcome,
            before: self.before.seq,
            position: self.position,
            changes: self.changes,
            records: self.records,
        })
    }

    /// Returns the newest commit before this transaction.
    pub fn newest(&self) -> lineage::Commit {
        self.newest
    }
}

/// A transaction that holds the lock of all writers of the cluster, before it is known where the
/// sequence has arrived.
pub(super) struct Locked<'a> {
    engine: &'a Postgres,
    connection: PgConnection,
    slot: Slot,
    log_end: Option<i64>,
}

impl<'a> Locked<'a> {
    /// Begins a transaction and takes the lock, where the database has the cluster's place.
    pub async fn take(engine: &'a Postgres) -> Result<Self, EngineError> {
        let (connection, slot) = engine.writer.take().await?;
        connection.batch(BEGIN, STATEMENT).await?;
        let place = &engine.place;
        let rows = connection
            .query(
                "SELECT log_end FROM reports_server.clusters
                 WHERE cluster = $1 AND identity = $2 AND history::text = $3 FOR UPDATE",
                &[
                    (&engine.cluster, Type::INT4),
                    (&place.identity, Type::TEXT),
                    (&place.history, Type::TEXT),
                ],
            )
            .await?;
        let Some(row) = rows.first() else {
            // A pooler has come to lead elsewhere, under a connection that stays as it is.
            place.check(&connection).await?;
            return Err(EngineError::Parted);
        };
        let log_end = column(row, "log_end")?;
        Ok(Self {
            engine,
            connection,
            slot,
            log_end,
        })
    }

    /// Goes on from the newest commit.
    pub async fn at_newest(self) -> Result<Tx<'a>, EngineError> {
        let rows = self
            .connection
            .query(
                "SELECT seq, counter, batch, bytes FROM reports_server.commits
                 WHERE cluster = $1 ORDER BY seq DESC LIMIT 1",
                &[(&self.engine.cluster, Type::INT4)],
            )
            .await?;
        let row = rows.first().ok_or(EngineError::Parted)?;
        let newest = lineage::Commit {
            seq: column(row, "seq")?,
            batch: column(row, "batch")?,
        };
        let before = Position {
            seq: un_db(newest.seq),
            counter: un_db(column(row, "counter")?),
        };
        Ok(Tx {
            engine: self.engine,
            newest,
            before,
            bytes: column(row, "bytes")?,
            log_end: self.log_end,
            position: before,
            changes: Vec::new(),
            records: Vec::new(),
            records_changed: false,
            connection: self.connection,
            slot: self.slot,
        })
    }
}

impl Deref for Locked<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl Deref for Tx<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl From<PostgresError> for EngineError {
    fn from(error: PostgresError) -> Self {
        match error {
            PostgresError::OtherDatabase(other) => Self::OtherDatabase(Box::new(other)),
            error => Self::Postgres(Box::new(error)),
        }
    }
}
