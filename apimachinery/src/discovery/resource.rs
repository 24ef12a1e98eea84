//! The content of discovery, before it is brought into one of its forms.

use std::collections::BTreeMap;

use crds::control;

use crate::definition::{ResourceDefinition, compare_versions};

/// Verbs of a report API, in the order in which the kube-apiserver lists those of a CRD.
const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

/// An API group with its versions, preferred first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub name: String,
    pub versions: Vec<Version>,
}

/// A version of an API group with its resources, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub name: String,
    pub resources: Vec<DiscoveredResource>,
}

/// One resource in discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredResource {
    /// Plural name.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Kind of the objects.
    pub kind: String,
    /// True when objects live in namespaces.
    pub namespaced: bool,
    /// The verbs that the resource supports.
    pub verbs: Vec<&'static str>,
    /// Short names.
    pub short_names: Vec<String>,
    /// Categories.
    pub categories: Vec<String>,
    /// A hash that changes with the storage version; none where nothing is stored.
    pub storage_version_hash: Option<String>,
    /// Subresources, sorted by name.
    pub subresources: Vec<DiscoveredSubresource>,
}

/// A subresource in discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredSubresource {
    /// Name without that of the resource.
    pub name: &'static str,
    /// Kind of the objects that are sent and returned.
    pub kind: &'static str,
    /// The verbs that the subresource supports.
    pub verbs: Vec<&'static str>,
}

/// Returns groups sorted by name, their versions by priority, the resources in those by name.
pub(super) fn groups<'a>(
    definitions: impl IntoIterator<Item = &'a ResourceDefinition>,
) -> Vec<Group> {
    let mut groups: BTreeMap<&str, BTreeMap<&str, Vec<DiscoveredResource>>> = BTreeMap::new();
    for definition in definitions {
        let versions = groups.entry(&definition.group).or_default();
        for version in definition.served_versions() {
            versions
                .entry(&version.name)
                .or_default()
                .push(report(definition));
        }
    }
    groups
        .entry(control::GROUP)
        .or_default()
        .insert(control::VERSION, vec![databases(), stored_resources()]);
    groups
        .into_iter()
        .map(|(name, versions)| {
            let mut versions: Vec<Version> = versions
                .into_iter()
                .map(|(name, mut resources)| {
                    resources.sort_by(|a, b| a.plural.cmp(&b.plural));
                    Version {
                        name: name.to_owned(),
                        resources,
                    }
                })
                .collect();
            versions.sort_by(|a, b| compare_versions(&a.name, &b.name));
            Group {
                name: name.to_owned(),
                versions,
            }
        })
        .collect()
}

fn report(definition: &ResourceDefinition) -> DiscoveredResource {
    DiscoveredResource {
        plural: definition.plural.clone(),
        singular: definition.singular.clone(),
        kind: definition.kind.clone(),
        namespaced: definition.namespaced,
        verbs: VERBS.to_vec(),
        short_names: definition.short_names.clone(),
        categories: definition.categories.clone(),
        storage_version_hash: Some(definition.storage_version_hash()),
        subresources: Vec::new(),
    }
}

/// Returns the resource for the database of the reports: one object, which is only read.
fn databases() -> DiscoveredResource {
    DiscoveredResource {
        plural: control::DATABASES.to_owned(),
        singular: "database".to_owned(),
        kind: "Database".to_owned(),
        namespaced: false,
        verbs: vec!["get", "list"],
        short_names: Vec::new(),
        categories: Vec::new(),
        storage_version_hash: None,
        subresources: Vec::new(),
    }
}

/// Returns the resource of the control API by which the operator works.
fn stored_resources() -> DiscoveredResource {
    let subresource = |name, kind, verbs: &[&'static str]| DiscoveredSubresource {
        name,
        kind,
        verbs: verbs.to_vec(),
    };
    DiscoveredResource {
        plural: control::PLURAL.to_owned(),
        singular: "storedresource".to_owned(),
        kind: "StoredResource".to_owned(),
        namespaced: false,
        verbs: vec!["get", "list"],
        short_names: Vec::new(),
        categories: Vec::new(),
        storage_version_hash: None,
        subresources: vec![
            subresource("digest", "Digest", &["get"]),
            subresource("floor", "Floor", &["get", "update"]),
            subresource("gate", "Gate", &["get", "update"]),
            subresource("import", "ImportBatch", &["create"]),
        ],
    }
}
