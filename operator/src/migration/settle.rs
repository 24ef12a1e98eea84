//! Step 4f: writes that reached etcd although the mirror had ended. None is expected.
//!
//! They are looked for once, or with `drainWindow` again and again until so much time is over since
//! the switch. Where the group is to go back, one look is enough: the way back compares both sides.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use crds::{
    control::{DigestSet, GateState, ImportItem, ImportMode, ImportType},
    v1alpha1::reasons,
};
use jiff::Timestamp;
use kube::runtime::events::EventType;
use serde_json::Value;
use tokio::time::Instant;

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
    plan,
    recover::batch,
    status::Phase,
    step::StepName,
    target::{ApiOwner, GroupTarget},
    wire::{Wire, WireError, collection, object},
};

/// How long a batch is tried.
const PATIENCE: Duration = Duration::from_mins(1);
/// Least pause between two looks.
const PAUSE: Duration = Duration::from_secs(5);
/// A pause is so many times as long as the look before it, so that looks stay a small load.
const RESTS: u32 = 4;

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

/// Until when stragglers are looked for; `None` for one look.
#[must_use]
pub fn until(o: &Observed, target: &GroupTarget) -> Option<Timestamp> {
    let window = target.settings.drain_window;
    let stays = target.owner == ApiOwner::Server && o.reverted.is_none();
    let since = o.notes.switched_at.filter(|_| stays && !window.is_zero())?;
    Some(plan::after(since, window))
}

/// The pause after a look that took so long and ended at `now`; `None` once the window is over: a
/// look that began in it may have missed what came at its end.
fn pause(until: Option<Timestamp>, begun: Timestamp, took: Duration) -> Option<Duration> {
    let until = until.filter(|until| begun < *until)?;
    let ended = plan::after(begun, took);
    let left = Duration::try_from(until.duration_since(ended)).unwrap_or_default();
    Some((took * RESTS).max(PAUSE).min(left))
}

/// Late writes that were found and stay as they are in etcd, so that each is told of once.
#[derive(Default)]
pub struct Told {
    switched_at: Option<Timestamp>,
    /// By name of the resource and key: the state in etcd, none for a deletion.
    known: HashMap<(String, Key), Option<(String, u64)>>,
}

impl Told {
    /// Forgets what belongs to another switch.
    fn begin(&mut self, switched_at: Option<Timestamp>) {
        if self.switched_at != switched_at {
            *self = Self {
                switched_at,
                known: HashMap::new(),
            };
        }
    }

    /// What has not been told of.
    fn news(&self, resource: &str, mut missed: Missed) -> Missed {
        let known = |one: &Identity| self.known.get(&(resource.to_owned(), one.key.clone()));
        missed.written.retain(|one| {
            let state = Some((one.uid.clone(), one.version));
            known(one) != Some(&state)
        });
        missed.kept.retain(|one| known(one) != Some(&None));
        missed
    }

    /// `dropped` of what was missed gave way to the server's own writes: the next look finds it again.
    fn tell(&mut self, resource: &str, missed: &Missed, dropped: &[Key]) {
        let key = |one: &Identity| (resource.to_owned(), one.key.clone());
        for one in missed
            .written
            .iter()
            .filter(|one| dropped.contains(&one.key))
        {
            self.known
                .insert(key(one), Some((one.uid.clone(), one.version)));
        }
        for one in &missed.kept {
            self.known.insert(key(one), None);
        }
    }
}

/// Looks for stragglers until the window is over, imports them, marks the group as settled and closes
/// the door. `told` knows what earlier looks have told of.
///
/// # Errors
/// See [`SettleError`]; carrying it out again is harmless.
pub async fn run(cx: &Cx, o: &Observed, told: &mut Told) -> Result<(), SettleError> {
    told.begin(o.notes.switched_at);
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
        let until = until(o, &cx.target);
        loop {
            let (begun, clock) = (Timestamp::now(), Instant::now());
            for (resource, _) in o.crds().filter(|(r, _)| !r.stored.status.settled) {
                one(cx, resource, wire, told).await?;
            }
            let Some(pause) = pause(until, begun, clock.elapsed()) else {
                break;
            };
            show(cx, until);
            tokio::time::sleep(pause).await;
        }
    }
    acts::set_gates(cx, &o.resources, GateState::Open, Some(true)).await?;
    if o.has_crds() {
        door_io::close(cx, o).await?;
    }
    Ok(())
}

