//! Metrics of the store, read when they are asked for.

use std::fmt;
use std::time::Duration;

use crds::control::{DatabaseMove, MovePhase};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use storage::cache::ResourceStats;
use storage::store::{DatabaseInfo, Observer, Store, StoreStats};

/// Upper bounds of the buckets of commit latency, in seconds.
const LATENCY_BUCKETS: [f64; 11] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0,
];
/// Upper bounds of the buckets of batch size, in writes.
const BATCH_BUCKETS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 512.0];

/// Histograms of commits.
#[derive(Clone, Debug)]
pub struct CommitMetrics {
    seconds: Histogram,
    writes: Histogram,
}

impl CommitMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let this = Self {
            seconds: Histogram::new(LATENCY_BUCKETS),
            writes: Histogram::new(BATCH_BUCKETS),
        };
        registry.register_with_unit(
            "store_commit_duration",
            "Duration of transactions with writes, including failed ones",
            Unit::Seconds,
            this.seconds.clone(),
        );
        let help = "Writes that were committed together";
        registry.register("store_commit_writes", help, this.writes.clone());
        this
    }
}

impl Observer for CommitMetrics {
    fn committed(&self, writes: usize, latency: Duration, success: bool) {
        self.seconds.observe(latency.as_secs_f64());
        if success {
            self.writes.observe(count(writes as u64));
        }
    }
}

/// The store's own figures as metrics.
pub struct StoreCollector(Store);

impl StoreCollector {
    /// Returns a collector that reads the figures of `store` with each scrape.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self(store)
    }
}

impl fmt::Debug for StoreCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreCollector")
    }
}

/// Returns a figure as a float. Figures are counts far below 2^52, where a float is exact.
#[allow(clippy::cast_precision_loss)] // see above
fn count(value: u64) -> f64 {
    value as f64
}

type Figure = (&'static str, &'static str, fn(&StoreStats) -> f64);
type MoveFigure = (&'static str, &'static str, fn(&DatabaseMove) -> f64);
type ResourceFigure = (&'static str, &'static str, fn(&ResourceStats) -> f64);

const GAUGES: [Figure; 5] = [
    (
        "store_queued_writes",
        "Writes that wait to be committed",
        |s| count(s.queued_writes as u64),
    ),
    (
        "store_queued_bytes",
        "Bytes of writes that wait to be committed",
        |s| count(s.queued_bytes as u64),
    ),
    (
        "store_database_up",
        "1 while the database accepts writes",
        |s| f64::from(u8::from(s.database_up)),
    ),
    ("store_sequence", "Number of the newest change", |s| {
        count(s.position.seq)
    }),
    (
        "store_resource_version",
        "Newest resourceVersion that was given to a write",
        |s| count(s.position.counter),
    ),
];

const COUNTERS: [Figure; 3] = [
    ("store_commits", "Transactions with writes", |s| {
        count(s.batches)
    }),
    ("store_writes", "Writes in committed transactions", |s| {
        count(s.batched_writes)
    }),
    ("store_commit_failures", "Transactions that failed", |s| {
        count(s.failures)
    }),
];

/// Gauges while the reports are moved to another database, and until the server's end.
const MOVE_GAUGES: [MoveFigure; 5] = [
    (
        "store_move_done",
        "1 when the reports have been moved to the other database",
        |m| f64::from(u8::from(m.phase == MovePhase::Moved)),
    ),
    (
        "store_move_attempts",
        "Attempts to move the reports to another database",
        |m| count(m.attempts),
    ),
    (
        "store_move_objects",
        "Stored objects when the attempt began",
        |m| count(m.objects_total),
    ),
    (
        "store_move_objects_copied",
        "Objects that its first pass has copied",
        |m| count(m.objects_copied),
    ),
    (
        "store_move_sequence",
        "Number of the newest change that it has copied",
        |m| count(m.sequence),
    ),
];

const RESOURCE_GAUGES: [ResourceFigure; 12] = [
    ("objects", "Stored objects", |r| count(r.objects)),
    (
        "object_bytes",
        "Bytes of the JSON texts of stored objects",
        |r| count(r.bytes),
    ),
    (
        "body_bytes",
        "Memory of these texts, compressed, in bytes",
        |r| count(r.compression.all.compressed_bytes),
    ),
    (
        "bodies_outdated",
        "Stored objects that are compressed with an older dictionary",
        |r| count(r.compression.outdated()),
    ),
    (
        "dictionary_bytes",
        "Memory of the trained dictionary in bytes",
        |r| count(r.compression.dictionary_bytes as u64),
    ),
    (
        "dictionary_generation",
        "Number of the trained dictionary",
        |r| count(r.compression.generation),
    ),
    ("ring_events", "Events kept in memory for watches", |r| {
        count(r.ring_events as u64)
    }),
    ("ring_bytes", "Memory of these events in bytes", |r| {
        count(r.ring_bytes as u64)
    }),
    (
        "resource_version",
        "resourceVersion of a list made now",
        |r| count(r.rv),
    ),
    (
        "horizon",
        "Oldest resourceVersion from which a watch can resume",
        |r| count(r.horizon),
    ),
    ("watch_cursors", "Readers of the event log", |r| {
        count(r.cursors as u64)
    }),
    (
        "imported",
        "Copies in etcd that were imported and not pruned yet",
        |r| count(r.record.imported),
    ),
];

