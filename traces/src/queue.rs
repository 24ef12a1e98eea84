//! The queue of spans before the export: bounded, and what it does not take is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor,
};

use super::metrics::ExportMetrics;

/// Most spans that wait for an export.
const MAX_WAITING: usize = 2048;

/// The spans that wait for an export, in numbers.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    spans: AtomicUsize,
    overflow: AtomicU64,
}

impl Waiting {
    /// Returns whether there is room for one more span, which is taken then.
    fn enter(&self) -> bool {
        let has_room = self.spans.fetch_add(1, Ordering::AcqRel) < MAX_WAITING;
        if !has_room {
            self.leave(1);
            self.overflow.fetch_add(1, Ordering::AcqRel);
        }
        has_room
    }

    /// Notes that spans do not wait any more: their export begins.
    pub(super) fn leave(&self, spans: usize) {
        self.spans.fetch_sub(spans, Ordering::AcqRel);
    }

    /// Returns how many spans found no room since the last call.
    pub(super) fn overflow(&self) -> u64 {
        self.overflow.swap(0, Ordering::AcqRel)
    }
}

/// The queue of the SDK, which never says that it is full: so nothing enters it then.
#[derive(Debug)]
pub(super) struct Queue {
    inner: BatchSpanProcessor,
    waiting: Arc<Waiting>,
    metrics: ExportMetrics,
}

impl Queue {
    /// Returns a queue before `exporter`, which has spans [leave](Waiting::leave).
    pub(super) fn new(
        exporter: impl SpanExporter + 'static,
        waiting: Arc<Waiting>,
        metrics: ExportMetrics,
    ) -> Self {
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(MAX_WAITING)
            .build();
        let inner = BatchSpanProcessor::builder(exporter)
            .with_batch_config(config)
            .build();
        Self {
            inner,
            waiting,
            metrics,
        }
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, span: &mut Span, cx: &Context) {
        self.inner.on_start(span, cx);
    }

    fn on_end(&self, span: SpanData) {
        if self.waiting.enter() {
            self.inner.on_end(span);
        } else {
            self.metrics.count(1, false);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{self, Receiver};

    use opentelemetry::trace::{Span as _, Tracer as _, TracerProvider as _};
    use opentelemetry_sdk::trace::SdkTracerProvider;

    use super::*;

    /// An exporter that waits until the test lets it go on.
    #[derive(Debug)]
    struct Slow {
        go: Mutex<Receiver<()>>,
        waiting: Arc<Waiting>,
    }

    impl SpanExporter for Slow {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.waiting.leave(batch.len());
            // An error means that the test has let it go on for ever.
            let _ = self.go.lock().unwrap().recv();
            Ok(())
        }
    }

    #[test]
    fn spans_for_which_a_slow_collector_leaves_no_room_are_counted() {
        let (go, wait) = mpsc::channel();
        let waiting = Arc::new(Waiting::default());
        let metrics = ExportMetrics::default();
        let exporter = Slow {
            go: Mutex::new(wait),
            waiting: waiting.clone(),
        };
        let queue = Queue::new(exporter, waiting.clone(), metrics.clone());
        let provider = SdkTracerProvider::builder()
            .with_span_processor(queue)
            .build();
        let tracer = provider.tracer("test");
        for _ in 0..2 * MAX_WAITING {
            tracer.start("span").end();
        }
        assert!(metrics.lost() > 0);
        assert_eq!(waiting.overflow(), metrics.lost());
        assert_eq!(waiting.overflow(), 0);
        drop(go);
        provider.shutdown().unwrap();
        // Everything has left, so there is room again.
        assert!(waiting.enter());
    }
}
