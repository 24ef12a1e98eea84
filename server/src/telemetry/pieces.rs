//! Metrics of the pieces that compressed lists are joined from.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Memory and use of kept pieces.
#[derive(Clone, Debug, Default)]
pub struct PieceMetrics {
    bytes: Gauge,
    hits: Counter,
    misses: Counter,
}

impl PieceMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        let help = "Memory of the compressed objects that are kept for lists, in bytes";
        registry.register("piece_cache_bytes", help, this.bytes.clone());
        let help = "Objects of compressed lists that were taken from memory";
        registry.register("piece_cache_hits", help, this.hits.clone());
        let help = "Objects of compressed lists that had to be compressed";
        registry.register("piece_cache_misses", help, this.misses.clone());
        this
    }

    /// Counts a piece that a list needs.
    pub fn needed(&self, kept: bool) {
        let counter = if kept { &self.hits } else { &self.misses };
        counter.inc();
    }

    /// Notes the memory of all kept pieces.
    pub fn hold(&self, bytes: u64) {
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Returns the memory of all kept pieces, in bytes.
    #[must_use]
    pub fn bytes(&self) -> i64 {
        self.bytes.get()
    }

    /// Returns how many pieces were kept when a list needed them, and how many were not.
    #[must_use]
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.get(), self.misses.get())
    }
}
