//! The tasks of a database for the committer.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crds::control::{DigestItem, GateSpec, GateState, ImportMode, ImportType};

use tokio::sync::watch;

use super::DatabaseInfo;
use super::postgres::{OtherDatabase, PostgresError};
use crate::cache::{Change, Log};
use crate::model::{
    Dictionary, Encoded, ObjectKey, Position, ResourceDef, ResourceId, ResourceRecord, StoredObject,
};

/// A transaction that did not (verifiably) commit.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The database failed. It is not known whether the transaction was committed; the committer
    /// finds out with [`Engine::tail`] before it goes on.
    #[error("{0}")]
    Database(#[from] sqlx::Error),
    /// PostgreSQL failed, likewise.
    #[error("{0}")]
    Postgres(Box<PostgresError>),
    /// The database does not continue the history that this server has seen: it was put back to an
    /// earlier state, or this server has slept for longer than the history is kept. Nothing was
    /// written; the committer calls [`Engine::rejoin`] and loads everything again.
    #[error("the database does not go on from what this server has seen")]
    Parted,
    /// The connection leads to a database that does not have the cluster's history: it is empty, or
    /// holds others. Nothing was written there, nor may be, and nothing may be taken from there.
    #[error("{0}")]
    OtherDatabase(Box<OtherDatabase>),
    /// The schema of the database could not be brought up to date.
    #[error("{0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// The database holds data that this release cannot read.
    #[error("{what}: {reason}")]
    Corrupt {
        /// The row.
        what: String,
        /// The fault of the row.
        reason: String,
    },
}

/// The outcome of a committed transaction.
#[derive(Debug)]
pub(crate) struct Commit<T> {
    /// The answer.
    pub outcome: T,
    /// The newest change before this transaction. Where the cache has not got that far, other
    /// replicas' changes come first.
    pub before: u64,
    /// The position after the transaction.
    pub position: Position,
    /// Changes by resource, in commit order.
    pub changes: Vec<(ResourceId, Change)>,
    /// Present states of the records that were changed.
    pub records: Vec<ResourceRecord>,
}

/// A write on its way to the database.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub resource: ResourceId,
    pub key: ObjectKey,
    pub kind: OpKind,
    /// The new state, or the last one of a deletion.
    pub object: Encoded,
}

#[derive(Clone, Debug)]
pub(crate) enum OpKind {
    Create,
    Update {
        expected_rv: Option<u64>,
    },
    Delete {
        expected_uid: Option<String>,
        expected_rv: Option<u64>,
    },
}

/// The outcome of an [`Op`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpOutcome {
    /// Written; the change is the next one in [`Commit::changes`].
    Written,
    AlreadyExists,
    NotFound,
    Conflict {
        uid: String,
        rv: u64,
    },
    Gate(GateState),
}

/// A part of an import, small enough not to delay other writes.
#[derive(Clone, Debug)]
pub(crate) struct ImportChunk {
    pub resource: ResourceId,
    /// Any mode but `Reset`, which is a command of its own.
    pub mode: ImportMode,
    pub items: Vec<ImportEntry>,
    pub progress: Option<u64>,
    pub horizon: Option<u64>,
    /// See [`GateSpec::fence`].
    pub fence: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct ImportEntry {
    pub type_: ImportType,
    pub key: ObjectKey,
    pub uid: String,
    /// Version in etcd; 0 where the mode does not need one.
    pub rv: u64,
    /// The object; `None` where the mode does not need it.
    pub object: Option<Encoded>,
}

/// The outcome of an [`ImportChunk`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImportOutcome {
    pub imported: u64,
    pub unchanged: u64,
    pub conflicts: Vec<DigestItem>,
}

/// The present gate does not allow the command: 409.
pub(crate) type Refusal = String;

/// The result of [`Engine::load`].
#[derive(Debug)]
pub(crate) struct Loaded {
    pub position: Position,
    pub records: Vec<ResourceRecord>,
}

/// The result of [`Engine::tail`].
#[derive(Debug)]
pub(crate) struct Tail {
    /// Changes by resource, in commit order. Listed states that were replaced since are left out.
    pub changes: Vec<(ResourceId, Change)>,
    /// The newest change that was looked at; the one that was asked for where there was none.
    pub seq: u64,
    /// The counter at that change, where the engine knows it.
    pub counter: Option<u64>,
    /// True when records were changed as well: [`Engine::load`] returns them.
    pub records: bool,
}

/// Returns the dictionary that the bodies of a resource are compressed with in memory.
pub(crate) type DictionaryOf<'a> = &'a (dyn Fn(ResourceId) -> Arc<Dictionary> + Sync);

/// A database. One committer calls the functions that change something, one at a time; the others
/// are called from anywhere.
///
/// Each changing function is one durable transaction: it assigns `seq` and resourceVersions inside
/// the commit, behind a lock that every writer takes first, so that both follow commit order.
#[async_trait::async_trait]
pub(crate) trait Engine: Log {
    /// Returns the records of all resources, and the position.
    async fn load(&self) -> Result<Loaded, EngineError>;

    /// Returns at most `max` objects of `resource` behind `after`, in any order of the engine, as
    /// long as it is the same for each page. Their bodies are compressed with `dictionary`.
    async fn objects(
        &self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
        dictionary: &Arc<Dictionary>,
    ) -> Result<Vec<StoredObject>, EngineError>;

    /// Returns the effects of at most `max` changes behind `seq`, in order. Their bodies are
    /// compressed with the dictionaries of their resources.
    async fn tail(
        &self,
        seq: u64,
        max: usize,
        dictionary_of: DictionaryOf<'_>,
    ) -> Result<Tail, EngineError>;

    /// Returns the newest committed seq; `None` where no other process can write.
    async fn newest_seq(&self) -> Result<Option<u64>, EngineError>;

