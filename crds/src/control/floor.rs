//! The floor of the resource version counter.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// Body of the `floor` subresource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Floor {
    /// Always [`API_VERSION`](super::API_VERSION).
    pub api_version: String,
    /// Always `Floor`.
    pub kind: String,
    /// Name of the stored resource.
    pub metadata: ObjectMeta,
    /// The wanted floor.
    pub spec: FloorSpec,
}

/// See [`Floor`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FloorSpec {
    /// The server's next write gets a version above this one. A floor below the present counter
    /// changes nothing; the answer carries the counter that is in force.
    pub resource_version: String,
}
