//! Counters of exported spans.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// Counters of exported spans.
#[derive(Clone, Debug, Default)]
pub struct ExportMetrics {
    exported: Counter,
    lost: Counter,
}

impl ExportMetrics {
    /// Adds the counters to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "trace_spans_exported",
            "Spans that the collector of traces has taken",
            self.exported.clone(),
        );
        registry.register(
            "trace_spans_lost",
            "Spans that the collector of traces has not taken",
            self.lost.clone(),
        );
    }

    /// Returns how many spans the collector has taken.
    #[must_use]
    pub fn exported(&self) -> u64 {
        self.exported.get()
    }

    /// Returns how many spans the collector has not taken.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.get()
    }

    pub(super) fn count(&self, spans: u64, taken: bool) {
        let counter = if taken { &self.exported } else { &self.lost };
        counter.inc_by(spans);
    }
}