    /// Returns the newest seq that other servers, or this one, have announced without being asked.
    /// Messages may be lost.
    fn announcements(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Returns whether such messages are coming in.
    fn is_listening(&self) -> bool {
        false
    }

    /// Returns the number of other servers that have come so far, or may have; `None` where none
    /// can.
    fn arrivals(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Returns the capabilities of the database; `None` where it is part of this process.
    fn info(&self) -> Option<DatabaseInfo> {
        None
    }

    /// Returns the history that tells the database from others; `None` where it is part of this
    /// process.
    fn history(&self) -> Option<String> {
        None
    }

    /// Returns the words for another database than this one to which the parameters of the
    /// connection led the last time.
    fn elsewhere(&self) -> Option<String> {
        None
    }

    /// Returns the time since when the reports are in another database, to which this server could not
    /// follow them; `None` where they are here.
    fn behind_since(&self) -> Option<Instant> {
        None
    }

    /// Goes on from the present state of the database, after [`EngineError::Parted`]. Where
    /// versions were lost that may have been served, up to `counter`, no history goes on across
    /// them.
    async fn rejoin(&self, _counter: u64) -> Result<(), EngineError> {
        Ok(())
    }

    /// Returns whether the database was put back to an earlier state while no server looked, and its
    /// histories are not begun above everything that clients may hold: see
    /// [`begin_anew`](Self::begin_anew).
    async fn is_put_back(&self) -> Result<bool, EngineError> {
        Ok(false)
    }

    /// Begins the histories of a database that [was put back](Self::is_put_back) anew, above
    /// everything that clients may hold. The counter had followed etcd's `revision`.
    async fn begin_anew(&self, _revision: u64) -> Result<(), EngineError> {
        Ok(())
    }

    /// Returns whether it keeps projections of objects, so that they have to come with it.
    fn projects(&self) -> bool {
        false
    }

    /// Commits writes, each with its own outcome; at most one per key.
    async fn commit(&self, ops: Vec<Op>) -> Result<Commit<Vec<OpOutcome>>, EngineError>;

    /// Stores a resource, if it is not stored yet, and returns its record.
    async fn define(&self, def: &ResourceDef) -> Result<Commit<ResourceRecord>, EngineError>;

    /// Forgets everything of a resource but its name, unless its gate is not closed.
    async fn reset(
        &self,
        id: ResourceId,
        fence: Option<u64>,
    ) -> Result<Commit<Result<(), Refusal>>, EngineError>;

    /// Imports a chunk.
    async fn import(
        &self,
        chunk: ImportChunk,
    ) -> Result<Commit<Result<ImportOutcome, Refusal>>, EngineError>;

    /// Sets the gate.
    async fn set_gate(
        &self,
        id: ResourceId,
        gate: &GateSpec,
        holder: Option<&str>,
    ) -> Result<Commit<Result<(), Refusal>>, EngineError>;

    /// Takes a new fencing token, and returns it.
    async fn take_fence(&self, id: ResourceId) -> Result<Commit<u64>, EngineError>;

    /// Raises the counter to `floor` at least.
    async fn raise_floor(&self, floor: u64) -> Result<Commit<()>, EngineError>;

    /// Returns the oldest changes that may be dropped, at most `max`: those that were committed by
    /// `before`, and younger ones as long as the log is larger than `max_bytes`.
    async fn compactable(
        &self,
        before: SystemTime,
        max_bytes: u64,
        max: usize,
    ) -> Result<Option<Compaction>, EngineError>;

    /// Drops the changes of a compaction and makes the horizons durable.
    async fn compact(&self, compaction: &Compaction) -> Result<Commit<()>, EngineError>;

    /// Drops at most `max` rows that nothing refers to any more; returns their number.
    async fn collect_garbage(&self, max: usize) -> Result<usize, EngineError>;

    /// Returns whether [`Engine::prepare`] should be called soon, because another database may be
    /// behind the connections than before. True once for each time.
    fn is_unprepared(&self) -> bool;

    /// Does work that makes later transactions cheaper, and notes for others the history that this
    /// server knows.
    async fn prepare(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Stores the definition of an API group, as text that only the caller understands.
    async fn save_definition(&self, group: &str, body: &str) -> Result<(), EngineError>;

    /// Returns all definitions, by group.
    async fn load_definitions(&self) -> Result<Vec<(String, String)>, EngineError>;

    /// Returns at most `max` imported marks behind (namespace, name), in that order.
    async fn marks(
        &self,
        resource: ResourceId,
        after: Option<(&str, &str)>,
        max: usize,
    ) -> Result<Vec<DigestItem>, EngineError>;

    /// Writes the database as it is at one moment to a new file; returns false, and writes nothing,
    /// where it is not a file of this process.
    async fn write_copy(&self, _path: &Path) -> Result<bool, EngineError> {
        Ok(false)
    }

    /// Closes the database.
    async fn close(&self);
}

/// Changes that may be dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compaction {
    /// The newest change to drop; all changes up to it are dropped.
    pub seq: u64,
    /// The newest version of each resource among them: its new horizon.
    pub horizons: Vec<(ResourceId, u64)>,
}

/// Time for which marks of imported deletions are kept: far longer than a list in pages can take,
/// whose continue token expires in minutes.
pub(crate) const MIRROR_EVENT_TTL: Duration = Duration::from_hours(1);

/// Returns an error that names the row that cannot be read.
#[expect(
    clippy::needless_pass_by_value,
    reason = "errors come by value from `map_err`"
)]
pub(crate) fn corrupt(what: &impl ToString, reason: impl ToString) -> EngineError {
    EngineError::Corrupt {
        what: what.to_string(),
        reason: reason.to_string(),
    }
}
