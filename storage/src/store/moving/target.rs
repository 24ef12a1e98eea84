//! The database that another one is moved to, as the mover sees it while it is filled: PostgreSQL, or
//! a file of this server.

use std::collections::HashMap;

use super::rows::{EventRow, LogRows, MarkRow, ObjectRow, RowKey};
use super::source::{MemorySums, Sums};
use crate::model::{ObjectKey, Position, ResourceId, ResourceRecord};
use crate::store::engine::EngineError;

/// An object as the database has it, without its text: key, uid, version, whether it is unchanged
/// since its import, labels, SHA-256 of the text.
pub(crate) type Fingerprint = (ObjectKey, String, i64, bool, String, String);

/// The place of a move in the database that it leads to.
pub(crate) enum Begun<T> {
    /// It may be filled.
    Filling(T),
    /// It holds reports that are not of an earlier attempt of the same database.
    Taken,
    /// It was filled and opened by the same order, under this number.
    Opened(i64),
    /// A later attempt, of this number, fills it.
    Passed(i64),
}

impl<T: Target + 'static> Begun<T> {
    /// Returns the same, of whatever kind the database is.
    pub fn boxed(self) -> Begun<Box<dyn Target>> {
        match self {
            Self::Filling(target) => Begun::Filling(Box::new(target)),
            Self::Taken => Begun::Taken,
            Self::Opened(number) => Begun::Opened(number),
            Self::Passed(attempt) => Begun::Passed(attempt),
        }
    }
}

/// A database that is being filled by one attempt. Nobody else sees it before it is opened.
#[async_trait::async_trait]
pub(crate) trait Target: Send + Sync {
    /// Returns the numbers of the resources: in the database that is moved, and here.
    fn ids(&self) -> &HashMap<ResourceId, i64>;

    /// Returns the attempt that fills it, as the database that is moved knows it.
    fn attempt(&self) -> i64;

    /// Returns the number of the last step: it may be opened under it.
    fn last_step(&self) -> i64;

    /// Returns whether other servers can follow the reports there.
    fn is_shared(&self) -> bool;

    /// Drops some rows of an earlier attempt; returns false once there are none.
    async fn clear_part(&self) -> Result<bool, EngineError>;

    /// Lets the log begin at `from`.
    async fn begin_log(&self, from: u64) -> Result<(), EngineError>;

    /// Adds a part of the log, with the commits that it has. What is there already, because a step was
    /// made whose end was not seen, is the same.
    async fn log(&mut self, log: &LogRows) -> Result<(), EngineError>;

    /// Stores the present records; a resource that is new gets a number here.
    async fn records(&mut self, records: &[ResourceRecord]) -> Result<(), EngineError>;

    /// Gives up a resource that was reset or is gone.
    async fn leave(&mut self, resource: ResourceId) -> Result<(), EngineError>;

    /// Brings objects to the state of `rows`, and removes those at `gone`.
    async fn objects(&mut self, rows: Vec<ObjectRow>, gone: &[RowKey]) -> Result<(), EngineError>;

    /// Brings the imported marks at `wanted` to `rows`.
    async fn marks(&self, rows: &[MarkRow], wanted: &[RowKey]) -> Result<(), EngineError>;

    /// Brings the last events at `wanted` to `rows`.
    async fn events(&self, rows: &[EventRow], wanted: &[RowKey]) -> Result<(), EngineError>;

    /// Forgets the imported marks of a resource.
    async fn forget_marks(&self, resource: ResourceId) -> Result<(), EngineError>;

    /// Forgets the last events of a resource, which is not mirrored any more.
    async fn forget_events(&self, resource: ResourceId) -> Result<(), EngineError>;

    /// Returns at most `max` objects of a resource behind `after`, by namespace, then name: fewer only
    /// where there are no more.
    async fn fingerprints(
        &self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
    ) -> Result<Vec<Fingerprint>, EngineError>;

    /// Returns the objects at some keys of a resource, those that are there.
    async fn fingerprints_at(
        &self,
        resource: ResourceId,
        wanted: &[RowKey],
    ) -> Result<Vec<Fingerprint>, EngineError>;

    /// Returns sums of the objects of a resource, and of its imported marks.
    async fn sums(&self, resource: ResourceId) -> Result<Sums, EngineError>;

    /// Returns the number of changes behind `seq`, and the sum of their versions.
    async fn log_sums(&self, seq: u64) -> Result<(i64, i64), EngineError>;

    /// Returns sums of all imported marks and last events of a resource.
    async fn memory_sums(&self, resource: ResourceId) -> Result<MemorySums, EngineError>;

    /// Stores the definitions of API groups and the position in the sequence, so that all of the copy
    /// survives a crash. Changes up to `compacted` are not there. `last` is the last commit that was
    /// copied as it is.
    async fn finish(
        &self,
        position: Position,
        compacted: u64,
        definitions: &[(String, String)],
        last: Option<(u64, i64)>,
    ) -> Result<(), EngineError>;

    /// Drops what was copied, and forgets the cluster.
    async fn abandon(&self) -> Result<(), EngineError>;

    /// Lets go of the database, so that it can be opened.
    async fn release(&self);

    /// Closes the connections of an attempt that is given up.
    async fn close(&self);
}
