//! Durable storage: one ordered sequence of writes, committed in groups.
//!
//! A [`Store`] is a handle to one committer task, which alone writes: it takes everything that is
//! queued, hands it to the [`Engine`](engine::Engine) as one transaction, applies what was
//! committed to the [cache](crate::cache) in commit order and then answers the waiting requests. So
//! a client that was answered reads its own write, and watchers are never ahead of the database.

mod admin;
mod coalesced;
mod columns;
mod committer;
mod compression;
mod decide;
mod digest;
mod engine;
mod error;
mod follow;
mod follower;
mod handle;
mod import;
mod import_batch;
mod maintenance;
mod moving;
mod open;
mod options;
mod postgres;
mod queue;
mod registry;
mod restore;
mod sqlite;
mod stats;
mod write;

pub use digest::DigestError;
pub use engine::EngineError;
pub use error::{OpenError, StoreError};
pub use handle::{ReadError, Store};
pub use moving::{MoveOptions, MovedFrom};
pub use options::{
    Database, Etcd, Observer, PostgresOptions, QueueLimits, RevisionError, StoreOptions,
};
pub use postgres::{FoundHistories, OtherDatabase, PostgresError};
pub use restore::{RestoreError, Vacancy};
pub use stats::{DatabaseInfo, StoreStats};
pub use write::{Write, WriteError};

#[cfg(test)]
mod tests;
