//! A definition of a served resource: its names, versions, schemas and printer columns.
//!
//! A definition comes from a CustomResourceDefinition, either the cluster's or the catalog's. It is
//! serialised into the database as the schema last in force, and a definition read back is equal in
//! everything that matters.

mod crd;
mod ownership;
#[cfg(test)]
mod tests;
mod version;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use fieldmanager::FieldManager;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub use crd::DefinitionError;
pub use version::compare_versions;

use crate::schema::Structural;
use crate::table::{Column, Printer};

/// Name of the version that the operator adds to a CRD for a while to reach etcd past this server
/// (the *side door*). It belongs to the kube-apiserver alone and is never a version of a
/// definition.
pub const SIDE_DOOR_VERSION: &str = "legacy";

/// One resource with all its versions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDefinition {
    /// API group, never empty.
    pub group: String,
    /// Plural name, as in the path.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Kind of the objects.
    pub kind: String,
    /// Kind of their lists.
    pub list_kind: String,
    /// Short names for kubectl.
    #[serde(default)]
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    #[serde(default)]
    pub categories: Vec<String>,
    /// True when objects live in namespaces.
    pub namespaced: bool,
    /// All versions, the served and the stored, in order of priority (highest first).
    pub versions: Vec<VersionDefinition>,
    /// The field managers by served version; made from the versions when first asked for.
    #[serde(skip)]
    field_managers: OnceLock<BTreeMap<String, Arc<FieldManager>>>,
}

/// One version of a resource.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "version::Stored", into = "version::Stored")]
pub struct VersionDefinition {
    /// Name, such as `v1alpha2`.
    pub name: String,
    /// True when clients can use it.
    pub served: bool,
    /// True when it is the one that etcd holds.
    pub storage: bool,
    /// Text of the `Warning` header that every answer of a deprecated version carries.
    pub deprecation_warning: Option<String>,
    /// The schema, ready to work with.
    pub schema: Arc<Structural>,
    /// The schema in the form that says which fields are owned by themselves.
    pub types: fieldmanager::Schema,
    /// The `openAPIV3Schema` both were read from.
    pub open_api: Arc<Value>,
    /// Printer columns after the built-in `Name`; just `Age` where the CRD has none.
    pub columns: Vec<Column>,
    /// The printer that makes Tables of these columns.
    pub printer: Arc<Printer>,
}

impl ResourceDefinition {
    /// Returns `<plural>.<group>`: the name of the CRD, and of the resource in messages.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Returns a served version by its name.
    #[must_use]
    pub fn served(&self, version: &str) -> Option<&VersionDefinition> {
        self.served_versions()
            .find(|candidate| candidate.name == version)
    }

    /// Returns the served versions, preferred first.
    pub fn served_versions(&self) -> impl Iterator<Item = &VersionDefinition> {
        self.versions.iter().filter(|version| version.served)
    }

    /// Returns the version that etcd holds.
    #[must_use]
    pub fn storage_version(&self) -> Option<&VersionDefinition> {
        self.versions.iter().find(|version| version.storage)
    }

    /// Returns the `apiVersion` of the objects in `version`.
    #[must_use]
    pub fn api_version(&self, version: &str) -> String {
        format!("{}/{version}", self.group)
    }

    /// Returns the `storageVersionHash` that discovery publishes: it changes with the storage
    /// version.
    #[must_use]
    pub fn storage_version_hash(&self) -> String {
        let version = self.storage_version().map_or("", |version| &version.name);
        let digest = Sha256::digest(format!("{}/{version}/{}", self.group, self.kind));
        base64::engine::general_purpose::STANDARD.encode(&digest[..8])
    }
}
