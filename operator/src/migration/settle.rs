//! Step 4f: writes that reached etcd although the mirror had ended. None is expected.

use std::collections::BTreeMap;

use crds::{
    control::{DigestSet, GateState, ImportItem, ImportMode, ImportType},
    v1alpha1::reasons,
};
use kube::runtime::events::EventType;
use serde_json::Value;

use super::{
    acts,
    control::retry,
    cx::Cx,
    diff::{self, Missed, NAMED},
    door::VERSION,
    door_io,
    endpoints::{self, EndpointsError},
    observed::{Observed, Resource},
    pages::{Identity, Key, Pages, identity},
    recover::batch,
    wire::{Wire, WireError, collection, object},
};

/// How long a batch is tried.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);

/// Why stragglers could not be looked for.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// A request failed for good.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The kube-apiservers are not known.
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
}

/// Looks for stragglers, imports them, marks the group as settled and closes the door.
///
/// # Errors
/// See [`SettleError`]; carrying it out again is harmless.
pub async fn run(cx: &Cx, o: &Observed) -> Result<(), SettleError> {
    if o.has_crds() {
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
        for (resource, _) in o.crds().filter(|(r, _)| !r.stored.status.settled) {
            one(cx, resource, wire).await?;
        }
    }
    acts::set_gates(cx, &o.resources, GateState::Open, Some(true)).await?;
    if o.has_crds() {
        door_io::close(cx, o).await?;
    }
    Ok(())
}

async fn one(cx: &Cx, resource: &Resource, wire: &Wire) -> Result<(), WireError> {
    let etcd = identities(cx, resource, wire).await?;
    let name = resource.name();
    let (imported, _) = cx.control.digest(name, DigestSet::Imported).await?;
    let (objects, _) = cx.control.digest(name, DigestSet::Objects).await?;
    let missed = diff::missed(&etcd, &diff::of_digest(imported), &diff::of_digest(objects));
    if missed.is_empty() {
        return Ok(());
    }
    import(cx, resource, wire, missed).await
}

/// Every object in etcd, read through the side door.
pub async fn identities(
    cx: &Cx,
    resource: &Resource,
    wire: &Wire,
) -> Result<Vec<Identity>, WireError> {
    let path = collection(&cx.target.group, VERSION, resource.plural());
    let mut pages = Pages::new(wire, path, cx.target.settings.page_size, true);
    let mut all = Vec::new();
    while let Some(page) = pages.next().await? {
        all.extend(page.items.iter().filter_map(identity));
        cx.pacer.turn().await;
    }
    Ok(all)
}

async fn import(
    cx: &Cx,
    resource: &Resource,
    wire: &Wire,
    missed: Missed,
) -> Result<(), WireError> {
    let mut items = Vec::new();
    for one in &missed.written {
        let (namespace, name) = (&one.key.namespace, &one.key.name);
        let path = object(
            &cx.target.group,
            VERSION,
            resource.plural(),
            namespace,
            name,
        );
        match retry(PATIENCE, || wire.get(&path)).await {
            Ok(reply) => items.push(ImportItem {
                type_: ImportType::Modified,
                object: reply.json::<Value>()?,
            }),
            Err(e) if e.code() == Some(404) => {}
            Err(e) => return Err(e),
        }
    }
    for one in &missed.deleted {
        let object = acts::metadata_only(cx, resource, VERSION, one);
        items.push(ImportItem {
            type_: ImportType::Deleted,
            object,
        });
    }
    let mut kept_out = Vec::new();
    while !items.is_empty() {
        let rest = items.split_off(items.len().min(STRAGGLERS_A_BATCH));
        let one = batch(ImportMode::Straggler, items);
        let result = retry(PATIENCE, || cx.control.import(resource.name(), &one)).await?;
        kept_out.extend(result.conflicts);
        items = rest;
    }
    let kept_out = kept_out.into_iter().map(|c| Key {
        namespace: c.namespace,
        name: c.name,
    });
    let kept = missed.kept.iter().map(|one| one.key.clone());
    let dropped: Vec<Key> = kept_out.chain(kept).collect();
    announce(cx, resource, &missed, dropped.len());
    let named = drop_writes(cx, resource, &dropped);
    let found = missed.written.len() + missed.deleted.len() + missed.kept.len();
    cx.journal
        .note(|report| report.settle(found as u64, &named, dropped.len() as u64));
    Ok(())
}

/// Names writes to etcd that give way to the server's own, in status and event; gives the first.
fn drop_writes(cx: &Cx, resource: &Resource, dropped: &[Key]) -> Vec<String> {
    if dropped.is_empty() {
        return Vec::new();
    }
    let first = dropped.iter().take(NAMED);
    let first: Vec<String> = first
        .map(|key| format!("{}/{key}", resource.plural()))
        .collect();
    let note = format!(
        "{}: {} late writes and deletions in etcd were dropped, because the server has changed the \
         same objects: {}; write them again if they are still wanted",
        resource.name(),
        dropped.len(),
        first.join(", ")
    );
    cx.report.update(|status| {
        status.dropped.count += dropped.len() as u64;
        let room = NAMED.saturating_sub(status.dropped.names.len());
        status
            .dropped
            .names
            .extend(first.iter().take(room).cloned());
    });
    cx.event(EventType::Warning, reasons::WRITES_DROPPED, &note);
    first
}

/// Stragglers are whole objects, so few go into one request.
const STRAGGLERS_A_BATCH: usize = 20;

fn announce(cx: &Cx, resource: &Resource, missed: &Missed, kept_out: usize) {
    let written = missed.written.iter().map(|i| (&i.key, "written"));
    let deleted = missed.deleted.iter().map(|i| (&i.key, "deleted"));
    let kept = missed.kept.iter().map(|i| (&i.key, "deleted, stays"));
    let all: BTreeMap<_, _> = written.chain(deleted).chain(kept).collect();
    let named = diff::name_first(all.into_iter(), str::to_owned);
    let note = format!(
        "{}: {} late writes and {} late deletions in etcd were found, {kept_out} of them dropped: {}",
        resource.name(),
        missed.written.len(),
        missed.deleted.len() + missed.kept.len(),
        named.join(", ")
    );
    cx.event(EventType::Warning, reasons::STRAGGLER, &note);
}
