//! Discovery: the groups, versions and resources that exist, in the forms that the kube-apiserver's
//! aggregator, kubectl and old clients ask for.
//!
//! The documents are made once for a set of definitions and depend on nothing else, so that they
//! can be answered while the database is away: an API server whose discovery fails blocks the
//! deletion of every namespace of the cluster.

mod aggregated;
mod legacy;
mod resource;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use resource::DiscoveredResource;

use crate::definition::ResourceDefinition;
use crate::document::Document;

/// All discovery documents.
#[derive(Clone, Debug)]
pub struct Discovery {
    /// `/apis` as `apidiscovery.k8s.io/v2`.
    pub aggregated_v2: Document,
    /// `/apis` as `apidiscovery.k8s.io/v2beta1`, for kube-apiservers before 1.30.
    pub aggregated_v2beta1: Document,
    /// `/apis` as an `APIGroupList`.
    pub groups: Document,
    /// `/apis/<group>` as an `APIGroup`, by group.
    pub group: BTreeMap<String, Document>,
    /// `/apis/<group>/<version>` as an `APIResourceList`, by group and version.
    pub resources: BTreeMap<(String, String), Document>,
}

impl Discovery {
    /// Returns the documents of `definitions`, in any order, and of the control API, which is
    /// always there.
    ///
    /// # Errors
    /// Never in practice: see [`Document::new`].
    pub fn new<'a>(
        definitions: impl IntoIterator<Item = &'a ResourceDefinition>,
    ) -> Result<Self, serde_json::Error> {
        let groups = resource::groups(definitions);
        Ok(Self {
            aggregated_v2: Document::new(&aggregated::list("v2", &groups))?,
            aggregated_v2beta1: Document::new(&aggregated::list("v2beta1", &groups))?,
            groups: Document::new(&legacy::group_list(&groups))?,
            group: groups
                .iter()
                .map(|group| Ok((group.name.clone(), Document::new(&legacy::group(group))?)))
                .collect::<Result<_, serde_json::Error>>()?,
            resources: groups
                .iter()
                .flat_map(|group| group.versions.iter().map(move |version| (group, version)))
                .map(|(group, version)| {
                    let document = Document::new(&legacy::resource_list(group, version))?;
                    Ok(((group.name.clone(), version.name.clone()), document))
                })
                .collect::<Result<_, serde_json::Error>>()?,
        })
    }
}
