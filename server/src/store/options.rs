//! How a store is opened.

use std::{path::PathBuf, sync::Arc, time::Duration};

use crate::cache::RingLimits;

/// Label by which Kyverno looks up the ephemeral reports of a resource, thousands of times a scan.
const KYVERNO_RESOURCE_UID: &str = "audit.kyverno.io/resource.uid";

/// Options of a store; the default of each is meant for production.
#[derive(Clone)]
pub struct StoreOptions {
    /// The SQLite database file; made if it does not exist. Its directory must exist.
    pub path: PathBuf,
    /// How long changes are kept, and so how far back a watch can resume.
    pub history: Duration,
    /// How large the kept changes may grow before they are dropped earlier, in bytes of JSON.
    pub history_bytes: u64,
    /// How much of that is kept in memory as well, per resource.
    pub ring: RingLimits,
    /// Bounds of what waits to be committed.
    pub queue: QueueLimits,
    /// Labels for which an equality selector is answered from an index.
    pub indexed_labels: Vec<String>,
    /// Is told about each commit.
    pub observer: Arc<dyn Observer>,
}

impl StoreOptions {
    /// The defaults, with the database at `path`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            history: Duration::from_mins(10),
            history_bytes: 1 << 30,
            ring: RingLimits::default(),
            queue: QueueLimits::default(),
            indexed_labels: vec![KYVERNO_RESOURCE_UID.to_owned()],
            observer: Arc::new(()),
        }
    }
}

impl std::fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "StoreOptions({}, history {:?})",
            self.path.display(),
            self.history
        )
    }
}

/// Bounds of what waits to be committed. Beyond them requests are refused with 429.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// Most writes.
    pub writes: usize,
    /// Most bytes of their JSON texts.
    pub bytes: usize,
    /// Most imports and other orders of the control API.
    pub orders: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            writes: 4096,
            bytes: 64 << 20,
            orders: 64,
        }
    }
}

/// Is told what the committer does, for metrics. Called from the committer: must not block.
pub trait Observer: Send + Sync + 'static {
    /// A transaction with `writes` writes was committed (or failed) after `latency`.
    fn committed(&self, writes: usize, latency: Duration, success: bool);
}

/// Observes nothing.
impl Observer for () {
    fn committed(&self, _: usize, _: Duration, _: bool) {}
}
