//! Marks of imports: the copies in etcd that the server knows of.

use std::time::Duration;

use crds::control::{DigestItem, ImportItem, ImportMode, ImportType, MAX_IMPORT_ITEMS};

use super::control::retry;
use super::operations;
use super::pages::{Identity, Key};
use super::wire::WireError;
use crate::migration::context::Cx;
use crate::migration::observe::state::Resource;
use crate::migration::steps::recover::batch;

/// The time for which one request is tried.
const PATIENCE: Duration = Duration::from_mins(1);

/// Has the server forget the marks of imports, whose objects have this `version` of the API: the
/// copies are gone, or never were.
///
/// # Errors
/// See [`WireError`].
pub async fn forget(
    cx: &Cx,
    resource: &Resource,
    version: &str,
    gone: &[&DigestItem],
) -> Result<(), WireError> {
    for part in gone.chunks(MAX_IMPORT_ITEMS) {
        let items = part.iter().map(|copy| {
            let known = Identity {
                key: Key {
                    namespace: copy.namespace.clone(),
                    name: copy.name.clone(),
                },
                uid: copy.uid.clone(),
                version: copy.resource_version.parse().unwrap_or_default(),
            };
            let object = operations::metadata_only(cx, resource, version, &known);
            ImportItem {
                type_: ImportType::Object,
                object,
            }
        });
        let one = batch(ImportMode::Pruned, items.collect());
        retry(PATIENCE, || cx.control.import(resource.name(), &one)).await?;
    }
    Ok(())
}
