//! The specification of network policies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Network policies around server, managed database and the Jobs for its backups and upgrades.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicySpec {
    /// True when the operator makes network policies. Default: `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Networks of the kube-apiservers, such as `10.0.0.0/24`, with the addresses from which their
    /// requests reach pods. Default: any address, since those differ with the network of the
    /// cluster, and the API is away when one is missing.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "apiServerCIDRs"
    )]
    #[schemars(
        length(max = 32),
        inner(
            length(min = 3, max = 49),
            regex(pattern = r"^[0-9A-Fa-f:.]+/[0-9]{1,3}$")
        )
    )]
    pub api_server_cidrs: Option<Vec<String>>,
    /// Namespaces whose pods may call the server directly, such as that of Prometheus. They need
    /// not be named where `apiServerCIDRs` is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 32),
        inner(
            length(min = 1, max = 63),
            regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
        )
    )]
    pub client_namespaces: Option<Vec<String>>,
    /// Networks of an external database, such as `192.0.2.0/24`; only with mode `External`.
    /// Default: any address.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "databaseCIDRs"
    )]
    #[schemars(
        length(max = 32),
        inner(
            length(min = 3, max = 49),
            regex(pattern = r"^[0-9A-Fa-f:.]+/[0-9]{1,3}$")
        )
    )]
    pub database_cidrs: Option<Vec<String>>,
    /// Further ports of an external database, of the bucket for backups and of the collector of
    /// traces. A policy sees the port of a pod, which may be another one than that of the Service in
    /// front of it. Only with mode `External`, `Managed`, or `Embedded` with backups, or with
    /// `monitoring.tracing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(range(min = 1, max = 65535)))]
    pub additional_ports: Option<Vec<i32>>,
}

impl NetworkPolicySpec {
    /// Returns whether the operator makes network policies.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled == Some(true)
    }
}
