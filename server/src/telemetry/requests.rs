//! Metrics of requests. Every label has a bounded set of values: verbs and codes are few, and a
//! resource is named only while it is served.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Upper bounds of the latency buckets, in seconds.
const LATENCY_BUCKETS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// The labels under which a request is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// Verb of the API, `apply` for a patch of that kind; `other` for unusual methods.
    pub verb: &'static str,
    /// API group, or empty.
    pub group: String,
    /// Plural name, or empty.
    pub resource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    verb: &'static str,
    group: String,
    resource: String,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

/// Counters of requests.
#[derive(Clone)]
pub struct RequestMetrics {
    total: Family<CodeLabels, Counter>,
    seconds: Family<RequestLabels, Histogram, fn() -> Histogram>,
    in_flight: Family<KindLabel, Gauge>,
    shed: Family<KindLabel, Counter>,
    watchers: Family<RequestLabels, Gauge>,
    connections: Gauge,
    aged: Counter,
}

impl RequestMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let this = Self {
            total: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS)),
            in_flight: Family::default(),
            shed: Family::default(),
            watchers: Family::default(),
            connections: Gauge::default(),
            aged: Counter::default(),
        };
        registry.register("requests", "Answered requests", this.total.clone());
        registry.register_with_unit(
            "request_duration",
            "Time from a request's headers to those of its answer, without watches",
            Unit::Seconds,
            this.seconds.clone(),
        );
        registry.register(
            "requests_in_flight",
            "Requests being processed, without watches, by the limit that applies",
            this.in_flight.clone(),
        );
        registry.register(
            "requests_shed",
            "Requests refused with 429 because too many were being processed",
            this.shed.clone(),
        );
        registry.register("watchers", "Open watches", this.watchers.clone());
        registry.register("connections", "Open connections", this.connections.clone());
        registry.register(
            "connections_aged",
            "Connections whose clients were told to open new ones because of their age",
            this.aged.clone(),
        );
        this
    }

    /// Counts an answer; `elapsed` is left out for watches.
    pub fn answered(&self, labels: &RequestLabels, code: u16, elapsed: Option<Duration>) {
        let RequestLabels {
            verb,
            group,
            resource,
        } = labels.clone();
        self.total
            .get_or_create(&CodeLabels {
                verb,
                group,
                resource,
                code,
            })
            .inc();
        if let Some(elapsed) = elapsed {
            self.seconds
                .get_or_create(labels)
                .observe(elapsed.as_secs_f64());
        }
    }

    /// Counts a request that a limit refused; `kind` names the limit.
    pub fn shed(&self, kind: &'static str) {
        self.shed.get_or_create(&KindLabel { kind }).inc();
    }

    /// Counts a request as being worked on until the guard is dropped.
    #[must_use]
    pub fn in_flight(&self, kind: &'static str) -> GaugeGuard {
        GaugeGuard::new(self.in_flight.get_or_create_owned(&KindLabel { kind }))
    }

    /// Counts a watch as open until the guard is dropped.
    #[must_use]
    pub fn watcher(&self, labels: &RequestLabels) -> GaugeGuard {
        GaugeGuard::new(self.watchers.get_or_create_owned(labels))
    }

    /// Counts a connection as open until the guard is dropped.
    #[must_use]
    pub fn connection(&self) -> GaugeGuard {
        GaugeGuard::new(self.connections.clone())
    }

    /// Counts a connection that has reached its age.
    pub fn connection_aged(&self) {
        self.aged.inc();
    }
}

/// A guard that raises a gauge by one while it lives.
#[derive(Debug)]
pub struct GaugeGuard(Gauge);

impl GaugeGuard {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
