//! The objects that a predecessor holds of one resource, as far as its lists and watches have told.
//! Pure.
//!
//! Its resource versions cannot be compared: the counter of kyverno/reports-server begins anew with
//! each process, and every replica has its own. So a state is told from another by its content, an
//! older state of an object by its generation, and a deleted object by its uid. What a watch says
//! while a list is read is newer than what the list says.

use std::collections::{HashMap, HashSet};

use crds::control::{Checksum, ImportType, checksum};
use serde_json::Value;

use crate::migration::cluster::pages::Key;

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// uid.
    pub uid: String,
    /// `metadata.generation`, 0 without one.
    generation: i64,
    /// See [`checksum`].
    pub checksum: Checksum,
    /// The version that it has at our server; 0 while it is on its way there.
    pub version: u64,
}

/// A change that our server has to be told.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The object is in this state.
    State(Value),
    /// The object is gone.
    Gone {
        /// Namespace and name.
        key: Key,
        /// uid.
        uid: String,
    },
}

/// The table; see the module.
#[derive(Debug, Default)]
pub struct Table {
    objects: HashMap<Key, Held>,
    /// uids that were deleted since the list before this one began; a watch at another
    /// kube-apiserver may still tell of their last states.
    deleted: [HashSet<String>; 2],
    /// The list that is being read.
    list: Option<List>,
}

#[derive(Debug, Default)]
struct List {
    listed: HashSet<Key>,
    /// Keys that a watch has told of meanwhile.
    told: HashSet<Key>,
}

/// Returns the identity of an object: key and uid; `None` where a part is missing.
#[must_use]
pub fn identify(object: &Value) -> Option<(Key, String)> {
    let text = |field: &str| object["metadata"][field].as_str().filter(|t| !t.is_empty());
    let key = Key {
        namespace: text("namespace").unwrap_or_default().to_owned(),
        name: text("name")?.to_owned(),
    };
    Some((key, text("uid")?.to_owned()))
}

impl Table {
    /// Returns the objects.
    #[must_use]
    pub fn objects(&self) -> &HashMap<Key, Held> {
        &self.objects
    }

    /// Notes the version under which our server knows a state.
    pub fn imported(&mut self, key: &Key, version: u64) {
        if let Some(held) = self.objects.get_mut(key) {
            held.version = version;
        }
    }

    /// Takes an event of a watch. Events without name or uid are passed over.
    pub fn event(&mut self, type_: ImportType, object: Value) -> Option<Change> {
        let (key, uid) = identify(&object)?;
        if let Some(list) = &mut self.list {
            list.told.insert(key.clone());
        }
        if type_ == ImportType::Deleted {
            return self.remove(key, uid);
        }
        self.state(key, uid, object)
    }

    fn remove(&mut self, key: Key, uid: String) -> Option<Change> {
        let known = self.objects.get(&key).is_some_and(|held| held.uid == uid);
        self.deleted[0].insert(uid.clone());
        if !known {
            return None;
        }
        self.objects.remove(&key);
        Some(Change::Gone { key, uid })
    }

    fn state(&mut self, key: Key, uid: String, object: Value) -> Option<Change> {
        if self.deleted.iter().any(|uids| uids.contains(&uid)) {
            return None;
        }
        let generation = object["metadata"]["generation"]
            .as_i64()
            .unwrap_or_default();
        let checksum = checksum(&object);
        if let Some(held) = self.objects.get(&key)
            && held.uid == uid
            && (held.checksum == checksum || held.generation > generation)
        {
            return None;
        }
        let held = Held {
            uid,
            generation,
            checksum,
            version: 0,
        };
        self.objects.insert(key, held);
        Some(Change::State(object))
    }

    /// Begins to read a list.
    pub fn begin_list(&mut self) {
        self.list = Some(List::default());
        self.deleted.swap(0, 1);
        self.deleted[0].clear();
    }

    /// Takes an object of the list. One without name or uid is passed over.
    pub fn listed(&mut self, object: Value) -> Option<Change> {
        let (key, uid) = identify(&object)?;
        let list = self.list.as_mut()?;
        list.listed.insert(key.clone());
        if list.told.contains(&key) {
            return None;
        }
        self.state(key, uid, object)
    }

    /// Ends a list that was read to its end: what it did not have is gone.
    pub fn end_list(&mut self) -> Vec<Change> {
        let Some(list) = self.list.take() else {
            return Vec::new();
        };
        let absent = |key: &Key| !list.listed.contains(key) && !list.told.contains(key);
        let gone: Vec<(Key, String)> = self
            .objects
            .iter()
            .filter(|(key, _)| absent(key))
            .map(|(key, held)| (key.clone(), held.uid.clone()))
            .collect();
        let removed = gone.into_iter().map(|(key, uid)| self.remove(key, uid));
        removed.flatten().collect()
    }

    /// Gives up a list that is not read to its end.
    pub fn give_up_list(&mut self) {
        self.list = None;
    }
}

#[cfg(test)]
mod tests;
