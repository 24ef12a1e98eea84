//! Step 6: deleting the copies in etcd.
//!
//! What is deleted is exactly what was imported and verified: each copy by its uid and
//! resourceVersion as preconditions, whatever became of the object at the server since. Anything
//! else in etcd is left and named.

use std::collections::{BTreeMap, HashSet};

use crds::control::{DigestItem, DigestSet, ImportItem, ImportMode, ImportType, MAX_IMPORT_ITEMS};
use futures::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    acts,
    control::retry,
    cx::Cx,
    diff::NAMED,
    door::VERSION,
    door_io,
    endpoints::{self, EndpointsError},
    observed::{Observed, Resource},
    pages::{Identity, Key, Pages, identity},
    recover::batch,
    settle, soak,
    status::Pruned,
    wire::{Wire, WireError, collection, object},
};
use crate::apiservice::PRUNED_AT;

/// Deletions under way at the same time.
const CONCURRENCY: usize = 16;
/// How long one request is tried.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);

/// Why pruning did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum PruneError {
    /// A request failed for good.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The kube-apiservers are not known.
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
    /// The group does badly; its copies in etcd are worth keeping.
    #[error("nothing is deleted from etcd while the API does badly: {0}")]
    Unhealthy(String),
}

/// What became of one copy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// Not in etcd any more.
    Gone,
    /// Left, because it is in another state than it was imported in.
    Left,
}

/// Deletes the copies of every resource of the group, then closes the door.
///
/// # Errors
/// See [`PruneError`]; carrying it out again goes on where it stopped.
pub async fn run(cx: &Cx, o: &Observed) -> Result<Pruned, PruneError> {
    soak::look(cx, o).await.map_err(PruneError::Unhealthy)?;
    let mut pruned = Pruned::default();
    let copies: u64 = o.resources.iter().map(|r| r.stored.status.imported).sum();
    if copies > 0 {
        let endpoints = endpoints::discover(&cx.deps.config).await?;
        if !o.door_open() {
            door_io::guard(cx).await?;
        }
        let token = o
            .notes
            .switched_at
            .map(|t| t.to_string())
            .unwrap_or_default();
        door_io::ensure_open(cx, o, &token).await?;
        door_io::await_open(cx, o, &endpoints.all, None).await?;
        let wire = endpoints.all.first().map_or(&cx.wire, |e| &e.wire);
        for (resource, _) in o.crds() {
            one(cx, resource, wire, &mut pruned).await?;
            cx.report
                .update(|status| status.pruned = Some(pruned.clone()));
        }
    }
    pruned.bytes = share(o.notes.etcd_bytes, pruned.objects, copies);
    let now = Timestamp::now().to_string();
    acts::annotate(cx, o, &BTreeMap::from([(PRUNED_AT.to_owned(), now)])).await?;
    door_io::close(cx, o).await?;
    cx.report
        .update(|status| status.pruned = Some(pruned.clone()));
    Ok(pruned)
}

/// The bytes that `objects` of `all` stand for.
fn share(bytes: u64, objects: u64, all: u64) -> u64 {
    if all == 0 {
        return 0;
    }
    let share = u128::from(bytes) * u128::from(objects.min(all)) / u128::from(all);
    u64::try_from(share).unwrap_or(u64::MAX)
}

