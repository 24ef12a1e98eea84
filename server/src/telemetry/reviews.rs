//! Metrics of the questions to the kube-apiserver.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReviewLabels {
    kind: &'static str,
    outcome: &'static str,
}

/// Counters of reviews.
#[derive(Clone, Debug, Default)]
pub struct ReviewMetrics {
    total: Family<ReviewLabels, Counter>,
}

impl ReviewMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        let help =
            "Reviews requested from the kube-apiserver, without those answered from the caches";
        registry.register("reviews", help, this.total.clone());
        this
    }

    fn count(&self, kind: &'static str, answered: bool) {
        let outcome = if answered { "answered" } else { "failed" };
        self.total
            .get_or_create(&ReviewLabels { kind, outcome })
            .inc();
    }

    /// Counts a `SubjectAccessReview`.
    pub fn subject_access(&self, answered: bool) {
        self.count("SubjectAccessReview", answered);
    }

    /// Counts a `TokenReview`.
    pub fn token(&self, answered: bool) {
        self.count("TokenReview", answered);
    }
}
