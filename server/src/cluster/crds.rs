//! The CRDs of the groups that are served, watched.
//!
//! A cluster can have hundreds of CRDs with large schemas, and a watch cannot be narrowed to API
//! groups. So only their metadata is watched, and the few that matter are fetched when their
//! generation changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::definition::ResourceDefinition;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::core::PartialObjectMeta;

pub(super) type Meta = PartialObjectMeta<CustomResourceDefinition>;

/// uid and generation: a CRD's spec is the same while both are.
type Revision = (String, i64);

/// The CRDs that have been fetched.
pub struct CrdWatch {
    api: Api<CustomResourceDefinition>,
    fetched: BTreeMap<String, Revision>,
    definitions: BTreeMap<String, Arc<ResourceDefinition>>,
}

/// The steps after which the fetched CRDs are those of the cluster. Pure.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    fetch: Vec<(String, Revision)>,
    forget: Vec<String>,
}

fn plan(
    seen: &[(String, Revision)],
    groups: &BTreeSet<String>,
    fetched: &BTreeMap<String, Revision>,
) -> Plan {
    let wanted = |name: &str| {
        name.split_once('.')
            .is_some_and(|(_, group)| groups.contains(group))
    };
    let present: BTreeSet<&str> = seen.iter().map(|(name, _)| name.as_str()).collect();
    Plan {
        fetch: seen
            .iter()
            .filter(|(name, revision)| wanted(name) && fetched.get(name) != Some(revision))
            .cloned()
            .collect(),
        forget: fetched
            .keys()
            .filter(|name| !present.contains(name.as_str()) || !wanted(name))
            .cloned()
            .collect(),
    }
}

impl CrdWatch {
    /// Returns a watch that has fetched nothing yet.
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        Self {
            api: Api::all(client),
            fetched: BTreeMap::new(),
            definitions: BTreeMap::new(),
        }
    }

    /// Returns the usable definitions by name.
    #[must_use]
    pub fn definitions(&self) -> &BTreeMap<String, Arc<ResourceDefinition>> {
        &self.definitions
    }

    /// Fetches the CRDs that have changed. Those that could be fetched are kept also when something
    /// else fails.
    ///
    /// # Errors
    /// If a CRD could not be fetched; call again later.
    pub(super) async fn sync(
        &mut self,
        seen: &[Arc<Meta>],
        groups: &BTreeSet<String>,
    ) -> Result<(), kube::Error> {
        let seen: Vec<_> = seen
            .iter()
            .map(|crd| {
                let meta = &crd.metadata;
                let revision = (
                    meta.uid.clone().unwrap_or_default(),
                    meta.generation.unwrap_or_default(),
                );
                (meta.name.clone().unwrap_or_default(), revision)
            })
            .collect();
        let Plan { fetch, forget } = plan(&seen, groups, &self.fetched);
        for name in forget {
            self.forget(&name);
        }
        let mut failure = None;
        for (name, _) in fetch {
            match self.api.get_opt(&name).await {
                Ok(Some(crd)) => self.take(name, &crd),
                Ok(None) => self.forget(&name),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn forget(&mut self, name: &str) {
        self.fetched.remove(name);
        if self.definitions.remove(name).is_some() {
            tracing::warn!(crd = name, "CRD is gone; its last schema stays in force");
        }
    }

    fn take(&mut self, name: String, crd: &CustomResourceDefinition) {
        let meta = &crd.metadata;
        let revision = (
            meta.uid.clone().unwrap_or_default(),
            meta.generation.unwrap_or_default(),
        );
        match ResourceDefinition::from_crd(crd) {
            Ok(definition) => {
                self.definitions.insert(name.clone(), Arc::new(definition));
            }
            Err(error) => {
                self.definitions.remove(&name);
                tracing::warn!(crd = name, %error, "CRD cannot be served; its last schema stays in force");
            }
        }
        self.fetched.insert(name, revision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(uid: &str, generation: i64) -> Revision {
        (uid.to_owned(), generation)
    }

    #[test]
    fn fetches_what_changed_in_the_groups_and_forgets_the_rest() {
        let groups = BTreeSet::from(["g.io".to_owned()]);
        let seen = [
            ("same.g.io".to_owned(), revision("a", 1)),
            ("changed.g.io".to_owned(), revision("b", 2)),
            ("remade.g.io".to_owned(), revision("d", 1)),
            ("new.g.io".to_owned(), revision("e", 1)),
            ("other.h.io".to_owned(), revision("f", 1)),
            ("nested.x.g.io".to_owned(), revision("g", 1)),
        ];
        let fetched = BTreeMap::from([
            ("same.g.io".to_owned(), revision("a", 1)),
            ("changed.g.io".to_owned(), revision("b", 1)),
            ("remade.g.io".to_owned(), revision("c", 1)),
            ("gone.g.io".to_owned(), revision("h", 1)),
            ("dropped.i.io".to_owned(), revision("i", 1)),
        ]);
        let Plan { fetch, forget } = plan(&seen, &groups, &fetched);
        let names: Vec<_> = fetch.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["changed.g.io", "remade.g.io", "new.g.io"]);
        assert_eq!(forget, ["dropped.i.io", "gone.g.io"]);
    }
}
