//! Opening the database that another one was moved to, and taking it back.

use std::collections::HashMap;

use tokio_postgres::types::Type;

use super::super::place::Place;
use super::super::rows::column;
use super::super::{Postgres, migrate, rejoin};
use crate::store::engine::{EngineError, corrupt};
use crate::store::moving::rows::{Departure, LastCommit, Marker};
use crate::store::{OpenError, PostgresOptions};

/// The answer to whoever opens a cluster that was filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// It is open.
    Open,
    /// It is not the one that was filled, or not any more.
    Other,
    /// It lacks a part of what was filled in.
    Incomplete,
}

impl Postgres {
    /// Opens the cluster to which a database was moved; it may have been opened before.
    pub async fn open_moved(
        options: &PostgresOptions,
        departure: &Departure,
    ) -> Result<Self, OpenError> {
        let identity = &departure.marker.identity;
        let (connector, connection, greeting) = Self::connect(options).await?;
        let place = Place::find(&connection, identity)
            .await
            .map_err(EngineError::from)?;
        let other = || OpenError::MovedElsewhere(identity.clone());
        let place = place.ok_or_else(other)?;
        migrate::migrate(&connection).await?;
        connection.close().await;
        let engine = Self::assemble(connector, greeting, place, options);
        match engine.open_move(&departure.marker).await? {
            Opening::Open => {}
            Opening::Other => return Err(other()),
            Opening::Incomplete => return Err(OpenError::Incomplete(identity.clone())),
        }
        engine.moved_by.get_or_init(|| departure.marker.clone());
        rejoin::check_origin(&engine).await?;
        if let Err(error) = engine.look_around().await {
            tracing::warn!(%error, "checking what the database can do");
        }
        Ok(engine)
    }

    /// Opens the cluster again where it was put back to the time before it was opened. Nobody else
    /// would.
    pub async fn open_again(&self) -> Result<(), EngineError> {
        let Some(marker) = self.moved_by.get() else {
            return Ok(());
        };
        match self.open_move(marker).await? {
            // The reports may have moved on from here.
            Opening::Open | Opening::Other => Ok(()),
            Opening::Incomplete => {
                let lacks = "was put back to an earlier state, and lacks a part of what was moved there; \
                             restore a newer backup";
                Err(corrupt(&"the database", lacks))
            }
        }
    }

    /// Opens the cluster after it was filled, or finds it open.
    async fn open_move(&self, marker: &Marker) -> Result<Opening, EngineError> {
        let (connection, slot) = self.writer.take().await?;
        let rows = connection
            .long_query(
                // Whoever finds it open does not open it again, so that has to survive a crash.
                "WITH durable AS MATERIALIZED (
                     SELECT set_config('synchronous_commit', 'on', true)
                     WHERE current_setting('synchronous_commit') = 'off')
                 SELECT reports_server.open_move_v2($1, $2, $3, $4) AS outcome,
                     (SELECT count(*) FROM durable)",
                &[
                    (&self.cluster, Type::INT4),
                    (&marker.source, Type::TEXT),
                    (&marker.attempt, Type::INT8),
                    (&marker.is_ordered, Type::BOOL),
                ],
            )
            .await?;
        slot.put(connection);
        let outcome: i32 = column(rows.first().ok_or(EngineError::Parted)?, "outcome")?;
        Ok(match outcome {
            0 => Opening::Open,
            1 => Opening::Other,
            _ => Opening::Incomplete,
        })
    }

    /// Returns whether the database, which another one was moved to, lacks what clients may hold of
    /// that, whose last commit was `last`.
    pub async fn is_apart(&self, last: &LastCommit) -> Result<bool, EngineError> {
        rejoin::is_apart(self, last).await
    }

    /// Begins the histories anew where the database [is apart](Self::is_apart), above etcd's
    /// `revision`.
    pub async fn begin_behind(&self, last: &LastCommit, revision: u64) -> Result<(), EngineError> {
        rejoin::begin_behind(self, last, revision).await
    }

    /// Has the reports count here again that have moved away by an attempt, in histories that begin
    /// above etcd's `revision`. Returns false where they are not here any more.
    pub async fn take_back(&self, attempt: i64, revision: u64) -> Result<bool, EngineError> {
        rejoin::take_back(self, attempt, revision).await
    }

    /// Returns the numbers of the resources in the database that `options` name, by uid.
    pub async fn numbers_at(
        options: &PostgresOptions,
    ) -> Result<HashMap<String, i64>, EngineError> {
        let (_, connection, _) = Self::connect(options).await?;
        let rows = connection
            .query(
                "SELECT r.id, r.uid FROM reports_server.resources r
                 JOIN reports_server.clusters c ON c.cluster = r.cluster WHERE c.identity = $1",
                &[(&options.cluster_identity, Type::TEXT)],
            )
            .await?;
        connection.close().await;
        let pair = |row: &tokio_postgres::Row| Ok((column(row, "uid")?, column(row, "id")?));
        rows.iter().map(pair).collect()
    }

    /// Opens a database that the reports have moved away from, as it is, to have them taken back.
    pub async fn left(options: &PostgresOptions) -> Result<Self, OpenError> {
        let (connector, connection, greeting) = Self::connect(options).await?;
        let place = Place::find(&connection, &options.cluster_identity)
            .await
            .map_err(EngineError::from)?;
        connection.close().await;
        let place = place.ok_or(EngineError::Parted)?;
        Ok(Self::assemble(connector, greeting, place, options))
    }
}
