//! Metrics of the databases, in the operator's registry.

use std::sync::atomic::AtomicU64;

use crds::v1alpha1::reasons;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::known::Known;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NameLabels {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    name: String,
    reason: &'static str,
}

/// Gauges of the databases of all `ReportsServer`s, of which there are a handful.
pub struct Metrics {
    usable: Family<NameLabels, Gauge>,
    problem: Family<ReasonLabels, Gauge>,
    bytes: Family<NameLabels, Gauge<f64, AtomicU64>>,
    examinations: Family<ReasonLabels, Counter>,
}

impl Metrics {
    /// Creates the metrics and registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            usable: Family::default(),
            problem: Family::default(),
            bytes: Family::default(),
            examinations: Family::default(),
        };
        registry.register(
            "database_usable",
            "Whether the operator could use the PostgreSQL database of each ReportsServer at the \
             last check: 1 yes, 0 no, -1 not known yet",
            metrics.usable.clone(),
        );
        registry.register(
            "database_problem",
            "1 for the reason why the PostgreSQL database of a ReportsServer cannot be used",
            metrics.problem.clone(),
        );
        registry.register(
            "database_size_bytes",
            "Bytes that reports use in the PostgreSQL database of each ReportsServer, including \
             those of other clusters",
            metrics.bytes.clone(),
        );
        registry.register(
            "database_examinations",
            "How often the operator has checked the PostgreSQL database of each ReportsServer, by \
             result",
            metrics.examinations.clone(),
        );
        metrics
    }

    /// Counts an examination and its result.
    pub fn examined(&self, name: &str, found: &'static str) {
        self.examinations.get_or_create(&problem(name, found)).inc();
    }

    /// Shows what is known about the database of a `ReportsServer`.
    pub fn observe(&self, name: &str, known: &Known) {
        let labels = NameLabels {
            name: name.to_owned(),
        };
        let usable = known.usable().map_or(-1, i64::from);
        self.usable.get_or_create(&labels).set(usable);
        if let Some(bytes) = known.bytes {
            #[allow(clippy::cast_precision_loss, reason = "far below 2^53 bytes")]
            self.bytes.get_or_create(&labels).set(bytes as f64);
        }
        for reason in PROBLEMS {
            self.problem.remove(&problem(name, reason));
        }
        if known.usable() == Some(false) {
            self.problem
                .get_or_create(&problem(name, known.reason()))
                .set(1);
        }
    }

    /// Forgets a `ReportsServer` that is gone or stores its reports elsewhere.
    pub fn forget(&self, name: &str) {
        let labels = NameLabels {
            name: name.to_owned(),
        };
        self.usable.remove(&labels);
        self.bytes.remove(&labels);
        for reason in PROBLEMS {
            self.problem.remove(&problem(name, reason));
            self.examinations.remove(&problem(name, reason));
        }
        let usable = problem(name, reasons::DATABASE_AVAILABLE);
        self.examinations.remove(&usable);
    }
}

fn problem(name: &str, reason: &'static str) -> ReasonLabels {
    ReasonLabels {
        name: name.to_owned(),
        reason,
    }
}

/// Every reason that [`Known::reason`] can return for a database that cannot be used.
pub const PROBLEMS: [&str; 20] = [
    reasons::DATABASE_UNAVAILABLE,
    reasons::SECRET_MISSING,
    reasons::SECRET_KEY_MISSING,
    reasons::CONNECTION_INVALID,
    reasons::WRONG_PASSWORD,
    reasons::DATABASE_MISSING,
    reasons::RIGHTS_MISSING,
    reasons::TLS_MISMATCH,
    reasons::SERVER_TOO_OLD,
    reasons::DATABASE_READ_ONLY,
    reasons::TOO_MANY_CONNECTIONS,
    reasons::DISK_FULL,
    reasons::DATABASE_UNSUITABLE,
    reasons::DATABASE_UNREACHABLE,
    reasons::OTHER_DATABASE,
    reasons::OTHER_IDENTITY,
    reasons::CLOUD_NATIVE_PG_MISSING,
    reasons::CLUSTER_MISSING,
    reasons::CLUSTER_NOT_READY,
    reasons::FAILING_OVER,
];

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::database::files::Problem;

    #[test]
    fn one_problem_is_shown_at_a_time_and_none_when_it_is_gone() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let text = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        let broken = |reason| Known::problem(Problem::new(reason, "m"), None);
        metrics.observe("a", &broken(reasons::WRONG_PASSWORD));
        metrics.observe("a", &broken(reasons::TLS_MISMATCH));
        let shown = text();
        assert!(
            shown.contains("database_problem{name=\"a\",reason=\"TLSMismatch\"} 1"),
            "{shown}"
        );
        assert!(!shown.contains("WrongPassword"), "{shown}");
        assert!(shown.contains("database_usable{name=\"a\"} 0"), "{shown}");
        metrics.examined("a", reasons::DATABASE_AVAILABLE);
        metrics.examined("a", reasons::TLS_MISMATCH);
        metrics.forget("a");
        assert!(!text().contains("name=\"a\""));
    }
}
