//! Definitions in the database.

use std::sync::Arc;

use apimachinery::definition::ResourceDefinition;
use async_trait::async_trait;
use storage::model::{GroupResource, ResourceDef};
use storage::store::{Store, StoreError};

use super::definitions::DefinitionStore;

/// Returns the definitions that were in force when the server last ran, of all API groups.
///
/// A definition that cannot be read is passed over with a warning: it comes again from the cluster.
///
/// # Errors
/// If the database cannot be read.
pub async fn stored_definitions(store: &Store) -> Result<Vec<ResourceDefinition>, StoreError> {
    let mut all = Vec::new();
    for (group, text) in store.load_definitions().await? {
        match serde_json::from_str::<Vec<ResourceDefinition>>(&text) {
            Ok(definitions) => all.extend(definitions),
            Err(error) => {
                tracing::warn!(group, %error, "the stored schemas of this API group are not readable");
            }
        }
    }
    Ok(all)
}

#[async_trait]
impl DefinitionStore for Store {
    async fn prepare(&self, definition: &ResourceDefinition) -> anyhow::Result<()> {
        let resource = GroupResource::new(definition.group.as_str(), definition.plural.as_str());
        let (kind, namespaced) = (definition.kind.as_str().into(), definition.namespaced);
        self.ensure_resource(ResourceDef {
            resource,
            kind,
            namespaced,
        })
        .await?;
        Ok(())
    }

    async fn save(
        &self,
        group: &str,
        definitions: &[Arc<ResourceDefinition>],
    ) -> anyhow::Result<()> {
        let text = serde_json::to_string(definitions)?;
        Ok(self.save_definition(group, text).await?)
    }
}
