//! Step 4f: writes that reached etcd although the mirror had ended. None is expected.
//!
//! They are looked for once, or with `drainWindow` again and again until so much time is over since
//! the switch. Where the group has to go back, one look is enough: the way back compares both
//! sides.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use crds::control::{DigestSet, GateState, ImportMode, ImportType};
use crds::v1alpha1::reasons;
use crds::v1alpha1::status::MigrationPhase;
use jiff::Timestamp;
use kube::runtime::events::EventType;
use serde_json::Value;
use tokio::time::Instant;

use super::confirm::{ConfirmError, confirm};
use super::diff::{self, Missed, NAMED, Search};
use super::import;
use super::mirror::batch::Entry;
use super::orphans::find_copy;
use super::sender::Sender;
use super::writeback::is_copy;
use crate::migration::cluster::control::find;
use crate::migration::cluster::door;
use crate::migration::cluster::door::objects::VERSION;
use crate::migration::cluster::endpoints::{self, Endpoints, EndpointsError};
use crate::migration::cluster::pages::{Identity, Key, Pages, identity};
use crate::migration::cluster::wire::{Wire, WireError, collection};
use crate::migration::cluster::{marks, operations};
use crate::migration::context::Cx;
use crate::migration::observe::origin::{self, OriginError};
use crate::migration::observe::state::{Crd, Observed, Resource};
use crate::migration::plan::due;
use crate::migration::plan::step::StepName;
use crate::migration::report::journal;
use crate::migration::report::status::Dropped;

/// The time for which a batch is tried.
const PATIENCE: Duration = Duration::from_mins(1);
/// Least pause between two looks.
const PAUSE: Duration = Duration::from_secs(5);
/// The factor by which a pause is longer than the look before it, so that looks stay a small load.
const RESTS: u32 = 4;

