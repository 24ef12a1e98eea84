//! Metrics of the migration, in the operator's registry.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::migration::plan::step::StepName;

/// Labels of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    group: String,
    step: &'static str,
}

/// Label of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabels {
    group: String,
}

/// Labels of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    group: String,
    resource: String,
}

/// Counters and gauges of all groups. Label values are bounded by the configured groups.
pub struct Metrics {
    started: Family<StepLabels, Counter>,
    failed: Family<StepLabels, Counter>,
    seconds: Family<StepLabels, Histogram, fn() -> Histogram>,
    hold_seconds: Family<ResourceLabels, Gauge<f64, std::sync::atomic::AtomicU64>>,
    copied: Family<ResourceLabels, Counter>,
    imported: Family<ResourceLabels, Counter>,
    pruned: Family<ResourceLabels, Counter>,
    prune_concurrency: Family<GroupLabels, Gauge>,
}

impl Metrics {
    /// Creates the metrics and registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            started: Family::default(),
            failed: Family::default(),
            seconds: Family::new_with_constructor(step_histogram),
            hold_seconds: Family::default(),
            copied: Family::default(),
            imported: Family::default(),
            pruned: Family::default(),
            prune_concurrency: Family::default(),
        };
        registry.register(
            "migration_steps_started",
            "Migration steps started, by API group and step",
            metrics.started.clone(),
        );
        registry.register(
            "migration_steps_failed",
            "Migration steps that ended with an error, by API group and step",
            metrics.failed.clone(),
        );
        registry.register(
            "migration_step_duration_seconds",
            "Duration of finished migration steps, by API group and step",
            metrics.seconds.clone(),
        );
        registry.register(
            "migration_hold_seconds",
            "How long requests were held in the last switch, by API group and resource",
            metrics.hold_seconds.clone(),
        );
        registry.register(
            "migration_items_copied",
            "Objects and events of etcd sent to the server, by API group and resource",
            metrics.copied.clone(),
        );
        registry.register(
            "migration_reports_imported",
            "Reports imported from the database of another server, by API group and resource",
            metrics.imported.clone(),
        );
        registry.register(
            "migration_objects_pruned",
            "Copies deleted from etcd, by API group and resource",
            metrics.pruned.clone(),
        );
        registry.register(
            "migration_prune_concurrency",
            "Deletions that may be under way at once in a prune, by API group",
            metrics.prune_concurrency.clone(),
        );
        metrics
    }

    /// Sets every metric: those of which nothing was set are not shown.
    #[cfg(test)]
    pub fn set_all(&self) {
        let (group, resource) = ("g.io", "reports");
        self.step_started(group, StepName::Mirror);
        self.step_failed(group, StepName::Mirror);
        self.step_finished(group, StepName::Mirror, Duration::ZERO);
        self.held(group, resource, Duration::ZERO);
        self.copied(group, resource, 1);
        self.prune_concurrency(group, 1);
        self.imported(group, resource, 1);
        self.pruned(group, resource, 1);
    }

    pub(in crate::migration) fn step_started(&self, group: &str, step: StepName) {
        self.started.get_or_create(&step_labels(group, step)).inc();
    }

    pub(in crate::migration) fn step_failed(&self, group: &str, step: StepName) {
        self.failed.get_or_create(&step_labels(group, step)).inc();
    }

    pub(in crate::migration) fn step_finished(&self, group: &str, step: StepName, took: Duration) {
        self.seconds
            .get_or_create(&step_labels(group, step))
            .observe(took.as_secs_f64());
    }

    pub(in crate::migration) fn held(&self, group: &str, resource: &str, took: Duration) {
        self.hold_seconds
            .get_or_create(&resource_labels(group, resource))
            .set(took.as_secs_f64());
    }

    pub(in crate::migration) fn copied(&self, group: &str, resource: &str, items: u64) {
        self.copied
            .get_or_create(&resource_labels(group, resource))
            .inc_by(items);
    }

    pub(in crate::migration) fn prune_concurrency(&self, group: &str, limit: u32) {
        let group = group.to_owned();
        self.prune_concurrency
            .get_or_create(&GroupLabels { group })
            .set(i64::from(limit));
    }

    pub(in crate::migration) fn imported(&self, group: &str, resource: &str, reports: u64) {
        self.imported
            .get_or_create(&resource_labels(group, resource))
            .inc_by(reports);
    }

    pub(in crate::migration) fn pruned(&self, group: &str, resource: &str, objects: u64) {
        self.pruned
            .get_or_create(&resource_labels(group, resource))
            .inc_by(objects);
    }
}

fn step_histogram() -> Histogram {
    Histogram::new([
        0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0,
    ])
}

fn step_labels(group: &str, step: StepName) -> StepLabels {
    StepLabels {
        group: group.to_owned(),
        step: step.as_str(),
    }
}

fn resource_labels(group: &str, resource: &str) -> ResourceLabels {
    ResourceLabels {
        group: group.to_owned(),
        resource: resource.to_owned(),
    }
}
