//! Traces of the server.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::reference::LocalReference;

/// Traces of the server's requests, exported to a collector. The fields are named as those of the
/// kube-apiserver's `TracingConfiguration`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!has(self.caSecretRef) || self.endpoint.startsWith('https://')")
        .message("caSecretRef can only be set with an endpoint that begins with https://")
)]
#[serde(rename_all = "camelCase")]
pub struct TracingSpec {
    /// URL of a collector that takes traces by OTLP over HTTP, such as
    /// `http://otel-collector.monitoring:4318`. Spans are sent to the path `/v1/traces` below it.
    #[schemars(
        length(min = 1, max = 512),
        regex(pattern = r"^https?://[^/?#@\s]+(/[^?#\s]*)?$")
    )]
    pub endpoint: String,
    /// Traces of a million that are recorded, of those that begin at the server. One that the
    /// kube-apiserver has begun is recorded where the kube-apiserver records it. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub sampling_rate_per_million: Option<i32>,
    /// Secret with the CAs of the collector's certificate in the key `ca.crt`. Default: the public
    /// CAs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<LocalReference>,
}
