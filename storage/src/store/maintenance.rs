//! Dropping changes that are older than the history.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use super::committer::unavailable;
use super::handle::WeakStore;
use super::{Store, StoreError};

/// Rows dropped in one transaction, texts of reports among them: few enough that writes that come
/// meanwhile hardly wait longer than for other writes.
const ROWS: usize = 200;
/// Bounds of the pause between rounds.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(20));

/// The amount of the past that is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct History {
    pub age: Duration,
    /// Bytes, as the database keeps them.
    pub bytes: u64,
}

/// Compacts `store` every now and then until it is closed.
pub(super) fn start(store: WeakStore, stop: CancellationToken, history: History) {
    let pause = (history.age / 10).clamp(PAUSE.0, PAUSE.1);
    let rounds = async move {
        loop {
            tokio::time::sleep(pause).await;
            let Some(store) = store.upgrade() else { break };
            if let Err(error) = store.compact(history).await {
                tracing::warn!(%error, "compacting the change log");
            }
        }
    };
    tokio::spawn(stop.run_until_cancelled_owned(rounds));
}

impl Store {
    /// Drops changes beyond `history`, in chunks between which others are served.
    ///
    /// # Errors
    /// If the store does not take the command; the rest is dropped by the next round.
    pub(super) async fn compact(&self, history: History) -> Result<(), StoreError> {
        self.prepare().await?;
        let Some(before) = SystemTime::now().checked_sub(history.age) else {
            return Ok(());
        };
        while self.compact_chunk(before, history.bytes).await? {}
        while self.collect_chunk().await? {}
        Ok(())
    }

    /// Drops one chunk of changes; returns false when there was nothing to drop.
    async fn compact_chunk(&self, before: SystemTime, max_bytes: u64) -> Result<bool, StoreError> {
        self.command(move |committer| {
            async move {
                let engine = Arc::clone(&committer.engine);
                let Some(compaction) = engine
                    .compactable(before, max_bytes, ROWS)
                    .await
                    .map_err(unavailable)?
                else {
                    return Ok(false);
                };
                // Readers learn the new horizon first: whoever has read a gap sees it afterwards.
                for &(id, horizon) in &compaction.horizons {
                    if let Some(resource) = committer.registry.by_id(id) {
                        resource.raise_horizon(horizon);
                    }
                }
                let compacted = committer.transaction(engine.compact(&compaction)).await;
                compacted.map(|_| true).map_err(unavailable)
            }
            .boxed()
        })
        .await
    }

    /// Prepares the engine. See [`Engine::prepare`](super::engine::Engine::prepare).
    pub(super) async fn prepare(&self) -> Result<(), StoreError> {
        self.command(|committer| {
            async move { committer.engine.prepare().await.map_err(unavailable) }.boxed()
        })
        .await
    }

    async fn collect_chunk(&self) -> Result<bool, StoreError> {
        self.command(|committer| {
            async move {
                let dropped = committer.engine.collect_garbage(ROWS).await;
                dropped.map(|n| n > 0).map_err(unavailable)
            }
            .boxed()
        })
        .await
    }
}
