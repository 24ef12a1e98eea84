//! The ports on which the kube-apiservers listen.

use std::collections::BTreeSet;

use crds::v1alpha1::ReportsServerSpec;
use crds::v1alpha1::spec::NetworkPolicySpec;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};

use super::Error;

/// Returns the ports, where one of the specifications asks for network policies.
///
/// # Errors
/// If they cannot be read; that there are none is an answer.
pub async fn ports(
    client: &Client,
    specifications: &[&ReportsServerSpec],
) -> Result<BTreeSet<i32>, Error> {
    if !specifications.iter().any(|spec| has_policies(spec)) {
        return Ok(BTreeSet::new());
    }
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), "default");
    let params = ListParams::default().labels("kubernetes.io/service-name=kubernetes");
    let found = slices.list(&params).await;
    let found = found.map_err(|source| Error::ApiServers { source })?;
    Ok(of(&found.items))
}

fn has_policies(spec: &ReportsServerSpec) -> bool {
    let policy = spec.network_policy.as_ref();
    policy.is_some_and(NetworkPolicySpec::is_enabled)
}

fn of(slices: &[EndpointSlice]) -> BTreeSet<i32> {
    let ports = slices.iter().flat_map(|slice| slice.ports.iter().flatten());
    ports.filter_map(|port| port.port).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_port_counts_once() {
        let slices: Vec<EndpointSlice> = serde_json::from_value(json!([
            {"addressType": "IPv4", "metadata": {"name": "kubernetes"},
             "ports": [{"name": "https", "port": 6443}], "endpoints": []},
            {"addressType": "IPv6", "metadata": {"name": "kubernetes-6"},
             "ports": [{"name": "https", "port": 6443}], "endpoints": []},
        ]))
        .unwrap();
        assert_eq!(of(&slices), BTreeSet::from([6443]));
        assert_eq!(of(&[]), BTreeSet::new());
    }
}
