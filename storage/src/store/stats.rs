//! Figures of a store, for metrics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::cache::ResourceStats;
use crate::model::Position;

/// Figures of a store at one moment. They are cheap: nothing is counted for them.
#[derive(Clone, Debug)]
pub struct StoreStats {
    /// The position of the cache.
    pub position: Position,
    /// Writes that wait to be committed.
    pub queued_writes: usize,
    /// Bytes of their JSON texts.
    pub queued_bytes: usize,
    /// Transactions with writes since the start.
    pub batches: u64,
    /// Writes in them; the quotient is the mean batch.
    pub batched_writes: u64,
    /// Transactions that failed since the start.
    pub failures: u64,
    /// Questions to the database for its newest commit since the start.
    pub questions: u64,
    /// False while the database does not take writes.
    pub database_up: bool,
    /// The capabilities of the database server; `None` with SQLite.
    pub database: Option<DatabaseInfo>,
    /// Figures by group and resource.
    pub resources: Vec<ResourceStats>,
}

/// The capabilities of a database server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "findings that do not depend on each other"
)]
pub struct DatabaseInfo {
    /// The version of the server.
    pub version: String,
    /// True when a connection pooler is between, as far as can be seen.
    pub pooler: bool,
    /// True when prepared statements outlive a transaction. None are used, so that a pooler need
    /// not know them.
    pub prepared_statements: bool,
    /// True when the change log has partitions; otherwise it is compacted row by row.
    pub partitions: bool,
    /// True when bodies are compressed with lz4.
    pub lz4: bool,
    /// True when notifications of other servers come through; otherwise they are followed by
    /// polling.
    pub notifications: bool,
}

/// The counters of the committer.
#[derive(Debug)]
pub(super) struct Counters {
    pub batches: AtomicU64,
    pub batched_writes: AtomicU64,
    pub failures: AtomicU64,
    pub database_up: AtomicBool,
    /// False while the database does not answer questions either.
    pub reachable: AtomicBool,
    /// The time since when the database does not go on from what the cache holds.
    parted: Mutex<Option<Instant>>,
}

impl Counters {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            batches: AtomicU64::new(0),
            batched_writes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            database_up: AtomicBool::new(true),
            reachable: AtomicBool::new(true),
            parted: Mutex::default(),
        })
    }

    /// Notes whether the database goes on from what the cache holds.
    pub fn part(&self, parted: bool) {
        let mut since = self.parted.lock().unwrap_or_else(PoisonError::into_inner);
        if parted {
            since.get_or_insert_with(Instant::now);
        } else {
            *since = None;
        }
    }

    /// Returns the time since when it does not.
    pub fn parted_since(&self) -> Option<Instant> {
        *self.parted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a batch.
    pub fn batch(&self, writes: usize) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.batched_writes
            .fetch_add(writes as u64, Ordering::Relaxed);
    }

    /// Notes that the cache has the state of the database again.
    pub fn recovered(&self) {
        self.database_up.store(true, Ordering::Relaxed);
    }

    /// Notes whether a transaction succeeded.
    pub fn transaction(&self, success: bool) {
        self.database_up.store(success, Ordering::Relaxed);
        if !success {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
    }
}
