//! The fencing token of an operator's term.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// Body of the `fence` subresource: the fencing token of one operator's term.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fence {
    /// Always [`API_VERSION`](super::API_VERSION).
    pub api_version: String,
    /// Always `Fence`.
    pub kind: String,
    /// Name of the stored resource.
    pub metadata: ObjectMeta,
    /// The newest token.
    #[serde(default)]
    pub status: FenceStatus,
}

/// See [`Fence`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FenceStatus {
    /// The newest token that was taken. Gates and imports that carry an older one are refused.
    pub token: u64,
}
