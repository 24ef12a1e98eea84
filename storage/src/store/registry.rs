//! The resources of a store.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use crate::cache::Resource;
use crate::model::{Dictionary, GroupResource, ResourceId};

/// All resources, by name and by number.
#[derive(Default)]
pub(super) struct Registry(RwLock<Maps>);

#[derive(Default)]
struct Maps {
    by_name: BTreeMap<GroupResource, Arc<Resource>>,
    by_id: HashMap<ResourceId, Arc<Resource>>,
}

impl Registry {
    pub fn by_name(&self, name: &GroupResource) -> Option<Arc<Resource>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .by_name
            .get(name)
            .cloned()
    }

    pub fn by_id(&self, id: ResourceId) -> Option<Arc<Resource>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .by_id
            .get(&id)
            .cloned()
    }

    /// Returns the dictionary of a resource; the compiled-in one where it is not known.
    pub fn dictionary(&self, id: ResourceId) -> Arc<Dictionary> {
        let built_in = || Arc::clone(Dictionary::built_in());
        self.by_id(id)
            .map_or_else(built_in, |resource| resource.dictionary())
    }

    /// Returns all, by group and name.
    pub fn all(&self) -> Vec<Arc<Resource>> {
        let maps = self.0.read().unwrap_or_else(PoisonError::into_inner);
        maps.by_name.values().cloned().collect()
    }

    /// Adds `resource`, or notes that its number is now `id`.
    pub fn put(&self, id: ResourceId, resource: &Arc<Resource>) {
        let mut maps = self.0.write().unwrap_or_else(PoisonError::into_inner);
        maps.by_id.retain(|_, r| !Arc::ptr_eq(r, resource));
        maps.by_id.insert(id, Arc::clone(resource));
        maps.by_name
            .insert(resource.def().resource.clone(), Arc::clone(resource));
    }
}
