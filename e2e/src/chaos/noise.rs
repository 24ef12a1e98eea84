//! Other clients: leases that are renewed, `ConfigMaps` that are changed, events that are posted,
//! so that etcd's revision moves whether reports are written or not.

use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Namespace of the noise: the first of the prefix `noise`.
pub const NAMESPACE: &str = "noise-00";
/// Leases and `ConfigMaps` that are changed in turns.
const OBJECTS: u64 = 10;
/// Writes a second, each for some seconds: fewer than those of reports, and more.
const RATES: [u64; 4] = [3, 60, 15, 30];
/// Writes at once between two rates.
const BURST: u64 = 80;

/// Makes noise until it is stopped.
pub async fn run(client: Client, seed: u64, stop: CancellationToken) {
    let mut rng = StdRng::seed_from_u64(seed);
    let noise = async {
        let mut number = 0_u64;
        loop {
            let rate = RATES[rng.random_range(0..RATES.len())];
            for _ in 0..rate * rng.random_range(2..6) {
                number += 1;
                write(&client, number).await;
                tokio::time::sleep(Duration::from_millis(1000 / rate)).await;
            }
            if rng.random_range(0..3) == 0 {
                burst(&client, "burst", number, BURST).await;
                number += BURST;
            }
        }
    };
    stop.run_until_cancelled(noise).await;
}

/// Creates many objects that nobody else knows, a few at a time.
pub async fn burst(client: &Client, prefix: &str, first: u64, count: u64) {
    use futures::StreamExt as _;
    futures::stream::iter(first..first + count)
        .for_each_concurrent(8, |number| async move {
            let name = format!("{prefix}-{number}");
            let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
            let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name}, "data": {"number": number.to_string()}});
            send(client, Method::POST, &path, "application/json", &body).await;
        })
        .await;
}

async fn write(client: &Client, number: u64) {
    let name = format!("noise-{}", number % OBJECTS);
    let text = number.to_string();
    match number % 3 {
        0 => {
            let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{name}");
            let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": name}, "spec": {"holderIdentity": text}});
            apply(client, &path, &body).await;
        }
        1 => {
            let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}");
            let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name}, "data": {"number": text}});
            apply(client, &path, &body).await;
        }
        _ => {
            let path = format!("/api/v1/namespaces/{NAMESPACE}/events");
            let about = json!({"kind": "ConfigMap", "namespace": NAMESPACE, "name": name});
            let body = json!({"apiVersion": "v1", "kind": "Event", "involvedObject": about,
                "metadata": {"generateName": "noise-"}, "reason": "Noise", "message": text,
                "type": "Normal"});
            send(client, Method::POST, &path, "application/json", &body).await;
        }
    }
}

async fn apply(client: &Client, path: &str, body: &Value) {
    let uri = format!("{path}?fieldManager=noise&force=true");
    let media_type = "application/apply-patch+yaml";
    send(client, Method::PATCH, &uri, media_type, body).await;
}

/// Sends one of these writes. Its success does not matter.
async fn send(client: &Client, method: Method, uri: &str, media_type: &str, body: &Value) {
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header(http::header::CONTENT_TYPE, media_type)
        .body(body.to_string().into_bytes());
    let Ok(request) = request else { return };
    if let Err(error) = client.request::<Value>(request).await {
        tracing::debug!(%error, uri, "noise");
    }
}
