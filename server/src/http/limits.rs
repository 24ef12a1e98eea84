//! The bounds of concurrent work. A request beyond them is refused with 429, not queued: the
//! client's own back-off is the queue.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::error::ApiError;
use apimachinery::request_info::RequestInfo;
use crds::control::{COPY, DATABASES, GROUP};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::body::BodyBudget;
use crate::telemetry::{GaugeGuard, RequestMetrics};

/// Bounds. Watches are not counted; each holds little, and their number is bounded by that of the
/// streams and connections.
#[derive(Clone, Copy, Debug)]
pub struct LimitConfig {
    /// Most connections at one time. Further ones wait in the system's queue.
    pub connections: usize,
    /// Most get and list requests at one time.
    pub reading: usize,
    /// Most writing requests at one time.
    pub writing: usize,
    /// Most memory of request bodies at one time, in bytes.
    pub body_bytes: usize,
    /// Longest time for a request that is no watch. Shorter than the 60 s of the kube-apiserver,
    /// so that the client gets our answer.
    pub deadline: Duration,
}

impl Default for LimitConfig {
    /// Returns bounds that take the requests of three kube-apiservers, also while a gate holds all
    /// requests back. A kube-apiserver lets 600 requests through at one time by default.
    fn default() -> Self {
        Self {
            connections: 4096,
            reading: 2000,
            writing: 1000,
            body_bytes: 256 * 1024 * 1024,
            deadline: Duration::from_secs(34),
        }
    }
}

/// The bounds, and their current use.
pub struct Limits {
    /// See [`LimitConfig::connections`].
    pub connections: usize,
    reading: Arc<Semaphore>,
    writing: Arc<Semaphore>,
    /// Memory for request bodies.
    pub bodies: BodyBudget,
    /// See [`LimitConfig::deadline`].
    pub deadline: Duration,
    metrics: RequestMetrics,
}

/// The right to be worked on.
pub struct Permit {
    _slot: OwnedSemaphorePermit,
    _gauge: GaugeGuard,
}

impl Limits {
    /// Returns limits of which nothing is in use yet.
    #[must_use]
    pub fn new(config: &LimitConfig, metrics: RequestMetrics) -> Self {
        Self {
            connections: config.connections,
            reading: Arc::new(Semaphore::new(config.reading)),
            writing: Arc::new(Semaphore::new(config.writing)),
            bodies: BodyBudget::new(config.body_bytes),
            deadline: config.deadline,
            metrics,
        }
    }

    /// Lets a request in; `None` for a watch, which needs no permit, and for a copy of the database,
    /// of which one is made at a time and which takes as long as it takes.
    ///
    /// # Errors
    /// 429 when too many requests are being worked on.
    pub fn admit(&self, info: &RequestInfo) -> Result<Option<Permit>, ApiError> {
        if info.is_long_running() || is_copy(info) {
            return Ok(None);
        }
        let (slots, kind) = if info.is_mutating() {
            (&self.writing, "mutating")
        } else {
            (&self.reading, "readOnly")
        };
        let Ok(slot) = slots.clone().try_acquire_owned() else {
            self.metrics.shed(kind);
            let message = "Too many requests, please try again later.";
            return Err(ApiError::too_many_requests(message, 1));
        };
        Ok(Some(Permit {
            _slot: slot,
            _gauge: self.metrics.in_flight(kind),
        }))
    }
}

/// Returns whether a copy of the database is asked for.
fn is_copy(info: &RequestInfo) -> bool {
    info.is_resource_request
        && (info.api_group.as_str(), info.resource.as_str()) == (GROUP, DATABASES)
        && info.subresource == COPY
}

#[cfg(test)]
mod tests {
    use http::Method;
    use rstest::rstest;

    use super::*;
    use crate::telemetry::Metrics;

    #[rstest]
    #[case::copy("/databases/database/copy", false)]
    #[case::description("/databases/database", true)]
    #[case::digest("/storedresources/a.b/digest", true)]
    fn a_copy_has_no_deadline(#[case] path: &str, #[case] permitted: bool) {
        let uri = format!("/apis/control.reports-server.io/v1alpha1{path}");
        let info = RequestInfo::parse(&Method::GET, &uri.parse().unwrap()).unwrap();
        let limits = Limits::new(&LimitConfig::default(), Metrics::new().requests.clone());
        assert_eq!(limits.admit(&info).unwrap().is_some(), permitted);
    }
}
