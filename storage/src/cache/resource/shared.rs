//! The state that all resources share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::watch;

use crate::cache::RingLimits;
use crate::model::Position;

/// The state that all resources of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The counter as of the last commit that is in the cache. Raised after its events are.
    pub applied: AtomicU64,
    /// Position of the cache; sent after each commit has been applied.
    pub commits: watch::Sender<Position>,
    /// Labels with an index.
    pub indexed_labels: Arc<[String]>,
    pub ring_limits: RingLimits,
}