async fn one(
    cx: &Cx,
    resource: &Resource,
    wire: &Wire,
    pruned: &mut Pruned,
) -> Result<(), WireError> {
    let (mut copies, _) = cx
        .control
        .digest(resource.name(), DigestSet::Imported)
        .await?;
    let pinned = pinned(cx, resource, wire).await?;
    copies.retain(|copy| {
        let key = Key {
            namespace: copy.namespace.clone(),
            name: copy.name.clone(),
        };
        !pinned.contains(&key)
    });
    for part in copies.chunks(cx.target.settings.page_size.max(1) as usize) {
        let deletions: Vec<_> = part
            .iter()
            .map(|copy| delete_paced(cx, resource, wire, copy).boxed())
            .collect();
        let outcomes: Vec<_> = stream::iter(deletions)
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        let mut gone = Vec::new();
        let mut failed = None;
        for outcome in outcomes {
            match outcome {
                Ok((copy, Outcome::Gone)) => gone.push(copy),
                Ok((_, Outcome::Left)) => {}
                Err(error) => failed = Some(error),
            }
        }
        forget(cx, resource, &gone).await?;
        pruned.objects += gone.len() as u64;
        cx.deps
            .metrics
            .pruned(&cx.target.group, resource.plural(), gone.len() as u64);
        cx.report
            .update(|status| status.pruned = Some(pruned.clone()));
        if let Some(error) = failed {
            return Err(error);
        }
    }
    left(cx, resource, wire, pruned).await
}

async fn delete_paced<'a>(
    cx: &Cx,
    resource: &Resource,
    wire: &Wire,
    copy: &'a DigestItem,
) -> Result<(&'a DigestItem, Outcome), WireError> {
    cx.pacer.turn().await;
    delete(cx, resource, wire, copy)
        .await
        .map(|outcome| (copy, outcome))
}

/// Copies with finalizers. A deletion would only mark them, and nobody would finish it.
async fn pinned(cx: &Cx, resource: &Resource, wire: &Wire) -> Result<HashSet<Key>, WireError> {
    let path = collection(&cx.target.group, VERSION, resource.plural());
    let mut pages = Pages::new(wire, path, cx.target.settings.page_size, true);
    let mut keys = HashSet::new();
    while let Some(page) = pages.next().await? {
        let held = page.items.iter().filter(|object| {
            let finalizers = object
                .pointer("/metadata/finalizers")
                .and_then(Value::as_array);
            finalizers.is_some_and(|f| !f.is_empty())
        });
        keys.extend(held.filter_map(identity).map(|i| i.key));
        cx.pacer.turn().await;
    }
    Ok(keys)
}

/// Deletes one copy as it was imported and in no other state.
async fn delete(
    cx: &Cx,
    resource: &Resource,
    wire: &Wire,
    copy: &DigestItem,
) -> Result<Outcome, WireError> {
    let (namespace, name) = (&copy.namespace, &copy.name);
    let path = object(
        &cx.target.group,
        VERSION,
        resource.plural(),
        namespace,
        name,
    );
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1",
        "propagationPolicy": "Background",
        "preconditions": {"uid": copy.uid, "resourceVersion": copy.resource_version}});
    match retry(PATIENCE, || acts::delete(wire, &path, &options)).await {
        Ok(()) => Ok(Outcome::Gone),
        Err(e) if e.code() == Some(404) => Ok(Outcome::Gone),
        Err(e) if e.code() == Some(409) => Ok(Outcome::Left),
        Err(e) => Err(e),
    }
}

/// Tells the server that copies are gone.
async fn forget(cx: &Cx, resource: &Resource, gone: &[&DigestItem]) -> Result<(), WireError> {
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
            let object = acts::metadata_only(cx, resource, VERSION, &known);
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

/// Names what is still in etcd: copies in another state or with finalizers, and objects that
/// were never imported.
async fn left(
    cx: &Cx,
    resource: &Resource,
    wire: &Wire,
    pruned: &mut Pruned,
) -> Result<(), WireError> {
    let rest = settle::identities(cx, resource, wire).await?;
    pruned.left += rest.len() as u64;
    let room = NAMED.saturating_sub(pruned.left_names.len());
    pruned.left_names.extend(rest.iter().take(room).map(|i| {
        format!(
            "{}/{} (it was not copied, has changed since, or has finalizers)",
            resource.plural(),
            i.key
        )
    }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn bytes_are_shared_out_without_overflow() {
        assert_eq!(share(1000, 10, 10), 1000);
        assert_eq!(share(1000, 5, 10), 500);
        assert_eq!(share(u64::MAX, 9, 10), u64::MAX / 10 * 9 + 4);
        assert_eq!(share(7, 3, 0), 0);
    }
}
