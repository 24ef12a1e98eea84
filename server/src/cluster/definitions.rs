//! The definition of a resource that is in force. No I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::definition::{ResourceDefinition, VersionDefinition};
use apimachinery::discovery::Discovery;
use apimachinery::openapi::OpenApi;
use async_trait::async_trait;
use crds::control::SchemaSource;

/// The place where objects and definitions are kept.
#[async_trait]
pub trait DefinitionStore: Send + Sync + 'static {
    /// Makes room for the objects of a resource; called before it is served.
    ///
    /// # Errors
    /// If there is no room: the store is down, or holds another kind under that name. It will be
    /// tried again.
    async fn prepare(&self, definition: &ResourceDefinition) -> anyhow::Result<()>;

    /// Keeps the definitions of a group across restarts, in place of earlier ones.
    ///
    /// # Errors
    /// If they could not be stored; it will be tried again.
    async fn save(
        &self,
        group: &str,
        definitions: &[Arc<ResourceDefinition>],
    ) -> anyhow::Result<()>;
}

/// A definition in force.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The definition.
    pub definition: Arc<ResourceDefinition>,
    /// The source of the definition.
    pub source: SchemaSource,
}

/// Definitions by group, then plural name.
type Resources = BTreeMap<String, BTreeMap<String, Effective>>;

/// Everything that is served at one time, with its documents.
#[derive(Debug)]
pub struct Served {
    resources: Resources,
    /// Documents of `/apis`.
    pub discovery: Discovery,
    /// Documents of `/openapi/v3`.
    pub openapi: OpenApi,
}

impl Served {
    /// Returns the documents for a set of definitions.
    ///
    /// # Errors
    /// If a document cannot be encoded.
    pub fn new(definitions: Vec<Effective>) -> Result<Self, serde_json::Error> {
        let mut resources = Resources::new();
        for effective in definitions {
            let definition = &effective.definition;
            let group = resources.entry(definition.group.clone()).or_default();
            group.insert(definition.plural.clone(), effective);
        }
        let all = || {
            resources
                .values()
                .flat_map(BTreeMap::values)
                .map(|e| e.definition.as_ref())
        };
        let (discovery, openapi) = (Discovery::new(all())?, OpenApi::new(all())?);
        Ok(Self {
            resources,
            discovery,
            openapi,
        })
    }

    /// Returns a resource by its group and plural name.
    #[must_use]
    pub fn resource(&self, group: &str, plural: &str) -> Option<&Effective> {
        self.resources.get(group)?.get(plural)
    }

    /// Returns a resource in one of its served versions.
    #[must_use]
    pub fn version(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<(&Effective, &VersionDefinition)> {
        let effective = self.resource(group, plural)?;
        Some((effective, effective.definition.served(version)?))
    }

    /// Returns all resources, sorted by group and plural name.
    pub fn iter(&self) -> impl Iterator<Item = &Effective> {
        self.resources.values().flat_map(BTreeMap::values)
    }
}

/// The sources of definitions.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// API groups to serve.
    pub groups: &'a BTreeSet<String>,
    /// Definitions from the cluster's CRDs, by name.
    pub crds: &'a BTreeMap<String, Arc<ResourceDefinition>>,
    /// Definitions that were last in force, by name.
    pub last: &'a BTreeMap<String, Arc<ResourceDefinition>>,
    /// Definitions that are compiled in, by name.
    pub catalog: &'a BTreeMap<String, Arc<ResourceDefinition>>,
}

/// Returns the definitions in force: for each resource of the groups the CRD's, else the last one.
/// A resource whose CRD is gone or has become unusable goes on with the last. A group without any
/// other definition is taken from the catalog.
#[must_use]
pub fn effective(sources: &Sources<'_>) -> Vec<Effective> {
    let mut chosen: BTreeMap<&str, Effective> = BTreeMap::new();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let origins = [
        (sources.crds, SchemaSource::Crd),
        (sources.last, SchemaSource::Database),
    ];
    for (definitions, source) in origins {
        for (name, definition) in definitions {
            if sources.groups.contains(&definition.group) {
                known.insert(&definition.group);
                chosen.entry(name).or_insert_with(|| Effective {
                    definition: definition.clone(),
                    source,
                });
            }
        }
    }
    for (name, definition) in sources.catalog {
        let group = definition.group.as_str();
        if sources.groups.contains(group) && !known.contains(group) {
            let source = SchemaSource::Catalog;
            chosen.insert(
                name,
                Effective {
                    definition: definition.clone(),
                    source,
                },
            );
        }
    }
    chosen.into_values().collect()
}
