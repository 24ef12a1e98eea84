//! The managers of field ownership.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use fieldmanager::{FieldManager, FieldSet, Schema, Version, Versions};
use serde_json::json;

use super::{ResourceDefinition, SIDE_DOOR_VERSION};

/// The schema of the side door, which accepts anything.
static SIDE_DOOR: LazyLock<Schema> = LazyLock::new(|| {
    let open_api = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    Schema::from_openapi(&open_api).unwrap_or_else(|_| Schema::deduced())
});

impl ResourceDefinition {
    /// Returns the field manager for requests in a served version.
    #[must_use]
    pub fn field_manager(&self, version: &str) -> Option<&Arc<FieldManager>> {
        let managers = self
            .field_managers
            .get_or_init(|| self.make_field_managers());
        managers.get(version)
    }

    fn make_field_managers(&self) -> BTreeMap<String, Arc<FieldManager>> {
        let versions = Arc::new(self.typed_versions());
        self.served_versions()
            .map(|version| {
                let api_version = self.api_version(&version.name);
                let manager = FieldManager::new(versions.clone(), api_version, &*self.kind, "");
                (version.name.clone(), Arc::new(manager))
            })
            .collect()
    }

    /// Returns every version that entries of `managedFields` can name. Objects that the operator
    /// writes back to etcd through the side door are entered under its version, and come here again
    /// with the next import.
    fn typed_versions(&self) -> Versions {
        let own = self.versions.iter().map(|of| (of.name.as_str(), &of.types));
        own.chain([(SIDE_DOOR_VERSION, &*SIDE_DOOR)])
            .map(|(name, schema)| {
                let version = Version {
                    schema: schema.clone(),
                    reset_fields: FieldSet::new(),
                };
                (self.api_version(name), version)
            })
            .collect()
    }
}
