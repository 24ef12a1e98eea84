//! An upper bound of entries.

use std::collections::BTreeMap;

use super::{MAX_UPDATE_MANAGERS, Managed, Manager};

/// The name of the entries that old ones are merged into.
const BUCKET: &str = "ancient-changes";

impl Managed {
    /// Merges the oldest entries of writes other than apply, those of one version into one, until
    /// there are no more than [`MAX_UPDATE_MANAGERS`].
    pub(crate) fn cap(&mut self) {
        let mut updaters: Vec<Manager> = self
            .managers
            .iter()
            .filter(|(_, owned)| !owned.applied)
            .map(|(manager, _)| manager.clone())
            .collect();
        let mut left = updaters.len();
        // They are in the order of their identifiers, which decides between equal times.
        updaters.sort_by_key(|manager| self.seconds(manager));
        let mut first_of_version: BTreeMap<String, Manager> = BTreeMap::new();
        for manager in updaters {
            if left <= MAX_UPDATE_MANAGERS {
                return;
            }
            let Some(owned) = self.managers.get(&manager) else {
                continue;
            };
            let version = owned.api_version.clone();
            match first_of_version.get(&version) {
                Some(first) => {
                    let bucket = Manager::update(BUCKET, version, "");
                    self.merge(&first.clone(), &manager, bucket);
                    left -= 1;
                }
                None => {
                    first_of_version.insert(version, manager);
                }
            }
        }
    }

    /// Merges the entry of `manager` into `bucket`, which is made from that of `first` if there is
    /// none. The time is that of the younger one.
    fn merge(&mut self, first: &Manager, manager: &Manager, bucket: Manager) {
        let Some(mut merged) = self.managers.remove(manager) else {
            return;
        };
        let before = match self.managers.remove(&bucket) {
            Some(before) => Some(before),
            None => self.managers.remove(first),
        };
        if let Some(before) = before {
            merged.set = merged.set.union(&before.set);
        }
        self.managers.insert(bucket.clone(), merged);
        match self.times.get(manager) {
            Some(time) => self.times.insert(bucket, *time),
            None => self.times.remove(&bucket),
        };
    }
}
