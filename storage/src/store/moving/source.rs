//! The database that is moved, as the mover sees it: SQLite, or PostgreSQL.

use std::collections::HashMap;
use std::time::Duration;

use crds::control::DatabaseMove;

use super::rows::{
    CommitRow, Departure, EventRow, LastCommit, LogRows, MarkRow, Marker, ObjectRow, RowKey,
};
use crate::model::{ObjectKey, Position, ResourceId, ResourceRecord};
use crate::store::engine::EngineError;
use crate::store::postgres::Postgres;

/// Bytes of texts after which a page ends: pages of typical reports have fewer.
pub(crate) const PAGE_BYTES: usize = 8 << 20;

/// An order to move, as far as the database that is moved has to know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order<'a> {
    /// The cluster's identity in the other database.
    pub identity: &'a str,
    /// Name of the cluster for people.
    pub name: &'a str,
    /// The name that tells the order from others.
    pub id: &'a str,
}

/// The answer to a server that is about to move the reports.
#[derive(Clone, Debug)]
pub(crate) enum Turn {
    /// It may, with this attempt.
    Own(Marker),
    /// Another server does, and is as far as it told.
    Others(Option<Box<DatabaseMove>>),
    /// The order was taken back.
    GivenUp,
    /// They have moved already.
    Over,
}

/// A database that is moved.
#[async_trait::async_trait]
pub(crate) trait Source: Send + Sync {
    /// Asks for an attempt to move, and notes it before any trace of it is seen elsewhere.
    async fn turn(&self, order: Order<'_>) -> Result<Turn, EngineError>;

    /// Notes that the other database knows of an attempt with this number: those of this server are
    /// to be higher.
    fn pass(&self, attempt: i64);

    /// Takes an order back. Returns [`Turn::Own`] where there may be a copy to remove, and
    /// [`Turn::GivenUp`] once there is none.
    async fn give_up(&self, order: Order<'_>) -> Result<Turn, EngineError>;

    /// Notes that nothing is left of the copies of the attempt, and those before.
    async fn cleaned(&self, attempt: i64) -> Result<(), EngineError>;

    /// Notes that the attempt goes on, and how far it is. Returns false where another one has taken
    /// its place.
    async fn renew(
        &self,
        attempt: i64,
        copied: u64,
        told: &DatabaseMove,
    ) -> Result<bool, EngineError>;

    /// Notes that this server has read an order, empty for none, and can follow the reports.
    async fn attend(&self, order: &str) -> Result<(), EngineError>;

    /// Returns the number of other servers that have not read the order yet.
    async fn unaware(&self, order: &str) -> Result<i64, EngineError>;

    /// Forgets that this server can follow the reports, because it ends.
    async fn leave(&self);

    /// Returns where the reports have moved, if they have, and if somebody else can have done it.
    async fn departure(&self) -> Result<Option<Departure>, EngineError>;

    /// Notes that the other database is in use: what is here gets old.
    async fn arrived(&self, departure: &Departure) -> Result<(), EngineError>;

    /// Has the reports count here again, because the other database has lost a part of the copy. Their
    /// histories begin anew, above etcd's `revision`: the other one may have been in use. Returns false
    /// where they are not here any more, or the other database was in use, as far as is known.
    async fn take_back(&self, departure: &Departure, revision: u64) -> Result<bool, EngineError>;

    /// Has the other database, as `engine`, continue what this server has seen here. A failover can
    /// have lost a part of that before the reports moved.
    fn hand_on(&self, engine: &Postgres);

    /// Returns the change up to which a server has copied all that it moves; `None` where none does.
    /// Later ones must not be dropped.
    async fn copied(&self) -> Result<Option<u64>, EngineError>;

    /// Returns whether other servers write as well: facts that are not in the log have to be looked
    /// for, as nobody here is told of them.
    fn is_shared(&self) -> bool;

    /// Takes a snapshot; it shows the database of the moment when it is first read from.
    async fn snapshot(&self) -> Result<Box<dyn SourceSnapshot>, EngineError>;

    /// Keeps everybody else from writing, for about `limit` at most, as long as the attempt is in
    /// force.
    async fn hold(&self, attempt: i64, limit: Duration) -> Result<Box<dyn Hold>, EngineError>;
}

/// A database to which nobody writes.
#[async_trait::async_trait]
pub(crate) trait Hold: Send {
    /// Returns the last commit.
    async fn last(&mut self) -> Result<LastCommit, EngineError>;

    /// Marks the database as moved behind `last`, durably: a server that opens it from now on goes on
    /// in the other one. `number` is the one under which that is opened; `ids` are the numbers of the
    /// resources in both.
    async fn mark(
        self: Box<Self>,
        last: LastCommit,
        number: i64,
        ids: &HashMap<ResourceId, i64>,
    ) -> Result<Departure, MarkError>;
}

/// The reason why a mark was not set.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MarkError {
    /// It is not there.
    #[error("{0}")]
    Unmarked(EngineError),
    /// Nobody knows; the next [`Source::turn`] tells.
    #[error("{0}")]
    Unknown(EngineError),
    /// Nobody knows, and only a start of the process tells.
    #[error("{0}")]
    Lost(EngineError),
}

/// The database as it is at one moment, however long it is looked at.
#[async_trait::async_trait]
pub(crate) trait SourceSnapshot: Send {
    /// Returns the position in the sequence.
    async fn position(&mut self) -> Result<Position, EngineError>;

