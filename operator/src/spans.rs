//! The operator's traces: the options for them, and its spans.

use std::fmt::Display;
use std::path::PathBuf;

use clap::Args;
use futures::future::BoxFuture;
use traces::{Endpoint, MAX_RATE, Service, Settings, TARGET, TraceError, Traces};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::names;

/// Work in a span. It is passed on from function to function, and each of them would have all of it
/// on its stack, which is 2 MiB for a reconciliation that begins another one.
type Boxed<'a, T, E> = BoxFuture<'a, Result<T, E>>;

/// The options for traces.
#[derive(Args, Clone, Debug)]
pub struct TracingOptions {
    /// URL of a collector that takes traces by OTLP over HTTP, such as
    /// `http://otel-collector.monitoring:4318`; without it there are no traces.
    #[arg(long, env = names::TRACING_ENDPOINT_ENV, global = true)]
    pub tracing_endpoint: Option<Endpoint>,
    /// Reconciliations and steps of a million that are recorded.
    #[arg(
        long,
        env = names::TRACING_RATE_ENV,
        default_value_t = MAX_RATE,
        value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_RATE)),
        global = true
    )]
    pub tracing_sampling_rate_per_million: u32,
    /// File with the CAs of the collector's certificate in PEM, read again for each export; the
    /// public CAs without it.
    #[arg(long, env = names::TRACING_CA_FILE_ENV, global = true)]
    pub tracing_ca_file: Option<PathBuf>,
}

impl TracingOptions {
    /// Starts the export of traces, where there is a collector. `instance` is the name of this
    /// process.
    ///
    /// # Errors
    /// If the options cannot be used.
    pub fn start(&self, instance: Option<String>) -> Result<Option<Traces>, TraceError> {
        let Some(endpoint) = self.tracing_endpoint.clone() else {
            return Ok(None);
        };
        let settings = Settings {
            endpoint,
            rate_per_million: self.tracing_sampling_rate_per_million,
            ca: self.tracing_ca_file.clone(),
        };
        let service = Service {
            name: names::OPERATOR,
            version: env!("CARGO_PKG_VERSION"),
            instance,
        };
        Traces::start(settings, &service).map(Some)
    }
}

/// Runs a reconciliation of the `ReportsServer` of this name, as a span.
pub(crate) async fn reconciliation<T, E>(name: &str, work: Boxed<'_, T, E>) -> Result<T, E> {
    let span = tracing::info_span!(
        target: TARGET,
        "reconcile",
        otel.status_code = Empty,
        reports_server.name = name,
    );
    recorded(span, work).await
}

/// Runs a part of a reconciliation, as a span below it.
pub(crate) async fn part<T, E>(name: &'static str, work: Boxed<'_, T, E>) -> Result<T, E> {
    recorded(part_span(name), work).await
}

/// Runs a part of a reconciliation that waits for nothing, as a span below it.
pub(crate) fn pure_part<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
    part_span(name).in_scope(work)
}

/// Runs a step of the migration of a group, as a span.
pub(crate) async fn step<T, E>(
    group: &str,
    step: impl Display,
    work: Boxed<'_, T, E>,
) -> Result<T, E> {
    let span = tracing::info_span!(
        target: TARGET,
        "step",
        otel.name = step.to_string(),
        otel.status_code = Empty,
        reports_server.api_group = group,
    );
    recorded(span, work).await
}

fn part_span(name: &'static str) -> Span {
    tracing::info_span!(
        target: TARGET,
        "part",
        otel.name = name,
        otel.status_code = Empty,
    )
}

/// Runs work in a span, which tells whether it failed.
async fn recorded<T, E>(span: Span, work: Boxed<'_, T, E>) -> Result<T, E> {
    let result = work.instrument(span.clone()).await;
    if result.is_err() {
        span.record("otel.status_code", "ERROR");
    }
    result
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use clap::Parser;
    use opentelemetry::trace::{SpanId, Status, TracerProvider as _};
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
    use rstest::rstest;
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::util::SubscriberInitExt as _;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        tracing: TracingOptions,
    }

    fn parsed(arguments: &[&str]) -> Result<TracingOptions, clap::Error> {
        let all: Vec<&str> = [&["operator"][..], arguments].concat();
        Cli::try_parse_from(all).map(|cli| cli.tracing)
    }

    #[test]
    fn there_are_no_traces_without_a_collector_and_all_with_one() {
        let options = parsed(&[]).unwrap();
        assert!(options.start(None).unwrap().is_none());
        let options = parsed(&["--tracing-endpoint=http://127.0.0.1:1"]).unwrap();
        assert_eq!(options.tracing_sampling_rate_per_million, MAX_RATE);
        assert!(options.start(Some("pod".to_owned())).unwrap().is_some());
    }

    #[rstest]
    #[case("--tracing-endpoint=collector:4317", "http://")]
    #[case("--tracing-sampling-rate-per-million=1000001", "0..=1000000")]
    fn options_that_make_no_sense_are_named(#[case] option: &str, #[case] expected: &str) {
        let error = parsed(&[option]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    /// Keeps what is exported.
    #[derive(Clone, Debug, Default)]
    struct Kept(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for Kept {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().unwrap().extend(batch);
            Ok(())
        }
    }

    fn find<'a>(spans: &'a [SpanData], name: &str) -> &'a SpanData {
        spans.iter().find(|span| span.name == name).unwrap()
    }

    #[tokio::test]
    async fn parts_are_below_their_reconciliation_and_steps_stand_alone() {
        let kept = Kept::default();
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(kept.clone())
            .build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let guard = tracing_subscriber::registry().with(layer).set_default();
        let failed: Result<(), &str> = reconciliation(
            "a",
            Box::pin(async {
                pure_part("validate", || ());
                part("apply", Box::pin(async { Err("no") })).await
            }),
        )
        .await;
        assert_eq!(failed, Err("no"));
        let done: Result<(), &str> = step("g.io", "Mirror", Box::pin(async { Ok(()) })).await;
        assert_eq!(done, Ok(()));
        drop(guard);

        let spans = kept.0.lock().unwrap().clone();
        let root = find(&spans, "reconcile");
        assert_eq!(root.parent_span_id, SpanId::INVALID);
        assert!(matches!(root.status, Status::Error { .. }));
        for (name, fails) in [("validate", false), ("apply", true)] {
            let span = find(&spans, name);
            assert_eq!(span.parent_span_id, root.span_context.span_id(), "{name}");
            assert_eq!(matches!(span.status, Status::Error { .. }), fails, "{name}");
        }
        assert_eq!(find(&spans, "Mirror").parent_span_id, SpanId::INVALID);
    }
}
