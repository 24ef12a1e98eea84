//! Metrics of the operator, in the `OpenMetrics` text format.
//!
//! Every label has a bounded set of values: categories and condition types are constants, and of
//! the names of `ReportsServer`s there are a handful.

mod certificate;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crds::v1alpha1::conditions::{ADMISSION_BYPASSED, LAST_BACKUP_SUCCEEDED, MONITORING_READY};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

pub use self::certificate::CertificateSource;
use self::certificate::OwnCertificate;
use crate::{database, migration};

/// Conditions that a `ReportsServer` has only where there is something to tell.
const SOMETIMES: [&str; 3] = [ADMISSION_BYPASSED, LAST_BACKUP_SUCCEEDED, MONITORING_READY];
/// Those of them that are true where all is well, and say nothing where they are absent.
const WELL: [&str; 2] = [LAST_BACKUP_SUCCEEDED, MONITORING_READY];
/// Prefix of every metric.
const PREFIX: &str = "reports_server_operator";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    category: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConditionLabels {
    name: String,
    condition: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NameLabels {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildInfo {
    version: &'static str,
}

/// All metrics of the process, and the registry they are in. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    reconciles: Counter,
    errors: Family<ErrorLabels, Counter>,
    seconds: Histogram,
    conditions: Family<ConditionLabels, Gauge>,
    certificate_expiry: Family<NameLabels, Gauge>,
    last_backup: Family<NameLabels, Gauge>,
    leading: Gauge,
    crd_missing_fields: Gauge,
    own_certificate: OwnCertificate,
    /// Metrics of the migrations.
    pub migration: Arc<migration::Metrics>,
    /// Metrics of the databases.
    pub database: Arc<database::metrics::Metrics>,
}

impl Metrics {
    /// Creates and registers all metrics.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let reconciles = Counter::default();
        let errors = Family::<ErrorLabels, Counter>::default();
        let seconds = Histogram::new([0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0]);
        let conditions = Family::<ConditionLabels, Gauge>::default();
        let certificate_expiry = Family::<NameLabels, Gauge>::default();
        let last_backup = Family::<NameLabels, Gauge>::default();
        let leading = Gauge::default();
        let crd_missing_fields = Gauge::default();
        registry.register(
            "build",
            "Version of the operator",
            Info::new(BuildInfo {
                version: env!("CARGO_PKG_VERSION"),
            }),
        );
        registry.register("reconciles", "Finished reconciliations", reconciles.clone());
        registry.register(
            "reconcile_errors",
            "Reconciliations that ended with an error, by category",
            errors.clone(),
        );
        registry.register_with_unit(
            "reconcile_duration",
            "Duration of reconciliations",
            Unit::Seconds,
            seconds.clone(),
        );
        registry.register(
            "condition",
            "Conditions of each ReportsServer: 1 true, 0 false, -1 unknown",
            conditions.clone(),
        );
        registry.register(
            "certificate_expiry_timestamp_seconds",
            "When the serving certificate of each ReportsServer expires, in Unix time",
            certificate_expiry.clone(),
        );
        registry.register(
            "last_backup_timestamp_seconds",
            "When the last successful backup of each ReportsServer ended, in Unix time",
            last_backup.clone(),
        );
        registry.register(
            "leading",
            "1 while this process is the leader",
            leading.clone(),
        );
        registry.register(
            "crd_missing_fields",
            "Fields and values that the cluster's CRD of ReportsServer lacks; -1 without a CRD",
            crd_missing_fields.clone(),
        );
        let own_certificate = OwnCertificate::register(&mut registry);
        let migration = Arc::new(migration::Metrics::register(&mut registry));
        let database = Arc::new(database::metrics::Metrics::register(&mut registry));
        Self {
            registry: Arc::new(Mutex::new(registry)),
            reconciles,
            errors,
            seconds,
            conditions,
            certificate_expiry,
            last_backup,
            leading,
            crd_missing_fields,
            own_certificate,
            migration,
            database,
        }
    }

    /// Adds the metrics of another part, below the common prefix.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        add(&mut registry);
    }

    /// Starts to measure a reconciliation; it ends when the guard is dropped, also by an error.
    #[must_use]
    pub fn measure(&self) -> Measurement {
        Measurement {
            metrics: self.clone(),
            start: Instant::now(),
        }
    }

    /// Counts an error of a category.
    pub fn failed(&self, category: &'static str) {
        self.errors.get_or_create(&ErrorLabels { category }).inc();
    }

    /// Shows that this process leads, or that it does not.
    pub fn leading(&self, leading: bool) {
        self.leading.set(i64::from(leading));
    }

    /// Shows the number of fields and values that the CRD in the cluster lacks; -1 without a CRD.
    pub fn crd_lacks(&self, count: i64) {
        self.crd_missing_fields.set(count);
    }

    /// Shows beginning and end (Unix seconds) of the certificate with which the metrics are served,
    /// and none of another source any more.
    pub fn served_with(&self, source: CertificateSource, validity: Option<(i64, i64)>) {
        self.own_certificate.show(source, validity);
    }

    /// Shows the conditions and the certificate's end (Unix seconds) of a `ReportsServer`.
    pub fn observe(&self, name: &str, conditions: &[Condition], expiry: Option<i64>) {
        let always = crds::v1alpha1::conditions::ALWAYS_PRESENT;
        let others = crds::v1alpha1::conditions::PRESENT_ONLY_WHEN_TRUE;
        for known in always.iter().chain(others).chain(&SOMETIMES) {
            let status = conditions
                .iter()
                .find(|c| c.type_ == *known)
                .map(|c| c.status.as_str());
            // Where no backups are asked for, none has failed.
            if status.is_none() && WELL.contains(known) {
                self.conditions.remove(&condition_labels(name, known));
                continue;
            }
            let value = match status {
                Some("True") => 1,
                Some("Unknown") => -1,
                _ => 0,
            };
            self.conditions
                .get_or_create(&condition_labels(name, known))
                .set(value);
        }
        if let Some(expiry) = expiry {
            self.certificate_expiry
                .get_or_create(&name_labels(name))
                .set(expiry);
        }
    }

    /// Shows the time at which the last backup that succeeded ended (Unix seconds).
    pub fn backed_up(&self, name: &str, ended: i64) {
        self.last_backup
            .get_or_create(&name_labels(name))
            .set(ended);
    }

    /// Shows no such time any more: a backup that nobody renews would be too old for ever.
    pub fn not_backed_up(&self, name: &str) {
        self.last_backup.remove(&name_labels(name));
    }

    /// Forgets a deleted `ReportsServer`.
    pub fn forget(&self, name: &str) {
        let always = crds::v1alpha1::conditions::ALWAYS_PRESENT;
        let others = crds::v1alpha1::conditions::PRESENT_ONLY_WHEN_TRUE;
        for known in always.iter().chain(others).chain(&SOMETIMES) {
            self.conditions.remove(&condition_labels(name, known));
        }
        self.certificate_expiry.remove(&name_labels(name));
        self.not_backed_up(name);
    }

    /// Returns the text for `/metrics`.
    ///
    /// # Errors
    /// If a value cannot be formatted.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// A running reconciliation.
pub struct Measurement {
    metrics: Metrics,
    start: Instant,
}

impl Measurement {
    /// Returns the time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        self.metrics.reconciles.inc();
        self.metrics.seconds.observe(self.elapsed().as_secs_f64());
    }
}

fn condition_labels(name: &str, condition: &str) -> ConditionLabels {
    ConditionLabels {
        name: name.to_owned(),
        condition: condition.to_owned(),
    }
}

fn name_labels(name: &str) -> NameLabels {
    NameLabels {
        name: name.to_owned(),
    }
}
