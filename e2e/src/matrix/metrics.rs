//! The operator's metrics, read as a Prometheus does: over TLS, with the token of an account.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{Request, Uri};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, Config};
use testcluster::Cluster;

use super::error::MatrixError;
use crate::takeover::OPERATOR_NAMESPACE;

/// Name of the account that reads, and of its binding.
const READER: &str = "metrics-reader";
/// The role of the installation for it.
const ROLE: &str = "--clusterrole=reports-server:metrics";
/// Label of the operator's pods.
const PODS: &str = "app.kubernetes.io/component=operator";
const PORT: u16 = 8443;
/// A metric that every operator has.
const METRIC: &str = "reports_server_operator_build_info";
/// Longest time for one answer.
const ANSWER: Duration = Duration::from_secs(15);
/// Longest time until a right counts; the operator uses an answer for ten seconds.
const GRANTED: Duration = Duration::from_mins(1);
/// Time between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Makes sure that the metrics are for those who have a token and may read them, and for nobody else.
///
/// # Errors
/// If they are not.
pub async fn are_guarded(cluster: &Cluster) -> Result<(), MatrixError> {
    let address = cluster.forward(operator(cluster).await?)?;
    expect(address, None, 401).await?;
    expect(address, Some("nobody's"), 401).await?;
    let namespace = ["-n", OPERATOR_NAMESPACE, "create"];
    let account = [&namespace[..], &["serviceaccount", READER]].concat();
    cluster.kubectl(account).await?;
    let token = [&namespace[..], &["token", READER]].concat();
    let token = cluster.kubectl(token).await?;
    let token = Some(token.trim());
    expect(address, token, 403).await?;
    let subject = format!("--serviceaccount={OPERATOR_NAMESPACE}:{READER}");
    let binding = ["create", "clusterrolebinding", READER, ROLE, &subject];
    cluster.kubectl(binding).await?;
    let granted = async {
        while code(address, token).await? != 200 {
            tokio::time::sleep(PAUSE).await;
        }
        Ok::<(), MatrixError>(())
    };
    let granted = tokio::time::timeout(GRANTED, granted).await;
    granted.unwrap_or_else(|_| Err(unread(&"the right to read them does not count")))
}

/// Returns the address of the metrics of an operator that runs.
async fn operator(cluster: &Cluster) -> Result<SocketAddr, MatrixError> {
    let client = cluster.client().await?;
    let pods: Api<Pod> = Api::namespaced(client, OPERATOR_NAMESPACE);
    let found = pods.list(&ListParams::default().labels(PODS)).await;
    let found = found.map_err(|error| unread(&error))?;
    let running = found.items.into_iter().find(|pod| {
        let status = pod.status.as_ref();
        let is_running = status.is_some_and(|status| status.phase.as_deref() == Some("Running"));
        is_running && pod.metadata.deletion_timestamp.is_none()
    });
    let address = running.and_then(|pod| pod.status?.pod_ip?.parse::<IpAddr>().ok());
    let address = address.ok_or_else(|| unread(&"no operator runs"))?;
    Ok(SocketAddr::new(address, PORT))
}

async fn expect(address: SocketAddr, token: Option<&str>, wanted: u16) -> Result<(), MatrixError> {
    let found = code(address, token).await?;
    if found == wanted {
        return Ok(());
    }
    Err(unread(&format!("{found} in place of {wanted}")))
}

/// Returns the code of the answer; 200 only for what has metrics in it.
async fn code(address: SocketAddr, token: Option<&str>) -> Result<u16, MatrixError> {
    let url = format!("https://{address}").parse::<Uri>();
    let mut config = Config::new(url.map_err(|error| unread(&error))?);
    // The operator signs it itself, and it is not reached by its name here.
    config.accept_invalid_certs = true;
    config.default_retry = false;
    config.read_timeout = Some(ANSWER);
    let client = Client::try_from(config).map_err(|error| unread(&error))?;
    let mut request = Request::get("/metrics");
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Vec::new());
    let request = request.map_err(|error| unread(&error))?;
    match client.request_text(request).await {
        Ok(text) if text.contains(METRIC) => Ok(200),
        Ok(text) => Err(unread(&text)),
        Err(kube::Error::Api(status)) => Ok(status.code),
        Err(error) => Err(unread(&error)),
    }
}

fn unread(why: &dyn Display) -> MatrixError {
    MatrixError::Metrics(why.to_string())
}
