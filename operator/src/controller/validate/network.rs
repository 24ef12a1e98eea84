//! The settings that network policies are made of.

use std::collections::BTreeSet;

use crds::v1alpha1::ReportsServerSpec;
use crds::v1alpha1::spec::NetworkPolicySpec;

use crate::names::SERVICE_PORT;

/// Port on which kube-apiservers listen, where their endpoints do not tell.
const USUAL_PORT: i32 = 6443;

/// The settings that network policies are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Networks of the kube-apiservers; none stands for any address.
    pub api_server_cidrs: Vec<String>,
    /// Ports of the kube-apiservers: that of their Service, and those on which they listen.
    pub api_server_ports: BTreeSet<i32>,
    /// Namespaces whose pods may call the server directly.
    pub client_namespaces: Vec<String>,
    /// Networks of an external database; none stands for any address.
    pub database_cidrs: Vec<String>,
    /// Further ports of an external database, of the bucket for backups and of the collector of
    /// traces.
    pub additional_ports: Vec<i32>,
}

/// Returns what the policies of a specification are made of; nothing where it asks for none.
/// `listening` are the ports on which the kube-apiservers listen.
pub(super) fn of(spec: &ReportsServerSpec, listening: &BTreeSet<i32>) -> Option<Network> {
    let policy = spec.network_policy.as_ref();
    // Taken apart without `..`: a new field cannot be forgotten here.
    let NetworkPolicySpec {
        enabled: _,
        api_server_cidrs,
        client_namespaces,
        database_cidrs,
        additional_ports,
    } = policy.filter(|policy| policy.is_enabled())?.clone();
    let mut api_server_ports = BTreeSet::from([SERVICE_PORT]);
    if listening.is_empty() {
        api_server_ports.insert(USUAL_PORT);
    }
    api_server_ports.extend(listening);
    Some(Network {
        api_server_cidrs: api_server_cidrs.unwrap_or_default(),
        api_server_ports,
        client_namespaces: client_namespaces.unwrap_or_default(),
        database_cidrs: database_cidrs.unwrap_or_default(),
        additional_ports: additional_ports.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn network(policy: &Value, listening: &[i32]) -> Option<Network> {
        let spec = json!({"targetNamespace": "ns", "networkPolicy": policy});
        let spec = serde_json::from_value(spec).unwrap();
        of(&spec, &listening.iter().copied().collect())
    }

    #[test]
    fn nothing_is_limited_unless_that_is_asked_for() {
        assert_eq!(network(&Value::Null, &[]), None);
        assert_eq!(network(&json!({"clientNamespaces": ["a"]}), &[]), None);
        assert_eq!(network(&json!({"enabled": false}), &[]), None);
    }

    #[test]
    fn kube_apiservers_are_reached_where_they_listen() {
        let ports = |listening: &[i32]| {
            let network = network(&json!({"enabled": true}), listening);
            network.unwrap().api_server_ports
        };
        assert_eq!(ports(&[]), BTreeSet::from([443, 6443]));
        assert_eq!(ports(&[8443]), BTreeSet::from([443, 8443]));
        assert_eq!(ports(&[443]), BTreeSet::from([443]));
    }
}