/// Says that the group is served, and until when late writes are looked for.
fn show(cx: &Cx, until: Option<Timestamp>) {
    cx.show(StepName::SwitchSettle, Phase::Soaking);
    let Some(until) = until else { return };
    cx.report.update(|status| {
        status.goes_on();
        status.message =
            format!("served by the server; late writes to etcd are looked for until {until}");
    });
}

async fn one(cx: &Cx, resource: &Resource, wire: &Wire, told: &mut Told) -> Result<(), WireError> {
    let etcd = identities(cx, resource, wire).await?;
    let name = resource.name();
    let (imported, _) = cx.control.digest(name, DigestSet::Imported).await?;
    let (objects, _) = cx.control.digest(name, DigestSet::Objects).await?;
    let missed = diff::missed(&etcd, &diff::of_digest(imported), &diff::of_digest(objects));
    let missed = told.news(name, missed);
    if missed.is_empty() {
        return Ok(());
    }
    let dropped = import(cx, resource, wire, &missed).await?;
    told.tell(name, &missed, &dropped);
    Ok(())
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

/// Takes over what was missed; gives what gave way to the server's own writes.
async fn import(
    cx: &Cx,
    resource: &Resource,
    wire: &Wire,
    missed: &Missed,
) -> Result<Vec<Key>, WireError> {
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
    announce(cx, resource, missed, dropped.len());
    let named = drop_writes(cx, resource, &dropped);
    let found = missed.written.len() + missed.deleted.len() + missed.kept.len();
    cx.journal
        .note(|report| report.settle(found as u64, &named, dropped.len() as u64));
    Ok(dropped)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migration::plan::tests as states;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn switched(window: u64) -> (Observed, GroupTarget) {
        let mut o = Observed::default();
        o.notes.switched_at = Some(at(0));
        let mut target = states::target();
        target.settings.drain_window = Duration::from_secs(window);
        (o, target)
    }

    #[test]
    fn the_window_is_counted_from_the_switch_whoever_looks() {
        let (o, target) = switched(60);
        assert_eq!(until(&o, &target), Some(at(60)));
        let (o, target) = switched(0);
        assert_eq!(until(&o, &target), None);
    }

    #[test]
    fn a_group_that_is_to_go_back_does_not_wait_for_the_window() {
        let (o, mut target) = switched(60);
        target.owner = ApiOwner::Crd;
        assert_eq!(until(&o, &target), None);
        let (mut o, target) = switched(60);
        o.reverted = Some("the soak".to_owned());
        assert_eq!(until(&o, &target), None);
    }

    #[test]
    fn the_last_look_begins_after_the_window() {
        let seconds = Duration::from_secs;
        let window = Some(at(60));
        assert_eq!(pause(window, at(0), seconds(1)), Some(PAUSE));
        assert_eq!(pause(window, at(0), seconds(3)), Some(seconds(12)));
        assert_eq!(pause(window, at(56), seconds(2)), Some(seconds(2)));
        assert_eq!(pause(window, at(56), seconds(9)), Some(Duration::ZERO));
        assert_eq!(pause(window, at(60), seconds(1)), None);
        assert_eq!(pause(None, at(0), seconds(1)), None);
    }

    fn identity(name: &str, version: u64) -> Identity {
        Identity {
            key: Key {
                namespace: "n".to_owned(),
                name: name.to_owned(),
            },
            uid: "u".to_owned(),
            version,
        }
    }

    #[test]
    fn what_is_found_at_every_look_is_told_once_a_switch() {
        let missed = || Missed {
            written: vec![identity("taken over", 1), identity("dropped", 2)],
            deleted: vec![identity("gone", 3)],
            kept: vec![identity("kept", 4)],
        };
        let mut told = Told::default();
        told.begin(Some(at(0)));
        assert_eq!(told.news("r", missed()), missed());
        let dropped = [identity("dropped", 2).key, identity("kept", 4).key];
        told.tell("r", &missed(), &dropped);
        told.begin(Some(at(0)));
        let again = told.news("r", missed());
        assert_eq!(again.written, [identity("taken over", 1)]);
        assert_eq!((again.deleted.len(), again.kept.len()), (1, 0));
        assert_eq!(told.news("other", missed()), missed());
        // Written once more, it is news.
        let mut later = missed();
        later.written = vec![identity("dropped", 9)];
        assert_eq!(told.news("r", later.clone()).written, later.written);
        told.begin(Some(at(5)));
        assert_eq!(told.news("r", missed()), missed());
    }
}
