//! The answers to the writers: acknowledged writes, failures, and their waiting times.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::state::ObjectState;
use testreports::ReportKind;

/// The kind of an acknowledged write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// 201 to a POST.
    Create,
    /// 200 to a PUT that changed something.
    Update,
    /// 200 to a DELETE.
    Delete,
}

/// One write that the server acknowledged.
#[derive(Clone, Debug)]
pub struct Ack {
    /// Kind written.
    pub kind: ReportKind,
    /// The kind of the write.
    pub did: Did,
    /// Namespace and name.
    pub key: (String, String),
    /// The state that is stored since; for a deletion the state before.
    pub state: ObjectState,
}

/// The record of answers. See the module.
#[derive(Default)]
pub struct Ledger {
    inner: Mutex<Inner>,
    requests: AtomicU64,
    writers: watch::Sender<usize>,
}

#[derive(Default)]
struct Inner {
    acks: Vec<Ack>,
    uncertain: Vec<(ReportKind, String)>,
    failures: Vec<String>,
    conflicts: u64,
    longest_wait: Duration,
    longest_what: String,
}

/// A guard that a running writer holds.
pub struct WriterGuard<'a>(&'a Ledger);

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        self.0
            .writers
            .send_modify(|running| *running = running.saturating_sub(1));
    }
}

impl Ledger {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a writer in before its task is spawned.
    pub fn expect_writer(&self) {
        self.writers.send_modify(|running| *running += 1);
    }

    /// Counts the writer out when the guard is dropped.
    pub fn writer(&self) -> WriterGuard<'_> {
        WriterGuard(self)
    }

    /// Waits until no writer runs any more.
    pub async fn writers_gone(&self) {
        let mut running = self.writers.subscribe();
        // The sender lives as long as `self`.
        let _ = running.wait_for(|running| *running == 0).await;
    }

    /// Notes that a request was answered, as expected or not; without a time it does not count for
    /// the wait.
    pub fn answered(&self, what: &str, took: Option<Duration>) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.inner();
        if let Some(took) = took.filter(|took| *took > inner.longest_wait) {
            inner.longest_wait = took;
            what.clone_into(&mut inner.longest_what);
        }
    }

    /// Notes that a write was acknowledged.
    pub fn acknowledge(&self, ack: Ack) {
        self.inner().acks.push(ack);
    }

    /// Notes that a write was sent and got no answer, or an error: it may have taken effect or not.
    /// `name` is the object's name or the beginning of it.
    pub fn doubt(&self, kind: ReportKind, name: &str) {
        self.inner().uncertain.push((kind, name.to_owned()));
    }

    /// Returns kinds and beginnings of names of the objects of which [`doubt`](Self::doubt) is
    /// possible.
    pub fn doubts(&self) -> Vec<(ReportKind, String)> {
        self.inner().uncertain.clone()
    }

    /// Notes that an update met a conflict that is no failure.
    pub fn conflict(&self) {
        self.inner().conflicts += 1;
    }

    /// Returns the number of these conflicts.
    pub fn conflicts(&self) -> u64 {
        self.inner().conflicts
    }

    /// Notes an event that a client of a healthy API does not see.
    pub fn fail(&self, what: String) {
        tracing::warn!(what, "the witness noticed");
        self.inner().failures.push(what);
    }

    /// Returns requests sent, failures, longest wait.
    pub fn so_far(&self) -> (u64, usize, Duration) {
        let inner = self.inner();
        (
            self.requests.load(Ordering::Relaxed),
            inner.failures.len(),
            inner.longest_wait,
        )
    }

    /// Returns all acknowledged writes in the order in which they were acknowledged.
    pub fn acknowledged(&self) -> Vec<Ack> {
        self.inner().acks.clone()
    }

    /// Returns all failures.
    pub fn failures(&self) -> Vec<String> {
        self.inner().failures.clone()
    }

    /// Returns the request that waited longest.
    pub fn longest(&self) -> (Duration, String) {
        let inner = self.inner();
        (inner.longest_wait, inner.longest_what.clone())
    }
}
