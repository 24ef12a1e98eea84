//! The exporter, with what becomes of its exports counted and logged.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

use super::metrics::ExportMetrics;
use super::queue::Waiting;
use super::transport::Cause;

/// Pause between two lines about exports that fail.
const PAUSE: Duration = Duration::from_mins(1);

/// The exporter, with what becomes of its exports counted and logged.
#[derive(Debug)]
pub(super) struct Watched {
    inner: opentelemetry_otlp::SpanExporter,
    endpoint: String,
    metrics: ExportMetrics,
    waiting: Arc<Waiting>,
    cause: Cause,
    failures: Mutex<Failures>,
}

impl Watched {
    pub(super) fn new(
        inner: opentelemetry_otlp::SpanExporter,
        endpoint: String,
        metrics: ExportMetrics,
        waiting: Arc<Waiting>,
        cause: Cause,
    ) -> Self {
        Self {
            inner,
            endpoint,
            metrics,
            waiting,
            cause,
            failures: Mutex::default(),
        }
    }

    fn note(&self, spans: usize, result: &OTelSdkResult) {
        let spans = u64::try_from(spans).unwrap_or(u64::MAX);
        self.metrics.count(spans, result.is_ok());
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let not_taken = if result.is_ok() { 0 } else { spans };
        let lost = not_taken + self.waiting.overflow();
        match (failures.line_after(lost, Instant::now()), result) {
            (Some(Line::Lost(spans)), Err(error)) => tracing::warn!(
                error = self.cause.get().unwrap_or_else(|| error.to_string()),
                spans,
                endpoint = self.endpoint,
                "traces are lost: the collector does not take them"
            ),
            (Some(Line::Lost(spans)), Ok(())) => tracing::warn!(
                spans,
                endpoint = self.endpoint,
                "traces are lost: the collector takes them too slowly"
            ),
            (Some(Line::Over), _) => {
                tracing::info!(endpoint = self.endpoint, "the collector takes traces again");
            }
            (None, _) => {}
        }
    }
}

impl SpanExporter for Watched {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.waiting.leave(spans);
        let result = self.inner.export(batch).await;
        self.note(spans, &result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// A line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// So many spans were lost since the last one.
    Lost(u64),
    /// Nothing is lost any more.
    Over,
}

/// The failures since the last success.
#[derive(Debug, Default)]
struct Failures {
    /// The time of the last line about them.
    logged: Option<Instant>,
    /// Spans that were lost since then.
    unlogged: u64,
}

impl Failures {
    /// Returns the line to log after an export that lost so many spans: the first failure, then
    /// one line a minute, and the end.
    fn line_after(&mut self, lost: u64, now: Instant) -> Option<Line> {
        if lost == 0 {
            self.unlogged = 0;
            return self.logged.take().map(|_| Line::Over);
        }
        self.unlogged += lost;
        if self
            .logged
            .is_some_and(|logged| now.duration_since(logged) < PAUSE)
        {
            return None;
        }
        self.logged = Some(now);
        Some(Line::Lost(std::mem::take(&mut self.unlogged)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_at_first_then_once_a_minute_and_their_end() {
        let (mut failures, start) = (Failures::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let steps = [
            (0, 0, None),
            (3, 1, Some(Line::Lost(3))),
            (4, 6, None),
            (5, 59, None),
            (1, 61, Some(Line::Lost(10))),
            (2, 70, None),
            (0, 75, Some(Line::Over)),
            (0, 80, None),
            (7, 81, Some(Line::Lost(7))),
        ];
        for (lost, seconds, expected) in steps {
            assert_eq!(
                failures.line_after(lost, at(seconds)),
                expected,
                "at {seconds}"
            );
        }
    }
}
