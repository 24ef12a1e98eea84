//! Fields that nobody owns.

use std::sync::LazyLock;

use crate::managed::Manager;
use crate::managed::Managers;
use crate::path::Path;
use crate::set::FieldSet;

static STRIPPED: LazyLock<FieldSet> = LazyLock::new(|| {
    let of_metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let of_object = ["apiVersion", "kind", "metadata"];
    of_object
        .iter()
        .map(|name| Path::of_fields(&[name]))
        .chain(
            of_metadata
                .iter()
                .map(|name| Path::of_fields(&["metadata", name])),
        )
        .collect()
});

/// Takes the fields that identify an object, or that the server sets, from the fields that
/// `manager` owns.
pub(super) fn strip(managers: &mut Managers, manager: &Manager) {
    if let Some(owned) = managers.get_mut(manager) {
        owned.set = owned.set.difference(&STRIPPED);
        if owned.set.is_empty() {
            managers.remove(manager);
        }
    }
}
