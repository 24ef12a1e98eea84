//! The gate of a stored resource, which says how its requests are answered.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// The way in which requests for a resource's objects are answered. Discovery always answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum GateState {
    /// Not served: 503 with Retry-After; watches are ended. Imports are taken. The state at the
    /// start.
    #[default]
    Closed,
    /// Requests wait, at most 30 s, then 429 with Retry-After. Imports are taken. Reads of the
    /// user who set this state pass, so that the holder can look before it opens or closes. Where
    /// the gate was open before, all reads pass until the resource is released: what is stored is
    /// all there is.
    Held,
    /// Served. Imports are taken in [`ImportMode::Straggler`](super::ImportMode::Straggler) only.
    Open,
}

/// Body of the `gate` subresource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    /// Always [`API_VERSION`](super::API_VERSION).
    pub api_version: String,
    /// Always `Gate`.
    pub kind: String,
    /// Name of the stored resource.
    pub metadata: ObjectMeta,
    /// The wanted state.
    pub spec: GateSpec,
}

/// See [`Gate`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateSpec {
    /// The wanted state; it is durable and survives a restart of the server.
    pub state: GateState,
    /// True once stragglers have been looked for: from then on a difference to etcd is our own
    /// history and not a write that the mirror missed. Absent keeps the stored value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<bool>,
    /// True once etcd has everything that is stored here, while the gate is held: from then on the
    /// only way leads to the CRD, and the gate can be closed but not opened. Absent means false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<bool>,
    /// The version that lists and bookmarks of a released resource carry: etcd's revision, above
    /// all that was written back. A lower one than is in force changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// The fencing token of the client that moves the gate. Where it is not the newest one that was
    /// taken, the gate is left as it is: 409. Absent means that nobody checks, which is for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}
