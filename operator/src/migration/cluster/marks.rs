//! Marks of imports: the copies in etcd that the server knows of.

use std::time::Duration;

use crds::control::{DigestItem, ImportItem, ImportMode, ImportType, MAX_IMPORT_ITEMS};
use serde_json::json;

use super::control::retry;
use super::door::objects::VERSION;
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
    let items = gone.iter().map(|copy| {
        let known = Identity {
            key: Key {
                namespace: copy.namespace.clone(),
                name: copy.name.clone(),
            },
            uid: copy.uid.clone(),
            version: copy.resource_version.parse().unwrap_or_default(),
        };
        item(cx, resource, version, &known)
    });
    send(cx, resource, ImportMode::Pruned, items.collect()).await
}

/// Has the server mark these copies in etcd, which it knows of by what they are copies of, or gave way
/// to it: they are its own to overwrite and to delete.
///
/// # Errors
/// See [`WireError`].
pub async fn note(
    cx: &Cx,
    resource: &Resource,
    copies: impl Iterator<Item = Identity>,
) -> Result<(), WireError> {
    let items = copies.map(|copy| item(cx, resource, VERSION, &copy));
    send(cx, resource, ImportMode::WrittenBack, items.collect()).await
}

/// Has the server mark copies that are about to be made in etcd.
///
/// # Errors
/// See [`WireError`].
pub async fn announce(
    cx: &Cx,
    resource: &Resource,
    keys: impl Iterator<Item = &Key>,
) -> Result<(), WireError> {
    let items = keys.map(|key| {
        let metadata = json!({"name": key.name, "namespace": key.namespace});
        ImportItem {
            type_: ImportType::Object,
            object: json!({"metadata": metadata}),
        }
    });
    send(cx, resource, ImportMode::WrittenBack, items.collect()).await
}

fn item(cx: &Cx, resource: &Resource, version: &str, copy: &Identity) -> ImportItem {
    ImportItem {
        type_: ImportType::Object,
        object: operations::metadata_only(cx, resource, version, copy),
    }
}

async fn send(
    cx: &Cx,
    resource: &Resource,
    mode: ImportMode,
    mut items: Vec<ImportItem>,
) -> Result<(), WireError> {
    while !items.is_empty() {
        let rest = items.split_off(items.len().min(MAX_IMPORT_ITEMS));
        let one = batch(mode, items);
        retry(PATIENCE, || cx.control.import(resource.name(), &one)).await?;
        items = rest;
    }
    Ok(())
}
