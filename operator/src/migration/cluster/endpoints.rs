//! Every kube-apiserver of the cluster, one by one.
//!
//! Watch caches, discovery and old handlers belong to one kube-apiserver, so what has to hold
//! everywhere is asked everywhere. The addresses are the endpoints of the Service
//! `default/kubernetes`. Of a managed control plane this is often one address, with several
//! kube-apiservers behind it: that they are more is told by their Leases. Where there are fewer
//! addresses than kube-apiservers, or one cannot be reached, the configured address stands in, and
//! [`Endpoints::direct`] is false.

use std::time::Duration;

use http::Uri;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;

use super::identities;
use super::wire::{Wire, WireError};
use crate::leader::Term;
use crate::migration::context::deps::Deps;

/// The name that every kube-apiserver's certificate carries.
const SERVER_NAME: &str = "kubernetes.default.svc";
/// Longest time for the first answer of an address.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// Connections that stand in for unknown kube-apiservers behind one address.
pub const INDIRECT_CONNECTIONS: u32 = 5;

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
    /// The Leases cannot be listed.
    #[error("cannot list the Leases of the kube-apiservers in the namespace kube-system: {0}")]
    Leases(#[source] Box<kube::Error>),
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
    /// All of them, or connections to the one address that they are behind; at least one.
    pub all: Vec<Endpoint>,
    /// True when `all` are really the single kube-apiservers.
    pub direct: bool,
    /// The number of kube-apiservers that renew their Lease; 0 where it is not known.
    pub alive: usize,
}

/// Returns a client that does not try again on its own: retries are decided where they are safe,
/// and each is within `term`.
///
/// # Errors
/// [`EndpointsError::Client`].
pub fn client(mut config: kube::Config, term: &Term) -> Result<kube::Client, EndpointsError> {
    config.default_retry = false;
    let address = config.cluster_url.to_string();
    term.client(config)
        .map_err(|source| EndpointsError::Client {
            address,
            source: Box::new(source),
        })
}

/// Returns requests to the configured address, on connections of their own.
///
/// # Errors
/// [`EndpointsError::Client`].
pub fn connect(deps: &Deps) -> Result<Wire, EndpointsError> {
    client(deps.config.clone(), &deps.term).map(Wire::new)
}

/// Finds the kube-apiservers and opens a connection to each.
///
/// # Errors
/// See [`EndpointsError`]; addresses that do not answer are not an error, see [`Endpoints`].
pub async fn discover(deps: &Deps) -> Result<Endpoints, EndpointsError> {
    let own = client(deps.config.clone(), &deps.term)?;
    let slices: Api<EndpointSlice> = Api::namespaced(own.clone(), "default");
    let params = ListParams::default().labels("kubernetes.io/service-name=kubernetes");
    let slices = slices
        .list(&params)
        .await
        .map_err(|e| EndpointsError::List(Box::new(e)))?;
    let addresses = addresses(&slices.items);
    // After the addresses: a kube-apiserver that starts in between is counted and has none.
    let alive = identities::count(&own)
        .await
        .map_err(|e| EndpointsError::Leases(Box::new(e)))?;
    let known = if may_be_all(&addresses, alive) {
        direct(deps, &addresses).await?
    } else {
        tracing::info!(
            ?addresses,
            alive,
            "not every kube-apiserver has an address of its own"
        );
        None
    };
    if let Some(all) = known {
        return Ok(Endpoints {
            all,
            direct: true,
            alive,
        });
    }
    Ok(Endpoints {
        all: indirect(deps).await?,
        direct: false,
        alive,
    })
}

/// Returns whether these can be the addresses of all kube-apiservers, of which `alive` renew their
/// Lease. Each may have an address of IPv4 and another of IPv6.
fn may_be_all(addresses: &[String], alive: usize) -> bool {
    let six = addresses.iter().filter(|a| a.starts_with('[')).count();
    six.max(addresses.len() - six) >= alive
}

/// Returns endpoints for all addresses, or none when one of them does not answer.
async fn direct(
    deps: &Deps,
    addresses: &[String],
) -> Result<Option<Vec<Endpoint>>, EndpointsError> {
    let mut all = Vec::new();
    for address in addresses {
        let Ok(url) = format!("https://{address}").parse::<Uri>() else {
            return Ok(None);
        };
        let mut config = deps.config.clone();
        config.cluster_url = url;
        config.tls_server_name = Some(SERVER_NAME.to_owned());
        config.proxy_url = None;
        let wire = Wire::new(client(config, &deps.term)?);
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

/// Opens several new connections to the one configured address.
///
/// # Errors
/// See [`EndpointsError`].
pub async fn indirect(deps: &Deps) -> Result<Vec<Endpoint>, EndpointsError> {
    let mut all = Vec::new();
    for n in 0..INDIRECT_CONNECTIONS {
        let wire = connect(deps)?;
        answers(&wire).await?;
        all.push(Endpoint {
            address: format!("{}#{n}", deps.config.cluster_url),
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
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::no_lease_is_known(&["10.0.0.1:6443"], 0, true)]
    #[case::one_of_each(&["10.0.0.1:6443"], 1, true)]
    #[case::a_load_balancer(&["10.0.0.1:443"], 3, false)]
    #[case::one_of_three_is_not_named(&["10.0.0.1:6443", "10.0.0.2:6443"], 3, false)]
    #[case::one_has_no_lease_yet(&["10.0.0.1:6443", "10.0.0.2:6443"], 1, true)]
    #[case::two_of_both_families(
        &["10.0.0.1:6443", "10.0.0.2:6443", "[fd00::1]:6443", "[fd00::2]:6443"], 2, true)]
    #[case::a_load_balancer_of_both_families(&["10.0.0.1:443", "[fd00::1]:443"], 2, false)]
    #[case::nothing_is_named(&[], 1, false)]
    fn addresses_are_those_of_all_where_there_are_as_many_as_leases(
        #[case] addresses: &[&str],
        #[case] alive: usize,
        #[case] expected: bool,
    ) {
        let addresses: Vec<String> = addresses.iter().map(|a| (*a).to_owned()).collect();
        assert_eq!(may_be_all(&addresses, alive), expected);
    }

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
