//! Step 6: deleting the copies in etcd.
//!
//! What is deleted is exactly what was imported and verified: each copy by its uid and
//! resourceVersion as preconditions, whatever became of the object at the server since. Anything
//! else in etcd is left and named.

use std::collections::{BTreeMap, HashSet};

use crds::control::{DigestItem, DigestSet};
use futures::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::diff::NAMED;
use super::orphans::{self, Orphan, is_namespace_gone, is_object_gone};
use super::{settle, soak};
use crate::apiservice::PRUNED_AT;
use crate::migration::cluster::control::retry;
use crate::migration::cluster::door;
use crate::migration::cluster::door::objects::VERSION;
use crate::migration::cluster::endpoints::{self, EndpointsError};
use crate::migration::cluster::pages::{Identity, Key, Pages, identity};
use crate::migration::cluster::throttle::Throttle;
use crate::migration::cluster::wire::{Wire, WireError, collection};
use crate::migration::cluster::{marks, operations};
use crate::migration::context::Cx;
use crate::migration::observe::origin::{self, OriginError};
use crate::migration::observe::state::{Observed, Resource};
use crate::migration::report::status::{Counted, Pruned};
use crate::migration::report::{Left, journal};

/// The time for which one request is tried.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);

/// The reason why pruning did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum PruneError {
    /// A request failed for good.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The kube-apiservers are not known.
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
    /// It cannot be noted that etcd has no copies any more.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// The API is unhealthy; its copies in etcd are worth keeping.
    #[error("nothing is deleted from etcd while the API is unhealthy: {0}")]
    Unhealthy(String),
}

/// The outcome for one copy.
#[derive(Clone, Debug)]
enum Outcome {
    /// The copy is not in etcd any more.
    Gone,
    /// The copy is left, because it is in another state than it was imported in.
    Left,
    /// The copy is still there, in a namespace that is gone.
    Orphaned(Orphan),
}

/// Deletes the copies of every resource of the group.
///
/// # Errors
/// See [`PruneError`]; carrying it out again goes on where it stopped.
pub async fn run(cx: &Cx, o: &Observed) -> Result<Pruned, PruneError> {
    soak::look(cx, o).await.map_err(PruneError::Unhealthy)?;
    let mut pruned = Pruned::default();
    let copies: u64 = o.resources.iter().map(|r| r.stored.status.imported).sum();
    if copies > 0 {
        // Written before the first deletion, so that a prune that is killed is counted whole.
        cx.journal.note(|report| report.prune_begins(copies));
        journal::save(cx).await;
        origin::note_pruning(cx).await?;
        let endpoints = endpoints::discover(&cx.deps).await?;
        door::open_beside(cx, o, &endpoints).await?;
        let wire = endpoints.all.first().map_or(&cx.wire, |e| &e.wire);
        let mut progress = Progress {
            remaining: copies,
            left: Left::default(),
            pruned: &mut pruned,
        };
        for (resource, _) in o.crds() {
            one(cx, resource, wire, &mut progress).await?;
        }
        let left = progress.left;
        cx.journal
            .note(|report| report.prune_ends(left, &pruned.left_names));
    }
    let all = cx.journal.note(|report| report.counts.to_prune);
    pruned.bytes = share(o.notes.etcd_bytes, pruned.objects, all.unwrap_or_default());
    cx.report
        .update(|status| status.pruned = Some(pruned.clone()));
    Ok(pruned)
}

/// Writes down that the copies are deleted; it comes after everything that is reported of the
/// prune. The door is closed by a step of its own, which is not given up half-way.
///
/// # Errors
/// If it cannot be written; carrying it out again is harmless.
pub async fn mark(cx: &Cx, o: &Observed) -> Result<(), PruneError> {
    let now = Timestamp::now().to_string();
    operations::annotate(cx, o, &BTreeMap::from([(PRUNED_AT.to_owned(), now)])).await?;
    // Last, because it decides.
    origin::note_pruned(cx).await?;
    Ok(())
}

/// The progress of a prune.
struct Progress<'a> {
    /// Copies that the server still knows of.
    remaining: u64,
    /// The objects left in etcd of the resources that are done.
    left: Left,
    /// The outcome for the status.
    pruned: &'a mut Pruned,
}

