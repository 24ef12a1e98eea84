//! The stored resources: what the server has of each, and how it serves it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::gate::GateState;

/// Returns the name of the `StoredResource` of a resource: `policyreports.wgpolicyk8s.io`.
#[must_use]
pub fn stored_resource_name(plural: &str, group: &str) -> String {
    format!("{plural}.{group}")
}

/// One resource that the server stores, whether it is served already or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredResource {
    /// Always [`API_VERSION`](super::API_VERSION).
    pub api_version: String,
    /// Always `StoredResource`.
    pub kind: String,
    /// Name, uid and creationTimestamp; nothing else is set.
    pub metadata: ObjectMeta,
    /// Content of the resource, and its serving.
    pub status: StoredResourceStatus,
}

/// See [`StoredResource`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(
    clippy::struct_excessive_bools,
    reason = "a field of the API each, not the states of one thing"
)]
pub struct StoredResourceStatus {
    /// API group of the stored resource.
    pub group: String,
    /// Plural name of the stored resource.
    pub resource: String,
    /// Kind of the stored resource.
    pub kind: String,
    /// True when objects live in namespaces.
    pub namespaced: bool,
    /// Served versions, preferred first.
    pub versions: Vec<String>,
    /// The origin of the schema in force.
    pub schema_source: SchemaSource,
    /// Number of stored objects.
    pub objects: u64,
    /// Sum of the sizes of their JSON texts, in bytes.
    pub bytes: u64,
    /// The version that a list of this resource would carry now.
    pub resource_version: String,
    /// Oldest version from which a watch can resume; older ones get 410.
    pub horizon: String,
    /// Newest etcd version that was imported or passed over as progress; empty before the first
    /// import.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mirrored_resource_version: String,
    /// Etcd copies that were imported and are not pruned yet.
    pub imported: u64,
    /// The state of the gate.
    pub gate: GateState,
    /// True when the gate was opened since the copy of etcd began: the server may have what etcd
    /// has not, whatever the gate is now.
    #[serde(default)]
    pub opened: bool,
    /// See [`GateSpec::settled`](super::GateSpec::settled).
    pub settled: bool,
    /// See [`GateSpec::released`](super::GateSpec::released).
    #[serde(default)]
    pub released: bool,
    /// The time for which the gate has been held by now, in milliseconds of the server's clock;
    /// absent while it is not held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_milliseconds: Option<u64>,
    /// The time for which it was held the last time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_hold_milliseconds: Option<u64>,
}

/// Origin of the schema that a resource is validated against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SchemaSource {
    /// The cluster's CRD.
    #[serde(rename = "CRD")]
    Crd,
    /// The schema last in force, from the database.
    Database,
    /// The catalog compiled into the server.
    #[default]
    Catalog,
}

/// List of [`StoredResource`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredResourceList {
    /// Always [`API_VERSION`](super::API_VERSION).
    pub api_version: String,
    /// Always `StoredResourceList`.
    pub kind: String,
    /// List metadata.
    pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta,
    /// One entry a resource, sorted by name.
    pub items: Vec<StoredResource>,
}
