//! The figures that a cluster's administrator looks at: sizes, times, memory.

use std::time::{Duration, Instant};

use http::Request;
use kube::Client;
use serde::Serialize;
use serde_json::Value;

use super::{GROUPS, TakeoverError};
use crate::request::RequestError;
use testcluster::Cluster;
use testreports::{ReportKind, kinds};

/// Interval at which the kube-apiserver counts its objects; a flag of the test cluster.
pub const COUNT_PERIOD: &str = "--etcd-count-metric-poll-period=5s";
/// Longest lag of its metric.
const COUNT_LIMIT: Duration = Duration::from_secs(90);
const COUNT_PAUSE: Duration = Duration::from_secs(1);

/// A cluster at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measures {
    /// Reports of all kinds that the API shows.
    pub reports: u64,
    /// Bytes of etcd's database file.
    pub etcd_bytes: u64,
    /// Report objects that the kube-apiserver counts in etcd (`apiserver_resource_objects`).
    pub report_objects_in_etcd: u64,
    /// Time for one list of all permanent reports, in milliseconds.
    pub list_ms: u64,
    /// Live heap of the kube-apiserver after a garbage collection, in bytes: the memory that it
    /// needs. Its resident memory depends on when Go last returned pages.
    pub apiserver_bytes: u64,
}

/// The figures that every client can take, of any cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Reports of all kinds that the API shows.
    pub reports: u64,
    /// Time for one list of all permanent reports, in milliseconds.
    pub list_ms: u64,
}

/// Measures now.
pub async fn measure(cluster: &Cluster, client: &Client) -> Result<Measures, TakeoverError> {
    let Figures { reports, list_ms } = figures(client).await?;
    Ok(Measures {
        reports,
        etcd_bytes: cluster.etcd_status().await?.db_bytes,
        report_objects_in_etcd: report_objects(cluster, client).await?,
        list_ms,
        apiserver_bytes: live_heap(client).await?,
    })
}

/// Returns what every client can measure.
pub async fn figures(client: &Client) -> Result<Figures, TakeoverError> {
    let mut figures = Figures::default();
    for kind in kinds() {
        let started = Instant::now();
        let request = Request::get(kind.path(None))
            .body(Vec::new())
            .map_err(|error| TakeoverError::Answer(format!("a path that is no URI: {error}")))?;
        let list: Value = client
            .request(request)
            .await
            .map_err(RequestError::of("list reports"))?;
        if kind == ReportKind::PolicyReport {
            figures.list_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        }
        figures.reports += list["items"]
            .as_array()
            .map_or(0, |items| items.len() as u64);
    }
    Ok(figures)
}

/// Returns the kube-apiserver's own count, once it agrees with etcd's keys: it is taken at
/// intervals only.
async fn report_objects(cluster: &Cluster, client: &Client) -> Result<u64, TakeoverError> {
    let started = Instant::now();
    loop {
        let counted = sum_of_objects(&get_text(client, "/metrics").await?);
        let mut keys = 0;
        for group in GROUPS {
            keys += cluster.etcd_count(&format!("/registry/{group}/")).await?;
        }
        if counted == keys {
            return Ok(counted);
        }
        if started.elapsed() > COUNT_LIMIT {
            return Err(TakeoverError::NotReached {
                what: "agreement of apiserver_resource_objects with etcd".into(),
                waited: COUNT_LIMIT,
                last: format!("metric {counted}, etcd {keys}"),
            });
        }
        tokio::time::sleep(COUNT_PAUSE).await;
    }
}

async fn live_heap(client: &Client) -> Result<u64, TakeoverError> {
    get_text(client, "/debug/pprof/heap?gc=1&debug=1").await?;
    let metrics = get_text(client, "/metrics").await?;
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("go_memstats_heap_alloc_bytes "));
    line.and_then(|value| value.parse().ok().map(whole))
        .ok_or_else(|| {
            TakeoverError::Answer("the kube-apiserver does not tell the size of its heap".into())
        })
}

async fn get_text(client: &Client, path: &str) -> Result<String, TakeoverError> {
    let request = Request::get(path)
        .body(Vec::new())
        .map_err(|error| TakeoverError::Answer(format!("{path}: {error}")))?;
    let text = client.request_text(request).await;
    Ok(text.map_err(RequestError::of("ask the kube-apiserver"))?)
}

/// Returns a count as Prometheus prints it.
fn whole(value: f64) -> u64 {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts and bytes: not negative, and far below 2^52"
    )]
    let whole = value as u64;
    whole
}

/// Returns the sum of `apiserver_resource_objects` over the groups that are taken over.
fn sum_of_objects(metrics: &str) -> u64 {
    let ours = |line: &&str| {
        line.starts_with("apiserver_resource_objects{")
            && GROUPS
                .iter()
                .any(|group| line.contains(&format!("group=\"{group}\"")))
    };
    let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
    let sum: f64 = metrics
        .lines()
        .filter(ours)
        .filter_map(value)
        .filter(|v| *v > 0.0)
        .sum();
    whole(sum)
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_objects_of_the_groups_are_counted() {
        let text = "# HELP apiserver_resource_objects x\n\
            apiserver_resource_objects{group=\"wgpolicyk8s.io\",resource=\"policyreports\"} 1.2e+01\n\
            apiserver_resource_objects{group=\"reports.kyverno.io\",resource=\"ephemeralreports\"} 3\n\
            apiserver_resource_objects{group=\"reports.kyverno.io\",resource=\"gone\"} -1\n\
            apiserver_resource_objects{group=\"\",resource=\"pods\"} 7\n";
        assert_eq!(super::sum_of_objects(text), 15);
    }
}