/// The reason why stragglers could not be looked for.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// A request failed for good.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The kube-apiservers are not known.
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
    /// A kube-apiserver may still take writes to etcd.
    #[error(transparent)]
    Confirm(#[from] ConfirmError),
    /// It is not known whether etcd tells of deletions.
    #[error(transparent)]
    Origin(#[from] OriginError),
}

/// Returns the time of the next look after one that began at `begun` and took so long; `None` once
/// the window is over. A look that began in the window may have missed what came at its end.
fn next(until: Option<Timestamp>, begun: Timestamp, took: Duration) -> Option<Timestamp> {
    let until = until.filter(|until| begun < *until)?;
    let ended = due::after(begun, took);
    Some(due::after(ended, (took * RESTS).max(PAUSE)).min(until.max(ended)))
}

/// The facts about the late writes since a switch that this process knows.
#[derive(Default)]
pub struct Reported {
    /// The time from which a window is counted: of the switch, or of the newest return of an
    /// APIService.
    switched_at: Option<Timestamp>,
    /// The time of the next look; none before the first look, and when no other is due.
    next: Option<Timestamp>,
    /// Late writes that stay as they are in etcd, so that each is reported once. By name of the
    /// resource and key: the state in etcd, none for a deletion.
    known: HashMap<(String, Key), Option<(String, u64)>>,
}

impl Reported {
    /// Returns the time at which the next look is due, where one is; none for another switch.
    #[must_use]
    pub fn next(&self, switched_at: Option<Timestamp>) -> Option<Timestamp> {
        self.next.filter(|_| self.switched_at == switched_at)
    }

    /// Counts the window from `switched_at` on. What was reported before stays reported.
    fn begin(&mut self, switched_at: Option<Timestamp>) {
        if self.switched_at != switched_at {
            self.switched_at = switched_at;
            self.next = None;
        }
    }

    /// Returns the part that has not been reported, of all that was missed. Dropped writes that are no
    /// part of it are not in etcd any more, and are forgotten.
    fn news(&mut self, resource: &str, mut missed: Missed) -> Missed {
        let written = missed.written.iter();
        let written: HashMap<&Key, (&str, u64)> = written
            .map(|one| (&one.key, (one.uid.as_str(), one.version)))
            .collect();
        self.known.retain(|(of, key), state| {
            let Some((uid, version)) = state else {
                return true;
            };
            of != resource || written.get(key) == Some(&(uid.as_str(), *version))
        });
        let known = |one: &Identity| self.known.get(&(resource.to_owned(), one.key.clone()));
        missed.written.retain(|one| {
            let state = Some((one.uid.clone(), one.version));
            known(one) != Some(&state)
        });
        missed.deleted.retain(|one| known(one) != Some(&None));
        missed.kept.retain(|one| known(one) != Some(&None));
        missed
    }

    /// Notes that `dropped` of what was missed gave way to the server's own writes: the next look
    /// finds it again.
    fn note(&mut self, resource: &str, missed: &Missed, dropped: &[Key]) {
        let dropped: HashSet<&Key> = dropped.iter().collect();
        let gave_way = |one: &&Identity| dropped.contains(&one.key);
        let key = |one: &Identity| (resource.to_owned(), one.key.clone());
        // What is written again may be deleted again.
        for one in &missed.written {
            self.known.remove(&key(one));
        }
        let written = missed.written.iter().filter(gave_way);
        let written = written.map(|one| (key(one), Some((one.uid.clone(), one.version))));
        let deleted = missed.deleted.iter().filter(gave_way).chain(&missed.kept);
        self.known.extend(written);
        self.known.extend(deleted.map(|one| (key(one), None)));
    }

    /// Returns the writes to objects of this resource that gave way, as they are in etcd.
    fn dropped(&self, resource: &str) -> impl Iterator<Item = Identity> {
        let of = self.known.iter().filter(move |((r, _), _)| r == resource);
        of.filter_map(|((_, key), state)| {
            let (uid, version) = state.clone()?;
            Some(Identity {
                key: key.clone(),
                uid,
                version,
            })
        })
    }

    /// Forgets these writes: the server has marked them.
    fn forget_marked(&mut self, resource: &str) {
        self.known
            .retain(|(of, _), state| of != resource || state.is_none());
    }
}

/// Forgets what was dropped before a switch, which has late writes of its own.
pub fn forget_dropped(cx: &Cx) -> Reported {
    cx.report
        .update(|status| status.dropped = Dropped::default());
    Reported::default()
}

/// Looks for stragglers and imports them. When the window is over it marks the group as settled and
/// closes the door; before, `reported` knows the time of the next look, beside what was reported.
///
/// # Errors
/// See [`SettleError`]; carrying it out again is harmless.
pub async fn run(cx: &Cx, o: &Observed, reported: &mut Reported) -> Result<(), SettleError> {
    reported.begin(o.notes.switched_at);
    if o.has_crds() {
        let endpoints = endpoints::discover(&cx.deps).await?;
        look(cx, o, &endpoints, reported).await?;
        if reported.next.is_some() {
            return Ok(());
        }
    }
    // A group that is settled is not looked through again: what gave way is to be named by then,
    // also where the report could not be written a moment ago.
    cx.journal.note(|_| ());
    journal::save(cx).await;
    // From now on they are copies of what the server has made of these objects: where it has deleted
    // one, the way back deletes it in etcd as well.
    for (resource, _) in o.crds().filter(|(r, _)| !r.stored.status.settled) {
        let name = resource.name();
        marks::note(cx, resource, reported.dropped(name)).await?;
        reported.forget_marked(name);
    }
    operations::set_gates(cx, &o.resources, GateState::Open, Some(true)).await?;
    // Its guard goes also where the CRDs were deleted meanwhile.
    door::close(cx, o).await?;
    Ok(())
}

/// Looks once more after the first look of this process: the group is served, and a step has
/// reported it.
///
/// # Errors
/// As [`run`].
pub async fn again(cx: &Cx, o: &Observed, reported: &mut Reported) -> Result<(), SettleError> {
    cx.show(StepName::SwitchSettle, MigrationPhase::Soaking);
    let begun = Instant::now();
    run(cx, o, reported).await?;
    if reported.next.is_none() {
        cx.journal.end(StepName::SwitchSettle, begun.elapsed());
    }
    Ok(())
}

/// Looks once, through the side door.
async fn look(
    cx: &Cx,
    o: &Observed,
    endpoints: &Endpoints,
    reported: &mut Reported,
) -> Result<(), SettleError> {
    // One that has not heard of the APIService yet writes to etcd, perhaps after the look.
    confirm(cx, o, endpoints).await?;
    door::open_beside(cx, o, endpoints).await?;
    let wire = endpoints.all.first().map_or(&cx.wire, |e| &e.wire);
    let (begun, clock) = (Timestamp::now(), Instant::now());
    for of in o.crds().filter(|(r, _)| !r.stored.status.settled) {
        one(cx, of, wire, reported).await?;
    }
    reported.next = next(due::drained(o, &cx.target), begun, clock.elapsed());
    Ok(())
}

async fn one(
    cx: &Cx,
    (resource, crd): (&Resource, &Crd),
    wire: &Wire,
    reported: &mut Reported,
) -> Result<(), SettleError> {
    let name = resource.name();
    let turn = cx.pacer.comparison().await;
    let missed = search(cx, resource, wire).await?;
    drop(turn);
    let mut missed = reported.news(name, missed);
    if let Some(revision) = origin::taken_over_at(cx).await? {
        missed.written.retain(|one| one.version > revision);
    }
    let lacks = !missed.deleted.is_empty() || !missed.kept.is_empty();
    if lacks && !origin::tells_deletions(cx, name).await? {
        missed.deleted.clear();
        missed.kept.clear();
    }
    if missed.is_empty() {
        return Ok(());
    }
    let dropped = import(cx, (resource, crd), wire, &mut missed).await?;
    reported.note(name, &missed, &dropped);
    Ok(())
}

/// Returns what the mirror has missed.
async fn search(cx: &Cx, resource: &Resource, wire: &Wire) -> Result<Missed, WireError> {
    let mut search = Search::default();
    identities(cx, resource, wire, |one| search.etcd(one)).await?;
    let mut marks = cx
        .control
        .digest_pages(resource.name(), DigestSet::Imported);
    while let Some(page) = marks.next().await? {
        let etcds = page.into_iter().filter(|mark| !import::is_ours(mark));
        for (key, mark) in etcds.map(diff::of_digest) {
            search.mark(key, &mark);
        }
    }
    let mut objects = cx.control.digest_pages(resource.name(), DigestSet::Objects);
    while let Some(page) = objects.next().await? {
        for (key, object) in page.into_iter().map(diff::of_digest) {
            search.object(key, &object);
        }
    }
    Ok(search.end())
}

/// Passes every object in etcd on, read through the side door.
pub async fn identities(
    cx: &Cx,
    resource: &Resource,
    wire: &Wire,
    mut take: impl FnMut(Identity),
) -> Result<(), WireError> {
    let path = collection(&cx.target.group, VERSION, resource.plural());
    let mut pages = Pages::new(wire, path, cx.target.settings.page_size, true);
    while let Some(page) = pages.next().await? {
        for item in page.items {
            identity(&item.object()?).into_iter().for_each(&mut take);
        }
        cx.pacer.turn().await;
    }
    Ok(())
}

/// Takes over what was missed; returns the keys that gave way to the server's own writes. Copies of
/// what the server has are marked, and nothing that was missed.
async fn import(
    cx: &Cx,
    (resource, crd): (&Resource, &Crd),
    wire: &Wire,
    missed: &mut Missed,
) -> Result<Vec<Key>, WireError> {
    let mut sender = Sender::new(cx, resource, ImportMode::Straggler, STRAGGLERS_A_BATCH);
    let (mut copies, mut dropped) = (Vec::new(), Vec::new());
    for one in std::mem::take(&mut missed.written) {
        let key = &one.key;
        let path = operations::object_path(cx, resource, VERSION, key);
        let Some(etcd) = find_copy(PATIENCE, wire, &path, &key.name).await? else {
            continue;
        };
        let may_be_ours = missed.announced.contains(key) || missed.rewritten.contains(key);
        if may_be_ours && is_copy_of_ours(cx, (resource, crd), key, &etcd).await? {
            copies.push(one);
            continue;
        }
        if missed.announced.contains(key) {
            // The server may have deleted what the way back made: it must not return.
            dropped.push(key.clone());
        } else {
            sender
                .push(Entry::event(ImportType::Modified, &etcd))
                .await?;
        }
        missed.written.push(one);
    }
    marks::note(cx, resource, copies.into_iter()).await?;
    for one in &missed.deleted {
        let object = operations::metadata_only(cx, resource, VERSION, one);
        sender
            .push(Entry::event(ImportType::Deleted, &object))
            .await?;
    }
    let kept_out = sender.finish().await?.into_iter().map(|c| Key {
        namespace: c.namespace,
        name: c.name,
    });
    let kept = missed.kept.iter().map(|one| one.key.clone());
    dropped.extend(kept_out.chain(kept));
    if !missed.is_empty() {
        tell(cx, resource, missed, &dropped);
    }
    Ok(dropped)
}

/// Tells what was found, and which of it was dropped, in events, status and report.
fn tell(cx: &Cx, resource: &Resource, missed: &Missed, dropped: &[Key]) {
    announce(cx, resource, missed, dropped.len());
    let named: Vec<String> = dropped
        .iter()
        .map(|key| format!("{}/{key}", resource.plural()))
        .collect();
    drop_writes(cx, resource, &named);
    let found = missed.written.len() + missed.deleted.len() + missed.kept.len();
    cx.journal
        .note(|report| report.settle(found as u64, &named));
}

/// Returns whether an object in etcd has what the server says of it: the way back wrote it, and died
/// before it could tell.
async fn is_copy_of_ours(
    cx: &Cx,
    (resource, crd): (&Resource, &Crd),
    key: &Key,
    etcd: &Value,
) -> Result<bool, WireError> {
    let version = crd.read_version().unwrap_or_default();
    let path = operations::object_path(cx, resource, version, key);
    match find(PATIENCE, &cx.wire, &path).await? {
        Some(ours) if ours.is_ours() => Ok(is_copy(etcd, &ours.json()?)),
        _ => Ok(false),
    }
}

/// Names the objects whose writes to etcd give way to the server's own, in status and event.
fn drop_writes(cx: &Cx, resource: &Resource, dropped: &[String]) {
    if dropped.is_empty() {
        return;
    }
    // What is last may be cut off.
    let note = format!(
        "{}: {} late writes and deletions in etcd were dropped, because the server has changed the \
         same objects; write them again if they are still wanted (ConfigMap {} names them): {}",
        resource.name(),
        dropped.len(),
        journal::place(cx),
        dropped[..dropped.len().min(NAMED)].join(", ")
    );
    cx.report.update(|status| status.dropped.add(dropped));
    cx.event(EventType::Warning, reasons::WRITES_DROPPED, &note);
}

/// The number of stragglers in one request. They are whole objects, so few go into one.
const STRAGGLERS_A_BATCH: u32 = 20;

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

#[cfg(test)]
mod tests;
