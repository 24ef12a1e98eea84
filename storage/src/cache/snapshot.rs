//! A resource's objects at one resourceVersion.

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use imbl::OrdMap;

use super::bodies::{Bodies, Generations};
use super::index::Index;
use super::{Event, EventType, Previous};
use crate::model::{ObjectKey, StoredObject};

/// The objects and the values derived from them. A clone shares its memory.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    objects: OrdMap<ObjectKey, Arc<StoredObject>>,
    index: Index,
    generations: Generations,
}

impl Contents {
    pub fn new(indexed_labels: Arc<[String]>) -> Self {
        Self {
            objects: OrdMap::new(),
            index: Index::new(indexed_labels),
            generations: Generations::default(),
        }
    }

    /// Puts `object` in place of the one with its key, and returns that.
    pub fn put(&mut self, object: Arc<StoredObject>) -> Option<Arc<StoredObject>> {
        let before = self.objects.get(&object.key).map(|o| &**o);
        self.generations.add(&object.body);
        if let Some(before) = before {
            self.generations.subtract(&before.body);
        }
        self.index.replace(before, Some(&object));
        self.objects.insert(object.key.clone(), object)
    }

    /// Removes the object at `key`, and returns it.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<Arc<StoredObject>> {
        let before = self.objects.remove(key)?;
        self.generations.subtract(&before.body);
        self.index.replace(Some(&before), None);
        Some(before)
    }

    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<StoredObject>> {
        self.objects.get(key)
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns the figures of all bodies.
    pub fn bodies(&self) -> Bodies {
        self.generations.all()
    }

    /// Returns the figures of the bodies that were compressed with one dictionary.
    pub fn bodies_of(&self, generation: u64) -> Bodies {
        self.generations.of(generation)
    }

    /// Puts `after` in place of `before`, unless another object has taken its place.
    pub fn exchange(&mut self, before: &Arc<StoredObject>, after: &Arc<StoredObject>) {
        let present = self.objects.get(&before.key);
        if present.is_some_and(|present| Arc::ptr_eq(present, before)) {
            self.put(Arc::clone(after));
        }
    }

    /// Takes `event` back; returns false when the state before it is not known.
    pub fn undo(&mut self, event: &Event) -> bool {
        match (event.type_, &event.previous) {
            (EventType::Added, _) | (EventType::Modified, Previous::None) => {
                self.remove(&event.object.key);
                true
            }
            (EventType::Modified | EventType::Deleted, Previous::Known(before)) => {
                self.put(Arc::clone(before));
                true
            }
            // A deletion of what was not there.
            (EventType::Deleted, Previous::None) => true,
            (_, Previous::Labels(_) | Previous::Unknown) => false,
        }
    }
}

/// A resource's objects at one resourceVersion: immutable, and cheap to hold and to clone.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The version at which the objects are; lists carry it.
    pub rv: u64,
    contents: Contents,
}

impl Snapshot {
    pub(super) fn new(rv: u64, contents: Contents) -> Self {
        Self { rv, contents }
    }

    /// Returns the object at `key`.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<StoredObject>> {
        self.contents.get(key)
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.contents.len()
    }

    /// Returns true when there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the objects of `namespace`, or of all, in key order; only those behind `after` if
    /// given, whether or not there is an object at `after`.
    pub fn range<'a>(
        &'a self,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
    ) -> impl Iterator<Item = &'a Arc<StoredObject>> + use<'a> {
        // All keys of a namespace lie between `namespace/` and `namespace0`: `0` follows `/`.
        let first = namespace.map(|ns| format!("{ns}/"));
        let end = namespace.map(|ns| format!("{ns}0"));
        let first = first.as_deref();
        let lower = match (first, after.map(ObjectKey::as_str)) {
            (Some(first), Some(after)) if after < first => Included(first),
            (_, Some(after)) => Excluded(after),
            (Some(first), None) => Included(first),
            (None, None) => Unbounded,
        };
        let upper = end.as_deref().map_or(Unbounded, Excluded);
        let nothing = match (lower, upper) {
            (Included(lower) | Excluded(lower), Excluded(upper)) => lower >= upper,
            _ => false,
        };
        let objects = (!nothing).then(|| self.contents.objects.range::<_, str>((lower, upper)));
        objects.into_iter().flatten().map(|(_, object)| object)
    }

    /// Returns the objects of `namespace`, or of all, whose label `name` equals `value`, in key
    /// order; `None` when that label is not indexed and the caller has to look at every object.
    #[must_use]
    pub fn by_label(
        &self,
        name: &str,
        value: &str,
        namespace: Option<&str>,
    ) -> Option<Vec<&Arc<StoredObject>>> {
        let keys = self.contents.index.find(name, value, namespace)?;
        Some(keys.filter_map(|key| self.contents.get(key)).collect())
    }

    /// Returns the namespaces that hold objects, in order of name, which differs from the order of
    /// keys.
    #[must_use]
    pub fn namespaces(&self) -> Vec<&str> {
        let mut namespaces = Vec::new();
        let mut next = self
            .contents
            .objects
            .range::<_, str>((Unbounded, Unbounded))
            .next();
        while let Some((key, _)) = next {
            let namespace = key.namespace();
            namespaces.push(namespace);
            // Cluster-scoped keys have no namespace to skip to the end of.
            if namespace.is_empty() {
                break;
            }
            let behind = format!("{namespace}0");
            next = self
                .contents
                .objects
                .range::<_, str>((Included(&*behind), Unbounded))
                .next();
        }
        namespaces.sort_unstable();
        namespaces
    }
}