impl Progress<'_> {
    /// Notes that so many more are gone.
    fn gone(&mut self, cx: &Cx, resource: &Resource, count: u64) {
        self.remaining = self.remaining.saturating_sub(count);
        let remaining = self.remaining;
        self.pruned.objects = cx.journal.note(|report| report.prune_goes_on(remaining));
        cx.deps
            .metrics
            .pruned(&cx.target.group, resource.plural(), count);
        self.show(cx, count);
    }

    /// Shows the progress; `gone` copies were just deleted.
    fn show(&self, cx: &Cx, gone: u64) {
        let (pruned, remaining) = (self.pruned.clone(), self.remaining);
        cx.report.update(|status| {
            if gone > 0 {
                status.goes_on();
            }
            status.progress = Some(Counted {
                done: pruned.objects,
                total: pruned.objects + remaining,
            });
            status.pruned = Some(pruned);
        });
    }
}

/// Returns the bytes that `objects` of `all` stand for.
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
    progress: &mut Progress<'_>,
) -> Result<(), WireError> {
    let pinned = pinned(cx, resource, wire).await?;
    progress.show(cx, 0);
    let throttle = Throttle::new(cx.target.settings.concurrency);
    let mut left = HashSet::new();
    let mut pages = cx
        .control
        .digest_pages(resource.name(), DigestSet::Imported);
    while let Some(mut copies) = pages.next().await? {
        copies.retain(|copy| !pinned.contains(&key_of(copy)));
        for part in copies.chunks(cx.target.settings.page_size.max(1) as usize) {
            left.extend(delete_all(cx, resource, (wire, &throttle), part, progress).await?);
        }
    }
    let mut rest = Vec::new();
    settle::identities(cx, resource, wire, |one| rest.push(one)).await?;
    name_left(resource, &rest, &pinned, &left, progress);
    progress.show(cx, 0);
    Ok(())
}

/// Deletes copies, several at a time, and has the server forget their marks; returns the keys of
/// those that are left.
async fn delete_all(
    cx: &Cx,
    resource: &Resource,
    (wire, throttle): (&Wire, &Throttle),
    part: &[DigestItem],
    progress: &mut Progress<'_>,
) -> Result<Vec<Key>, WireError> {
    let deletions: Vec<_> = part
        .iter()
        .map(|copy| delete_paced(cx, resource, (wire, throttle), copy).boxed())
        .collect();
    let outcomes: Vec<_> = stream::iter(deletions)
        .buffer_unordered(cx.target.settings.concurrency.max(1) as usize)
        .collect()
        .await;
    let (mut gone, mut left, mut orphans) = (Vec::new(), Vec::new(), Vec::new());
    let mut failed = None;
    for outcome in outcomes {
        match outcome {
            Ok((copy, Outcome::Gone)) => gone.push(copy),
            Ok((copy, Outcome::Left)) => left.push(key_of(copy)),
            Ok((copy, Outcome::Orphaned(orphan))) => orphans.push((copy, orphan)),
            Err(error) => failed = Some(error),
        }
    }
    let (copies, orphans): (Vec<_>, Vec<_>) = orphans.into_iter().unzip();
    // Also where that fails, what is gone is forgotten.
    let deleted = orphans::delete(cx, wire, orphans).await;
    let of_orphans: HashSet<&Key> = deleted.iter().flatten().collect();
    for copy in copies {
        let key = key_of(copy);
        if of_orphans.contains(&key) {
            gone.push(copy);
        } else {
            left.push(key);
        }
    }
    cx.deps
        .metrics
        .prune_concurrency(&cx.target.group, throttle.limit());
    marks::forget(cx, resource, VERSION, &gone).await?;
    progress.gone(cx, resource, gone.len() as u64);
    deleted?;
    failed.map_or(Ok(left), Err)
}

fn key_of(copy: &DigestItem) -> Key {
    Key {
        namespace: copy.namespace.clone(),
        name: copy.name.clone(),
    }
}

async fn delete_paced<'a>(
    cx: &Cx,
    resource: &Resource,
    (wire, throttle): (&Wire, &Throttle),
    copy: &'a DigestItem,
) -> Result<(&'a DigestItem, Outcome), WireError> {
    cx.pacer.turn().await;
    delete(cx, resource, (wire, throttle), copy)
        .await
        .map(|outcome| (copy, outcome))
}