const RESOURCE_COUNTERS: [ResourceFigure; 1] = [(
    "dictionary_trainings",
    "Trainings of dictionaries, those that gained nothing included",
    |r| count(r.compression.trainings),
)];

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let stats = self.0.stats();
        for (name, help, value) in GAUGES {
            let metric = ConstGauge::new(value(&stats));
            let out = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
            metric.encode(out)?;
        }
        for (name, help, value) in COUNTERS {
            let metric = ConstCounter::new(value(&stats));
            let out = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
            metric.encode(out)?;
        }
        if let Some(info) = &stats.database {
            database_info(&mut encoder, info)?;
        }
        if let Some(move_) = self.0.database().move_ {
            for (name, help, value) in MOVE_GAUGES {
                let metric = ConstGauge::new(value(&move_));
                let out = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
                metric.encode(out)?;
            }
        }
        for (name, help, value) in RESOURCE_GAUGES {
            let kind = ConstGauge::new(0.0).metric_type();
            let out = encoder.encode_descriptor(name, help, None, kind)?;
            per_resource(out, &stats.resources, |r| ConstGauge::new(value(r)))?;
        }
        for (name, help, value) in RESOURCE_COUNTERS {
            let kind = ConstCounter::new(0.0).metric_type();
            let out = encoder.encode_descriptor(name, help, None, kind)?;
            per_resource(out, &stats.resources, |r| ConstCounter::new(value(r)))?;
        }
        Ok(())
    }
}

/// Writes the capabilities of the database server, as labels.
fn database_info(
    encoder: &mut DescriptorEncoder<'_>,
    info: &DatabaseInfo,
) -> Result<(), fmt::Error> {
    let yes = |is: bool| if is { "true" } else { "false" };
    let labels = [
        ("version", info.version.as_str()),
        ("pooler", yes(info.pooler)),
        ("prepared_statements", yes(info.prepared_statements)),
        ("partitions", yes(info.partitions)),
        ("lz4", yes(info.lz4)),
        ("notifications", yes(info.notifications)),
    ];
    let metric = ConstGauge::new(1.0);
    let help = "What the PostgreSQL server can do";
    let mut out =
        encoder.encode_descriptor("store_database_info", help, None, metric.metric_type())?;
    metric.encode(out.encode_family(&labels)?)
}

fn per_resource<M: EncodeMetric>(
    mut out: MetricEncoder<'_>,
    resources: &[ResourceStats],
    metric: impl Fn(&ResourceStats) -> M,
) -> Result<(), fmt::Error> {
    for resource in resources {
        let name = &resource.record.def.resource;
        let labels = [
            ("group", name.group.to_string()),
            ("resource", name.resource.to_string()),
        ];
        metric(resource).encode(out.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Metrics, RequestLabels};
    use super::*;

    /// Metrics that are registered elsewhere, or only with PostgreSQL, or with traces.
    const OTHERS: [&str; 4] = [
        "orphans_deleted",
        "store_database_info",
        "trace_spans_exported",
        "trace_spans_lost",
    ];

    /// Every metric, by the line that explains it, is a row of the docs.
    #[test]
    fn every_metric_is_in_the_docs() {
        let docs = include_str!("../../../docs/monitoring.md");
        let table = docs.split("\n## Metrics of the server\n").nth(1).unwrap();
        let table = table.split("\n## ").next().unwrap();
        let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
        let mut documented: Vec<&str> = rows
            .filter_map(|row| row.split(['`', '{']).next())
            .map(|name| name.strip_suffix("_total").unwrap_or(name))
            .collect();
        let metrics = Metrics::new();
        let labels = RequestLabels {
            verb: "get",
            group: String::new(),
            resource: String::new(),
        };
        metrics
            .requests
            .answered(&labels, 200, Some(Duration::ZERO));
        metrics.requests.shed("readonly");
        drop(metrics.requests.in_flight("readonly"));
        drop(metrics.requests.watcher(&labels));
        metrics.reviews.token(true);
        let text = metrics.encode().unwrap();
        let registered = text.lines().filter_map(|line| line.strip_prefix("# HELP "));
        let registered = registered.filter_map(|line| line.split(' ').next());
        let figures = GAUGES.iter().chain(&COUNTERS).map(|figure| figure.0);
        let collected = figures
            .chain(MOVE_GAUGES.iter().map(|figure| figure.0))
            .chain(RESOURCE_GAUGES.iter().map(|figure| figure.0))
            .chain(RESOURCE_COUNTERS.iter().map(|figure| figure.0))
            .chain(OTHERS)
            .map(|name| format!("reports_server_{name}"));
        let mut known: Vec<String> = registered.map(str::to_owned).chain(collected).collect();
        documented.sort_unstable();
        known.sort_unstable();
        assert!(known.len() > 30, "{known:?}");
        assert_eq!(documented, known);
    }
}
