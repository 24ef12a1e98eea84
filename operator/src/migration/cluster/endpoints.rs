//! Every kube-apiserver of the cluster, one by one.
//!
//! Watch caches, discovery and old handlers belong to one kube-apiserver, so what has to hold
//! everywhere is asked everywhere. The addresses are the endpoints of the Service
//! `default/kubernetes`; where they cannot be reached (a managed control plane behind one address)
//! the configured address stands in, and [`Endpoints::direct`] is false.

use std::time::Duration;

use http::Uri;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;

use super::wire::{Wire, WireError};

/// The name that every kube-apiserver's certificate carries.
const SERVER_NAME: &str = "kubernetes.default.svc";
/// Longest time for the first answer of an address.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// Connections that stand in for unknown kube-apiservers behind one address.
pub const INDIRECT_CONNECTIONS: usize = 5;

/// The reason why the addresses are not known.
#[derive(Debug, thiserror::Error)]
pub enum EndpointsError {
    /// No client can be made from the operator's own configuration.
    #[error("cannot make a client for the kube-apiserver at {address}: {source}")]
    Client {
        /// The address.
        address: String,
        /// The error of the client.
        source: Box<kube::Error>,
    },
    /// The addresses cannot be listed.
    #[error("cannot list the EndpointSlices of the Service default/kubernetes: {0}")]
    List(#[source] Box<kube::Error>),
    /// No address answers.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// One kube-apiserver.
#[derive(Clone)]
pub struct Endpoint {
    /// Address of the kube-apiserver as `host:port`.
    pub address: String,
    /// Requests to it and to no other.
    pub wire: Wire,
}

/// The kube-apiservers of a cluster.
#[derive(Clone)]
pub struct Endpoints {
    /// All of them; at least one.
    pub all: Vec<Endpoint>,
    /// True when `all` are really the single kube-apiservers.
    pub direct: bool,
}

/// Returns a client that does not try again on its own: retries are decided where they are safe.
///
/// # Errors
/// [`EndpointsError::Client`].
pub fn client(mut config: kube::Config) -> Result<kube::Client, EndpointsError> {
    config.default_retry = false;
    let address = config.cluster_url.to_string();
    kube::Client::try_from(config).map_err(|source| EndpointsError::Client {
        address,
        source: Box::new(source),
    })
}

/// Finds the kube-apiservers and opens a connection to each.
///
/// # Errors
/// See [`EndpointsError`]; addresses that do not answer are not an error, see [`Endpoints`].
pub async fn discover(config: &kube::Config) -> Result<Endpoints, EndpointsError> {
    let own = client(config.clone())?;
    let slices: Api<EndpointSlice> = Api::namespaced(own, "default");
    let params = ListParams::default().labels("kubernetes.io/service-name=kubernetes");
    let slices = slices
        .list(&params)
        .await
        .map_err(|e| EndpointsError::List(Box::new(e)))?;
    let addresses = addresses(&slices.items);
    if let Some(all) = direct(config, &addresses).await? {
        return Ok(Endpoints { all, direct: true });
    }
    let indirect = indirect(config).await?;
    Ok(Endpoints {
        all: indirect,
        direct: false,
    })
}

/// Returns endpoints for all addresses, or none when one of them does not answer.
async fn direct(
    config: &kube::Config,
    addresses: &[String],
) -> Result<Option<Vec<Endpoint>>, EndpointsError> {
    let mut all = Vec::new();
    for address in addresses {
        let Ok(url) = format!("https://{address}").parse::<Uri>() else {
            return Ok(None);
        };
        let mut config = config.clone();
        config.cluster_url = url;
        config.tls_server_name = Some(SERVER_NAME.to_owned());
        config.proxy_url = None;
        let wire = Wire::new(client(config)?);
        if let Err(error) = answers(&wire).await {
            tracing::info!(address, %error, "kube-apiserver is not reachable by its own address");
            return Ok(None);
        }
        all.push(Endpoint {
            address: address.clone(),
            wire,
        });
    }
    Ok((!all.is_empty()).then_some(all))
}

/// Opens several connections to the one configured address.
async fn indirect(config: &kube::Config) -> Result<Vec<Endpoint>, EndpointsError> {
    let mut all = Vec::new();
    for n in 0..INDIRECT_CONNECTIONS {
        let wire = Wire::new(client(config.clone())?);
        answers(&wire).await?;
        all.push(Endpoint {
            address: format!("{}#{n}", config.cluster_url),
            wire,
        });
    }
    Ok(all)
}

async fn answers(wire: &Wire) -> Result<(), WireError> {
    let timeout = || WireError::Timeout {
        path: "/version".to_owned(),
        after: PROBE_TIMEOUT,
    };
    let reply = tokio::time::timeout(PROBE_TIMEOUT, wire.get("/version")).await;
    reply.map_err(|_| timeout())??;
    Ok(())
}

/// Returns `host:port` of every ready endpoint, sorted, each once.
fn addresses(slices: &[EndpointSlice]) -> Vec<String> {
    let mut all: Vec<String> = slices
        .iter()
        .flat_map(|slice| {
            let port = slice
                .ports
                .iter()
                .flatten()
                .find(|p| p.name.as_deref() == Some("https"))
                .and_then(|p| p.port)
                .unwrap_or(443);
            let ready = |e: &&k8s_openapi::api::discovery::v1::Endpoint| {
                e.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true)
            };
            let hosts = slice
                .endpoints
                .iter()
                .filter(ready)
                .flat_map(|e| e.addresses.clone());
            let authority = move |host: String| {
                if host.contains(':') {
                    format!("[{host}]:{port}")
                } else {
                    format!("{host}:{port}")
                }
            };
            hosts.map(authority).collect::<Vec<_>>()
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_are_those_of_ready_endpoints() {
        let slices: Vec<EndpointSlice> = serde_json::from_value(json!([
            {"addressType": "IPv4", "metadata": {"name": "kubernetes"},
             "ports": [{"name": "https", "port": 6443}],
             "endpoints": [
                {"addresses": ["10.0.0.2"], "conditions": {"ready": true}},
                {"addresses": ["10.0.0.1"]},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": false}}]},
            {"addressType": "IPv6", "metadata": {"name": "kubernetes-6"},
             "ports": [{"name": "https", "port": 6443}],
             "endpoints": [{"addresses": ["fd00::1"]}, {"addresses": ["fd00::1"]}]}
        ]))
        .unwrap();
        assert_eq!(
            addresses(&slices),
            ["10.0.0.1:6443", "10.0.0.2:6443", "[fd00::1]:6443"]
        );
    }
}