    /// Returns the change up to which all are dropped, or may be at any time.
    async fn compacted(&mut self) -> Result<u64, EngineError>;

    /// Returns the commit at which the log begins; `None` where commits are not kept.
    async fn base(&mut self) -> Result<Option<CommitRow>, EngineError>;

    /// Returns whether a commit that was copied is still there: a failover may have lost it.
    async fn has(&mut self, seq: u64, batch: i64) -> Result<bool, EngineError>;

    /// Returns the records of all resources.
    async fn records(&mut self) -> Result<Vec<ResourceRecord>, EngineError>;

    /// Returns the number of objects of all resources that were not reset.
    async fn count(&mut self) -> Result<u64, EngineError>;

    /// Returns at most `max` objects of a resource behind `after`, by namespace, then name: fewer
    /// where their texts are large, but one at least where there is one.
    async fn objects(
        &mut self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
    ) -> Result<Vec<ObjectRow>, EngineError>;

    /// Returns the objects at the first of some keys, those that are there, and the number of these
    /// keys: about `max`, fewer where the texts are large, but one at least where one is wanted.
    async fn objects_at(
        &mut self,
        wanted: &[RowKey],
        max: usize,
    ) -> Result<(Vec<ObjectRow>, usize), EngineError>;

    /// Returns about `max` changes behind `seq`, whole commits where commits are kept; all columns.
    /// There are fewer where their texts are large, but one at least where there is one.
    async fn log(&mut self, seq: u64, max: usize) -> Result<LogRows, EngineError>;

    /// Returns the number of changes behind `seq`, and the sum of their versions.
    async fn log_sums(&mut self, seq: u64) -> Result<(i64, i64), EngineError>;

    /// Returns at most `max` imported marks of a resource behind `after`.
    async fn marks(
        &mut self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
    ) -> Result<Vec<MarkRow>, EngineError>;

    /// Returns the imported marks at some keys, those that are there.
    async fn marks_at(&mut self, wanted: &[RowKey]) -> Result<Vec<MarkRow>, EngineError>;

    /// Returns sums of the objects of a resource, and of its imported marks.
    async fn sums(&mut self, resource: ResourceId) -> Result<Sums, EngineError>;

    /// Returns sums of all imported marks and all last events of a resource; they are the same in
    /// two databases that have the same ones. `None` where they are not needed.
    async fn memory_sums(
        &mut self,
        resource: ResourceId,
    ) -> Result<Option<MemorySums>, EngineError>;

    /// Returns at most `max` last events of a resource behind `after`.
    async fn events(
        &mut self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
    ) -> Result<Vec<EventRow>, EngineError>;

    /// Returns the last events at some keys, those that are there.
    async fn events_at(&mut self, wanted: &[RowKey]) -> Result<Vec<EventRow>, EngineError>;

    /// Returns all definitions, by group.
    async fn definitions(&mut self) -> Result<Vec<(String, String)>, EngineError>;
}

/// Sums of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Number of objects.
    pub objects: i64,
    /// Sum of their versions.
    pub versions: i64,
    /// Number of imported marks.
    pub marks: i64,
}

/// Sums of the imported marks of a resource, and of its last events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemorySums {
    pub marks: String,
    pub events: String,
}
