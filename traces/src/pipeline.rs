//! The way of spans from `tracing` to the collector.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use super::TARGET;
use super::endpoint::Endpoint;
use super::error::TraceError;
use super::export::Watched;
use super::metrics::ExportMetrics;
use super::queue::{Queue, Waiting};
use super::transport::Transport;

/// The rate at which every trace is recorded.
pub const MAX_RATE: u32 = 1_000_000;
/// Longest time for one export, with its retries.
const EXPORT: Duration = Duration::from_secs(10);
/// Longest wait for the last export.
const END: Duration = Duration::from_secs(5);

/// The collector, and what it gets.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of the collector.
    pub endpoint: Endpoint,
    /// Traces of a million that are recorded, of those that begin here. One that began elsewhere is
    /// recorded where its sender records it.
    pub rate_per_million: u32,
    /// File with the CAs of the collector; those of Mozilla without.
    pub ca: Option<PathBuf>,
}

/// The process that has the spans.
#[derive(Clone, Debug)]
pub struct Service {
    /// Name of the program, `service.name`.
    pub name: &'static str,
    /// Version of the program, `service.version`.
    pub version: &'static str,
    /// Name of the process among others of the program, `service.instance.id`: usually the pod's.
    pub instance: Option<String>,
}

/// The export of traces.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    metrics: ExportMetrics,
}

impl Traces {
    /// Starts the export. Nothing is sent yet, and a collector that cannot be reached is no error:
    /// spans are lost then, and counted.
    ///
    /// # Errors
    /// If the settings cannot be used.
    pub fn start(settings: Settings, service: &Service) -> Result<Self, TraceError> {
        let metrics = ExportMetrics::default();
        let url = settings.endpoint.url();
        let transport = Transport::new(settings.ca)?;
        let cause = transport.cause();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(transport)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(url.clone())
            .with_timeout(EXPORT)
            .build()?;
        let waiting = Arc::new(Waiting::default());
        let exporter = Watched::new(exporter, url, metrics.clone(), waiting.clone(), cause);
        let provider = SdkTracerProvider::builder()
            .with_span_processor(Queue::new(exporter, waiting, metrics.clone()))
            .with_sampler(sampler(settings.rate_per_million))
            .with_resource(resource(service))
            .build();
        let tracer = provider.tracer(service.name);
        Ok(Self {
            provider,
            tracer,
            metrics,
        })
    }

    /// Returns the layer that takes up spans with the [target](TARGET) of this crate, and nothing
    /// else.
    #[must_use]
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + 'static + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let filter = filter_fn(is_exported).with_max_level_hint(LevelFilter::INFO);
        tracing_opentelemetry::layer::<S>()
            .with_tracer(self.tracer.clone())
            .with_location(false)
            .with_target(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(filter)
    }

    /// Returns the counters of exported spans.
    #[must_use]
    pub fn metrics(&self) -> ExportMetrics {
        self.metrics.clone()
    }

    /// Exports what is left, and waits for it for five seconds at most. Not for a thread that others
    /// need: it blocks.
    pub fn end(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(END) {
            tracing::warn!(%error, "the last traces may be lost");
        }
    }
}

/// Returns whether something belongs into a trace.
fn is_exported(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target() == TARGET
}

/// Returns what decides whether a trace is recorded: its sender, else the rate.
fn sampler(rate_per_million: u32) -> Sampler {
    let ratio = f64::from(rate_per_million.min(MAX_RATE)) / f64::from(MAX_RATE);
    Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio)))
}

fn resource(service: &Service) -> Resource {
    let mut attributes = vec![KeyValue::new("service.version", service.version)];
    let instance = service.instance.clone();
    attributes.extend(instance.map(|instance| KeyValue::new("service.instance.id", instance)));
    Resource::builder()
        .with_service_name(service.name)
        .with_attributes(attributes)
        .build()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use http::HeaderMap;
    use opentelemetry::trace::TraceContextExt as _;
    use rstest::rstest;
    use tracing::info_span;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;
    use tracing_subscriber::EnvFilter;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::{LOG_DIRECTIVE, continue_from};

    const SERVICE: Service = Service {
        name: "test",
        version: "1",
        instance: None,
    };
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    /// Returns an export to a port on which nobody listens.
    fn traces(rate_per_million: u32) -> Traces {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let settings = Settings {
            endpoint: format!("http://{}", address.unwrap()).parse().unwrap(),
            rate_per_million,
            ca: None,
        };
        Traces::start(settings, &SERVICE).unwrap()
    }

    /// Returns whether a request whose sender says this of its trace is recorded.
    fn recorded(rate_per_million: u32, traceparent: Option<&str>) -> (bool, String) {
        let traces = traces(rate_per_million);
        let subscriber = tracing_subscriber::registry().with(traces.layer());
        let context = tracing::subscriber::with_default(subscriber, || {
            let span = info_span!(target: TARGET, "request");
            let mut headers = HeaderMap::new();
            if let Some(traceparent) = traceparent {
                headers.insert("traceparent", traceparent.parse().unwrap());
            }
            continue_from(&span, &headers);
            span.context().span().span_context().clone()
        });
        (context.is_sampled(), context.trace_id().to_string())
    }

    #[rstest]
    #[case::nothing_is_recorded_by_itself(0, None, false)]
    #[case::all_is_recorded(MAX_RATE, None, true)]
    #[case::the_sender_records(0, Some("01"), true)]
    #[case::the_sender_does_not_record(MAX_RATE, Some("00"), false)]
    fn the_sender_decides_and_else_the_rate(
        #[case] rate: u32,
        #[case] flags: Option<&str>,
        #[case] expected: bool,
    ) {
        let traceparent = flags.map(|flags| format!("00-{TRACE}-00f067aa0ba902b7-{flags}"));
        let (sampled, trace) = recorded(rate, traceparent.as_deref());
        assert_eq!(sampled, expected);
        assert_eq!(trace == TRACE, flags.is_some(), "{trace}");
    }

    #[test]
    fn a_parent_that_cannot_be_read_is_none() {
        let (sampled, trace) = recorded(MAX_RATE, Some("00-nonsense"));
        assert!(sampled && trace != TRACE, "{trace}");
    }

    #[rstest]
    #[case(0, 0.0)]
    #[case(250_000, 0.25)]
    #[case(MAX_RATE, 1.0)]
    #[case(u32::MAX, 1.0)]
    fn the_rate_is_of_a_million(#[case] rate: u32, #[case] ratio: f64) {
        let expected = format!(
            "{:?}",
            Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio)))
        );
        assert_eq!(format!("{:?}", sampler(rate)), expected);
    }

    #[test]
    fn spans_that_the_collector_does_not_take_are_counted_and_keep_nobody() {
        let traces = traces(MAX_RATE);
        let metrics = traces.metrics();
        let subscriber = tracing_subscriber::registry().with(traces.layer());
        tracing::subscriber::with_default(subscriber, || {
            info_span!(target: TARGET, "request").in_scope(|| {});
            info_span!("of the log alone").in_scope(|| {});
        });
        traces.end();
        assert_eq!((metrics.exported(), metrics.lost()), (0, 1));
    }

    #[test]
    fn without_an_export_a_span_is_off_whatever_the_level_of_the_logs_is() {
        let filter = EnvFilter::new("trace").add_directive(LOG_DIRECTIVE.parse().unwrap());
        let subscriber = tracing_subscriber::registry().with(filter);
        tracing::subscriber::with_default(subscriber, || {
            assert!(info_span!(target: TARGET, "request").is_disabled());
            assert!(!info_span!("of the log").is_disabled());
        });
    }
}