/// Returns copies with finalizers. A deletion would only mark them, and nobody would finish it.
async fn pinned(cx: &Cx, resource: &Resource, wire: &Wire) -> Result<HashSet<Key>, WireError> {
    let path = collection(&cx.target.group, VERSION, resource.plural());
    let mut pages = Pages::new(wire, path, cx.target.settings.page_size, true);
    let mut keys = HashSet::new();
    while let Some(page) = pages.next().await? {
        for item in page.items {
            let object = item.object()?;
            let finalizers = object
                .pointer("/metadata/finalizers")
                .and_then(Value::as_array);
            if finalizers.is_some_and(|f| !f.is_empty()) {
                keys.extend(identity(&object).map(|i| i.key));
            }
        }
        cx.pacer.turn().await;
    }
    Ok(keys)
}

/// Deletes one copy as it was imported and in no other state.
async fn delete(
    cx: &Cx,
    resource: &Resource,
    (wire, throttle): (&Wire, &Throttle),
    copy: &DigestItem,
) -> Result<Outcome, WireError> {
    let path = operations::object_path(cx, resource, VERSION, &key_of(copy));
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1",
        "propagationPolicy": "Background",
        "preconditions": {"uid": copy.uid, "resourceVersion": copy.resource_version}});
    let call = || throttle.through(operations::delete(wire, &path, &options));
    match retry(PATIENCE, call).await {
        Ok(()) => Ok(Outcome::Gone),
        Err(e) if is_namespace_gone(&e) => Ok(Outcome::Orphaned(Orphan {
            key: key_of(copy),
            path,
            options,
        })),
        Err(e) if is_object_gone(&e, &copy.name) => Ok(Outcome::Gone),
        Err(e) if e.code() == Some(409) => Ok(Outcome::Left),
        Err(e) => Err(e),
    }
}

/// Names what is still in etcd, with the reasons: `pinned` have finalizers, `changed` were copied and could not
/// be deleted.
fn name_left(
    resource: &Resource,
    rest: &[Identity],
    pinned: &HashSet<Key>,
    changed: &HashSet<Key>,
    progress: &mut Progress<'_>,
) {
    for one in rest {
        let (count, why) = if pinned.contains(&one.key) {
            (&mut progress.left.finalizers, "it has finalizers")
        } else if changed.contains(&one.key) {
            (
                &mut progress.left.changed,
                "it has changed since it was copied",
            )
        } else {
            (&mut progress.left.not_copied, "it was never copied")
        };
        *count += 1;
        if progress.pruned.left_names.len() < NAMED {
            let name = format!("{}/{} ({why})", resource.plural(), one.key);
            progress.pruned.left_names.push(name);
        }
    }
    progress.pruned.left += rest.len() as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str) -> Identity {
        Identity {
            key: key(name),
            ..Identity::default()
        }
    }

    fn key(name: &str) -> Key {
        Key {
            namespace: "n".to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn what_is_left_is_counted_by_its_reason_and_the_first_are_named() {
        let mut pruned = Pruned::default();
        let mut progress = Progress {
            remaining: 0,
            left: Left::default(),
            pruned: &mut pruned,
        };
        let stored = crds::control::StoredResource {
            api_version: String::new(),
            kind: String::new(),
            metadata: kube::api::ObjectMeta::default(),
            status: crds::control::StoredResourceStatus {
                resource: "reports".to_owned(),
                ..crds::control::StoredResourceStatus::default()
            },
        };
        let resource = Resource { stored, crd: None };
        let rest: Vec<Identity> = ["pinned", "changed", "new"].map(identity).into();
        let pinned = HashSet::from([key("pinned")]);
        let known = HashSet::from([key("pinned"), key("changed")]);
        name_left(&resource, &rest, &pinned, &known, &mut progress);
        let many: Vec<Identity> = (0..50).map(|n| identity(&format!("x{n}"))).collect();
        name_left(&resource, &many, &pinned, &known, &mut progress);
        assert_eq!(
            progress.left,
            Left {
                finalizers: 1,
                changed: 1,
                not_copied: 51
            }
        );
        assert_eq!((pruned.left, pruned.left_names.len()), (53, NAMED));
        assert_eq!(
            pruned.left_names[..2],
            [
                "reports/n/pinned (it has finalizers)",
                "reports/n/changed (it has changed since it was copied)"
            ]
        );
    }

    #[test]
    fn bytes_are_shared_out_without_overflow() {
        assert_eq!(share(1000, 10, 10), 1000);
        assert_eq!(share(1000, 5, 10), 500);
        assert_eq!(share(u64::MAX, 9, 10), u64::MAX / 10 * 9 + 4);
        assert_eq!(share(7, 3, 0), 0);
    }
}
