//! Kyverno's own metrics: the number of reports that its breakers dropped.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use super::NAMESPACE;
use testcluster::{Cluster, http};

const PORT: u16 = 8000;
const DROPS: &str = "kyverno_breaker_drops_total";
const LIMIT: Duration = Duration::from_secs(5);

/// Drops by pod.
pub type Drops = BTreeMap<String, u64>;

/// Asks every pod of Kyverno. A pod that does not answer is left out.
pub async fn drops(cluster: &Cluster, client: &Client) -> Drops {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let found = pods.list(&ListParams::default()).await;
    let mut drops = Drops::new();
    for pod in found.into_iter().flatten() {
        if let Some(count) = drops_of(cluster, &pod).await {
            drops.insert(pod.name_any(), count);
        }
    }
    drops
}

async fn drops_of(cluster: &Cluster, pod: &Pod) -> Option<u64> {
    let address = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
    let local = cluster.forward(SocketAddr::new(address, PORT)).ok()?;
    let answer = tokio::time::timeout(LIMIT, http::get(local, "/metrics")).await;
    match answer.ok()? {
        Ok((status, body)) if status.is_success() => Some(sum(&String::from_utf8_lossy(&body))),
        Ok((status, _)) => {
            tracing::warn!(%status, pod = pod.name_any(), "no metrics");
            None
        }
        Err(error) => {
            tracing::warn!(error, pod = pod.name_any(), "no metrics");
            None
        }
    }
}

/// Returns the sum of the counter over its labels; it is absent as long as it is zero.
fn sum(text: &str) -> u64 {
    let of = text.lines().filter(|line| line.starts_with(DROPS));
    let values = of.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a counter of whole numbers"
    )]
    values.map(|value| value as u64).sum()
}

/// Returns the increase from one look to a later one; a pod that was not there began at zero.
pub fn increase(before: &Drops, after: &Drops) -> u64 {
    let added = after.iter().map(|(pod, count)| {
        let began = before.get(pod).copied().unwrap_or_default();
        count.saturating_sub(began)
    });
    added.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_added_up() {
        let text = "# TYPE kyverno_breaker_drops_total counter\n\
            kyverno_breaker_drops_total{circuit_name=\"a\"} 2\n\
            kyverno_breaker_drops_total{circuit_name=\"b\"} 3\n\
            kyverno_breaker_total{circuit_name=\"a\"} 9\n";
        assert_eq!(sum(text), 5);
        assert_eq!(sum(""), 0);
    }

    #[test]
    fn a_new_pod_counts_from_zero() {
        let before = Drops::from([("a".to_owned(), 2)]);
        let after = Drops::from([("a".to_owned(), 3), ("b".to_owned(), 4)]);
        assert_eq!(increase(&before, &after), 5);
    }
}
