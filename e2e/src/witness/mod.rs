//! A witness: clients that write and watch reports all the time, as Kyverno does, and afterwards
//! report whether they noticed anything.
//!
//! Writers use a client that never retries and record the acknowledged writes; watchers record
//! every event. [`Witness::finish`] compares the two: every acknowledged write must have been seen
//! exactly once, in order, by every watcher, and must be in a list.

mod account;
mod error;
mod ledger;
mod options;
mod requester;
mod state;
mod watchers;
mod writers;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use account::Account;
pub use error::WitnessError;
pub use options::{Origin, WitnessOptions};
pub use requester::strict_client;
pub use state::{ObjectState, State};

use account::settle;
use ledger::Ledger;
use requester::Requester;
use testreports::{Corpus, ReportKind};
use watchers::{Style, Watcher};

/// Running writers and watchers.
pub struct Witness {
    ledger: Arc<Ledger>,
    watchers: Vec<Arc<Watcher>>,
    client: Client,
    before: State,
    origin: Origin,
    tasks: JoinSet<()>,
    stop_writing: CancellationToken,
    stop_watching: CancellationToken,
}

/// Longest time for a watcher to get its initial state.
const START_LIMIT: Duration = Duration::from_mins(1);
/// Longest time for watchers to see the last acknowledged write.
const SETTLE_LIMIT: Duration = Duration::from_secs(90);

impl Witness {
    /// Records the stored objects, opens the watches, and begins to write.
    ///
    /// # Errors
    /// If the state cannot be listed or a watcher gets no initial state.
    pub async fn start(
        client: Client,
        corpus: Arc<Corpus>,
        options: WitnessOptions,
    ) -> Result<Self, WitnessError> {
        let ledger = Arc::new(Ledger::default());
        let before = State::read(&client).await?;
        let stop_writing = CancellationToken::new();
        let stop_watching = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let mut watchers = Vec::new();
        for kind in [ReportKind::PolicyReport, ReportKind::EphemeralReport] {
            for style in Style::of(options.origin) {
                let watcher = Arc::new(Watcher::new(kind, *style, options.origin));
                tasks.spawn(Arc::clone(&watcher).run(
                    Requester::new(client.clone(), Arc::clone(&ledger)).untimed(),
                    stop_watching.clone(),
                ));
                watchers.push(watcher);
            }
        }
        for watcher in &watchers {
            tokio::time::timeout(START_LIMIT, watcher.started())
                .await
                .map_err(|_| WitnessError::NotStarted(watcher.name(), START_LIMIT))?;
        }
        writers::spawn(
            &mut tasks,
            &Requester::new(client.clone(), Arc::clone(&ledger)),
            &corpus,
            &options,
            &stop_writing,
        );
        Ok(Self {
            ledger,
            watchers,
            client,
            before,
            origin: options.origin,
            tasks,
            stop_writing,
            stop_watching,
        })
    }

    /// Returns the figures that are known while everything runs: requests sent, failures so far,
    /// longest wait.
    #[must_use]
    pub fn so_far(&self) -> (u64, usize, Duration) {
        self.ledger.so_far()
    }

    /// Ends the writers, lets the watchers see the last write, and settles the account.
    ///
    /// # Errors
    /// If the state cannot be listed at the end.
    pub async fn finish(mut self) -> Result<Account, WitnessError> {
        self.stop_writing.cancel();
        self.ledger.writers_gone().await;
        let acks = self.ledger.acknowledged();
        let deadline = Instant::now() + SETTLE_LIMIT;
        for watcher in &self.watchers {
            // A watcher that misses something will not see it later either: the account says so.
            let _ = tokio::time::timeout_at(deadline, watcher.seen_all(&acks)).await;
        }
        self.stop_watching.cancel();
        while self.tasks.join_next().await.is_some() {}
        let after = State::read(&self.client).await?;
        let (before, origin) = (&self.before, self.origin);
        Ok(settle(&self.ledger, &self.watchers, before, &after, origin))
    }
}
