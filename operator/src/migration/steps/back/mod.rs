//! The way back: etcd gets what we hold, then the CRDs get their APIs back.
//!
//! A client that goes over holds a version of ours and resumes its watch with it at the CRD. There
//! it must find neither what it has seen already nor a 410, and nothing that it has not seen may be
//! hidden from it. So three things are kept, whatever else goes on in etcd (`docs/migration.md`):
//!
//! - The caches of the CRD begin above every version that was given to clients before the *jump*:
//!   a client that has not come along by then is told 410, and never sees an old state.
//! - At the jump our counter is raised above all that is written back of what was before it, and a
//!   bookmark tells every watcher.
//! - What comes behind the jump is written while requests are held, each object once, at revisions
//!   above all versions that were given meanwhile. The watches end with a bookmark above those.
//!
//! Most is written while the server serves, so the hold is as long as the little that is left.

mod confirm;
mod error;
mod hold;
mod jump;
mod writers;

use std::time::{Duration, Instant as Clock};

use crds::control::{GateSpec, GateState};
use jiff::Timestamp;
use tokio::time::Instant;

use self::confirm::confirm;
pub use self::error::BackError;
use self::writers::check;
use super::writeback::{Account, Writer};
use crate::migration::cluster::door::{self, Opened};
use crate::migration::cluster::endpoints::{self, Endpoints, INDIRECT_CONNECTIONS};
use crate::migration::cluster::{behind, operations, revisions};
use crate::migration::context::Cx;
use crate::migration::observe::origin;
use crate::migration::observe::state::{Observed, Resource};
use crate::migration::plan::step::StepName;
use crate::migration::report::status::Counted;

/// The distance of etcd's revision above our counter when the CRD's caches begin anew, at first:
/// what clients write until the jump has to fit in between.
const ROOM: u64 = 500;
/// The time that is allowed for the server's changes to become known.
const FOLLOW: Duration = Duration::from_secs(10);
/// Least time that the caches of the public versions get beyond that of the door.
const CACHES: Duration = Duration::from_secs(1);

/// One way back under way.
struct Back<'a> {
    cx: &'a Cx,
    o: &'a Observed,
    endpoints: &'a Endpoints,
    /// Name of the `ConfigMap`s that raise etcd's revision.
    revisions: String,
}

/// Gives the group back.
///
/// # Errors
/// See [`BackError`]; carrying it out again goes on.
pub async fn run(cx: &Cx, o: &Observed) -> Result<(), BackError> {
    let endpoints = endpoints::discover(&cx.deps).await?;
    let _return = cx.deps.hold_lock.begin_return();
    let back = Back {
        cx,
        o,
        endpoints: &endpoints,
        revisions: format!("reports-server-operator-revisions-{}", cx.target.group),
    };
    // What clients write to the CRD before its time would be overwritten.
    let written = tokio::select! {
        written = back.write() => written?,
        () = operations::taken_away(cx, o) => return Err(BackError::TakenAway),
    };
    let (turn, held) = written;
    release(cx, o, &endpoints).await?;
    let took = held.elapsed();
    for resource in &o.resources {
        cx.deps
            .metrics
            .held(&cx.target.group, resource.plural(), took);
    }
    drop(turn);
    let wire = endpoints.all.first().map_or(&cx.wire, |e| &e.wire);
    revisions::tidy(wire, (&cx.deps.namespace, &back.revisions)).await?;
    Ok(())
}

/// Does the last step, from the moment on at which etcd has everything: the APIServices are
/// deleted, the CRDs answer everywhere, and our gates are closed. The watches on our server go on at
/// the CRDs then, or end.
///
/// # Errors
/// See [`BackError`]; carrying it out again goes on.
pub async fn release(cx: &Cx, o: &Observed, endpoints: &Endpoints) -> Result<(), BackError> {
    cx.step(StepName::BackRelease, async {
        // Whoever went this way before may have died between two gates.
        let held = o.resources.iter().filter(|r| r.gate() == GateState::Held);
        if held.clone().any(|r| !r.stored.status.released) {
            release_gates(cx, o, endpoints).await?;
        }
        operations::release(cx, o).await?;
        confirm(cx, o, endpoints).await
    })
    .await?;
    let closed = operations::set_gates(cx, &o.resources, GateState::Closed, None);
    cx.step(StepName::BackClose, closed).await?;
    Ok(())
}

/// Marks every held gate: etcd has everything.
async fn release_gates(cx: &Cx, o: &Observed, endpoints: &Endpoints) -> Result<(), BackError> {
    let released = GateSpec {
        state: GateState::Held,
        released: Some(true),
        resource_version: Some(revisions::newest(endpoints).await?.to_string()),
        ..GateSpec::default()
    };
    let open = o.resources.iter().filter(|r| r.gate() != GateState::Closed);
    operations::move_gates(cx, open, &released).await?;
    Ok(())
}

