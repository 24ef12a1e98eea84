//! The registry of all metrics.

use std::sync::Mutex;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::pieces::PieceMetrics;
use super::requests::RequestMetrics;
use super::reviews::ReviewMetrics;
use super::store::CommitMetrics;

/// `Content-Type` of the metrics page.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of the server; names begin with `reports_server_`.
pub struct Metrics {
    registry: Mutex<Registry>,
    /// The metrics of requests.
    pub requests: RequestMetrics,
    /// The metrics of questions to the kube-apiserver.
    pub reviews: ReviewMetrics,
    /// The metrics of commits of the store.
    pub commits: CommitMetrics,
    /// The metrics of the pieces of compressed lists.
    pub pieces: PieceMetrics,
    /// End of validity of the serving certificate, in seconds since 1970.
    pub certificate_expiry: Gauge,
}

impl Metrics {
    /// Returns a registry with the metrics of HTTP, TLS, authentication and authorization; other
    /// parts add theirs by [`Metrics::register`] and [`Metrics::register_collector`].
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("reports_server");
        let requests = RequestMetrics::register(&mut registry);
        let reviews = ReviewMetrics::register(&mut registry);
        let commits = CommitMetrics::register(&mut registry);
        let pieces = PieceMetrics::register(&mut registry);
        let certificate_expiry = Gauge::default();
        registry.register_with_unit(
            "tls_certificate_expiration_timestamp",
            "End of validity of the serving certificate, in seconds since 1970",
            Unit::Seconds,
            certificate_expiry.clone(),
        );
        let build: Family<[(&'static str, &'static str); 1], Gauge> = Family::default();
        build.get_or_create(&[("version", crate::VERSION)]).set(1);
        registry.register("build", "Version of the server, as a label", build);
        Self {
            registry: Mutex::new(registry),
            requests,
            reviews,
            commits,
            pieces,
            certificate_expiry,
        }
    }

    /// Adds the metrics of another part, below the common prefix.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.lock());
    }

    /// Adds metrics that are read when they are asked for.
    pub fn register_collector(&self, collector: Box<dyn Collector>) {
        self.lock().register_collector(collector);
    }

    /// Returns the metrics page.
    ///
    /// # Errors
    /// If a metric cannot be written as text.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.lock())?;
        Ok(text)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.registry
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
