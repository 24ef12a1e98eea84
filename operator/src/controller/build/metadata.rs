//! Metadata of children.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Validated;

/// Metadata of a namespaced child that goes with its `ReportsServer`.
pub(super) fn namespaced(spec: &Validated, name: String) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(spec.namespace.clone()),
        ..cluster(spec, name)
    }
}

/// Returns the metadata of a child that holds reports. It has no owner, and so stays, unless the user
/// has confirmed that the data goes with the `ReportsServer`.
#[must_use]
pub fn data_metadata(spec: &Validated, name: String) -> ObjectMeta {
    let metadata = namespaced(spec, name);
    let owners = metadata.owner_references.clone();
    ObjectMeta {
        owner_references: owners.filter(|_| !spec.retain_data),
        ..metadata
    }
}

/// Metadata of a cluster-scoped child that goes with its `ReportsServer`.
pub(super) fn cluster(spec: &Validated, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        labels: Some(spec.names.labels()),
        owner_references: spec.owner.clone().map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}