/// The doors as we have opened them.
struct Doors {
    /// Etcd's revision at which the first of them was opened: all caches begin above it.
    caches: u64,
    opened: Vec<Opened>,
    /// The number of times that the watches on the server were cut until the jump.
    resumed: u32,
}

impl<'a> Back<'a> {
    /// Brings etcd up to the server, until it has everything and requests are held. Returns the
    /// turn that keeps other groups still, and the time since which requests are held.
    async fn write(&self) -> Result<(impl Sized + use<'a>, Clock), BackError> {
        let cx = self.cx;
        let mut doors = cx
            .step(StepName::BackOpenDoor, self.open_door(ROOM))
            .await?;
        origin::note_written_back(cx, self.o).await?;
        let mut writers = cx.step(StepName::BackWrite, self.compare()).await?;
        let turn = cx.hold_turn().await;
        cx.step(StepName::BackBurn, self.jump(&mut writers, &mut doors))
            .await?;
        let held = Clock::now();
        cx.step(StepName::BackHold, self.hold(&mut writers, &doors))
            .await?;
        Ok((turn, held))
    }

    /// Opens the door of each CRD anew, `room` above our counter, and waits until it answers
    /// everywhere.
    async fn open_door(&self, room: u64) -> Result<Doors, BackError> {
        let (cx, o) = (self.cx, self.o);
        door::guard(cx).await?;
        self.raise_revision(self.counter().await? + room).await?;
        let token = format!("the way back at {}", Timestamp::now());
        let begun = Instant::now();
        let opened = door::open(cx, o, &token).await?;
        cx.report.update(|status| {
            "waiting until the kube-apiservers have filled their caches of the CRDs"
                .clone_into(&mut status.message);
        });
        self.await_cached(&token).await?;
        // Each version has a cache of its own. That of the door answers; those of the public ones
        // cannot be asked while our server is in charge, and are given as long again.
        tokio::time::sleep(begun.elapsed().max(CACHES)).await;
        let caches = opened.iter().map(|crd| crd.revision).min();
        Ok(Doors {
            caches: caches.unwrap_or_default(),
            opened,
            resumed: 0,
        })
    }

    /// Waits until the doors that were opened for `token` answer from their caches everywhere. A
    /// kube-apiserver fills them when it is first asked: behind one address, further connections
    /// reach those that the first have not reached, or else clients would get 410 there.
    async fn await_cached(&self, token: &str) -> Result<(), BackError> {
        let (cx, o) = (self.cx, self.o);
        door::await_cached(cx, o, &self.endpoints.all, token).await?;
        if self.endpoints.direct {
            return Ok(());
        }
        let wanted = behind::connections(self.endpoints.alive);
        for _ in 1..wanted.div_ceil(INDIRECT_CONNECTIONS) {
            let others = endpoints::indirect(&cx.deps).await?;
            door::await_cached(cx, o, &others, token).await?;
        }
        Ok(())
    }

    /// Writes everything that differs, while the server serves.
    async fn compare(&self) -> Result<Vec<Writer<'_>>, BackError> {
        let wire = self
            .endpoints
            .all
            .first()
            .map_or(&self.cx.wire, |e| &e.wire);
        let mut writers = Vec::new();
        let mut account = Account::default();
        let objects = |resource: &Resource| resource.stored.status.objects;
        let mut before = Counted {
            done: 0,
            total: self.o.crds().map(|(resource, _)| objects(resource)).sum(),
        };
        for (resource, crd) in self.o.crds() {
            let (writer, one) =
                Writer::begin(self.cx, self.o, (resource, crd), wire, before).await?;
            before.done += objects(resource);
            account.add(one);
            writers.push(writer);
        }
        check(&account)?;
        Ok(writers)
    }

    /// Returns the newest version that the server has given, to any resource.
    async fn counter(&self) -> Result<u64, BackError> {
        self.raise_counter(0).await
    }

    /// Raises the counter to `goal` at least, and returns it.
    async fn raise_counter(&self, goal: u64) -> Result<u64, BackError> {
        let Some(resource) = self.o.resources.first() else {
            return Ok(goal);
        };
        let control = &self.cx.control;
        Ok(control.raise_floor(resource.name(), goal, FOLLOW).await?)
    }

    async fn raise_revision(&self, goal: u64) -> Result<(), BackError> {
        let place = (self.cx.deps.namespace.as_str(), self.revisions.as_str());
        let say = |left: u64| {
            if left > ROOM {
                self.cx.report.update(|status| {
                    status.message = format!(
                        "raising etcd's revision above the server's versions: {left} are left"
                    );
                });
            }
        };
        revisions::raise(self.endpoints, place, goal, say).await?;
        Ok(())
    }
}
