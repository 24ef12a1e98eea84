//! The answers to the writers.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use super::{Key, Objects};

/// The acknowledged writes, object by object.
pub struct Ledger {
    inner: Mutex<Account>,
    writes: watch::Sender<u64>,
}

/// The state of a [`Ledger`].
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// The objects that must be stored.
    pub stored: Objects,
    /// Objects of which a write got no answer, or an error: it may have taken effect or not.
    pub doubted: BTreeSet<Key>,
    /// Acknowledged creations, updates and deletions.
    pub created: u64,
    /// See [`Account::created`].
    pub updated: u64,
    /// See [`Account::created`].
    pub deleted: u64,
    /// Updates that were answered with 409 and sent again.
    pub conflicts: u64,
    /// Requests that failed, with their answers.
    pub failures: Vec<String>,
    /// Longest time from request to answer, and the request.
    pub longest: (Duration, String),
}

impl Account {
    /// Returns the differences between the stored objects and the expected ones by now; doubted
    /// objects are left out.
    #[must_use]
    pub fn differences(&self, found: &Objects) -> Vec<String> {
        self.sure(found)
            .differences(&self.sure(&self.stored), false)
    }

    fn sure(&self, objects: &Objects) -> Objects {
        let mut objects = objects.clone();
        objects.0.retain(|key, _| !self.doubted.contains(key));
        objects
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (longest, request) = &self.longest;
        write!(
            f,
            "{} created, {} updated, {} deleted, {} conflicts, {} failures, longest wait {longest:?} ({request})",
            self.created,
            self.updated,
            self.deleted,
            self.conflicts,
            self.failures.len()
        )
    }
}

impl Ledger {
    /// Returns a ledger that begins with the stored objects.
    #[must_use]
    pub fn new(stored: Objects) -> Self {
        let account = Account {
            stored,
            ..Account::default()
        };
        Self {
            inner: account.into(),
            writes: watch::Sender::new(0),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Account> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the present state.
    #[must_use]
    pub fn account(&self) -> Account {
        self.inner().clone()
    }

    /// Waits until this many more writes are acknowledged.
    pub async fn more_writes(&self, count: u64) {
        let mut writes = self.writes.subscribe();
        let goal = *writes.borrow() + count;
        // The sender lives as long as `self`.
        let _ = writes.wait_for(|writes| *writes >= goal).await;
    }

    /// Notes that an object was created.
    pub fn created(&self, key: Key, object: Value) {
        let mut account = self.inner();
        account.created += 1;
        account.stored.0.insert(key, object);
        self.writes.send_modify(|writes| *writes += 1);
    }

    /// Notes that an object was updated.
    pub fn updated(&self, key: Key, object: Value) {
        let mut account = self.inner();
        account.updated += 1;
        account.stored.0.insert(key, object);
        self.writes.send_modify(|writes| *writes += 1);
    }

    /// Notes that an object was deleted.
    pub fn deleted(&self, key: &Key) {
        let mut account = self.inner();
        account.deleted += 1;
        account.stored.0.remove(key);
        self.writes.send_modify(|writes| *writes += 1);
    }

    /// Notes that an update was answered with 409.
    pub fn conflict(&self) {
        self.inner().conflicts += 1;
    }

    /// Notes that a request failed; a write of `doubted` may have taken effect or not.
    pub fn failed(&self, what: String, doubted: Option<Key>) {
        let mut account = self.inner();
        account.failures.push(what);
        account.doubted.extend(doubted);
    }

    /// Notes that a request was answered.
    pub fn answered(&self, request: &str, took: Duration) {
        let mut account = self.inner();
        if took > account.longest.0 {
            account.longest = (took, request.to_owned());
        }
    }
}
