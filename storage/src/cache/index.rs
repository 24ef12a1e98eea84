//! Objects by the value of a label.

use std::sync::Arc;

use imbl::OrdSet;

use crate::model::{ObjectKey, StoredObject};

/// One indexed label of one object. Ordered by label, value, then object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// Position in [`Index::labels`].
    label: usize,
    value: Arc<str>,
    key: ObjectKey,
}

/// The objects that carry each value of the indexed labels. A clone shares its memory.
#[derive(Clone, Debug)]
pub(super) struct Index {
    labels: Arc<[String]>,
    entries: OrdSet<Entry>,
}

impl Index {
    pub fn new(labels: Arc<[String]>) -> Self {
        Self {
            labels,
            entries: OrdSet::new(),
        }
    }

    /// Updates the index after the object at `key` was `before` and is `after`.
    pub fn replace(&mut self, before: Option<&StoredObject>, after: Option<&StoredObject>) {
        for (label, name) in self.labels.iter().enumerate() {
            let entry = |object: &StoredObject| {
                let value = object.labels.get(name)?.into();
                Some(Entry {
                    label,
                    value,
                    key: object.key.clone(),
                })
            };
            let (old, new) = (before.and_then(entry), after.and_then(entry));
            if old == new {
                continue;
            }
            if let Some(old) = old {
                self.entries.remove(&old);
            }
            if let Some(new) = new {
                self.entries.insert(new);
            }
        }
    }

    /// Returns the keys of the objects in `namespace` (or in all) whose label `name` has `value`,
    /// in key order; `None` when the label is not indexed.
    pub fn find(
        &self,
        name: &str,
        value: &str,
        namespace: Option<&str>,
    ) -> Option<impl Iterator<Item = &ObjectKey>> {
        let label = self.labels.iter().position(|l| l == name)?;
        // The smallest key of the namespace is its prefix: a name is never empty.
        let key = ObjectKey::new(namespace.unwrap_or_default(), "");
        let value: Arc<str> = value.into();
        let from = Entry {
            label,
            value: Arc::clone(&value),
            key,
        };
        let namespace = namespace.map(str::to_owned);
        let found = self
            .entries
            .range(from..)
            .take_while(move |e| {
                e.label == label
                    && e.value == value
                    && namespace.as_ref().is_none_or(|ns| e.key.namespace() == ns)
            })
            .map(|e| &e.key);
        Some(found)
    }
}
