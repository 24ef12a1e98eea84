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

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant as Clock};

use crds::control::{GateSpec, GateState};
use crds::v1alpha1::reasons;
use futures::FutureExt;
use futures::future::try_join_all;
use jiff::Timestamp;
use kube::runtime::events::EventType;
use tokio::time::Instant;

use super::feed::FeedError;
use super::writeback::{Account, WriteBackError, Writer};
use crate::migration::cluster::door::{self, FROM_CACHE, Opened};
use crate::migration::cluster::endpoints::{self, Endpoint, Endpoints, EndpointsError};
use crate::migration::cluster::wire::{WireError, collection, query};
use crate::migration::cluster::{operations, revisions};
use crate::migration::context::Cx;
use crate::migration::observe::origin::{self, OriginError};
use crate::migration::observe::state::{Observed, Resource};
use crate::migration::plan::step::StepName;
use crate::migration::report::status::Counted;

/// The distance of etcd's revision above our counter when the CRD's caches begin anew, at first:
/// what clients write until the jump has to fit in between.
const ROOM: u64 = 500;
/// The number of times that the caches begin anew because clients have written more, and that the
/// counter jumps.
const ATTEMPTS: u32 = 5;
/// Changes that may be left for the hold.
const REST: usize = 100;
/// Changes that may wait for the next pass; fewer are not worth another one.
const FEW: usize = 50;
/// Most passes before the jump. Each is as long as what was written during the one before, so they
/// grow shorter unless etcd takes writes more slowly than we do.
const PASSES: u32 = 20;
/// The distance of the jump beyond what is known to be written, for what others write to etcd.
const MARGIN: u64 = 200;
/// The time that is allowed for the server's changes to become known.
const FOLLOW: Duration = Duration::from_secs(10);
/// The longest time for which requests are held. After it they are served again, and the way back
/// is tried again later. The server ends a hold that nobody ends after 5 s.
const HOLD: Duration = Duration::from_secs(4);
/// Least and longest time that the caches of the public versions get beyond that of the door.
const CACHES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// The time that is allowed for the CRDs to answer at every kube-apiserver.
const CONFIRM: Duration = Duration::from_mins(1);
/// Pause between two questions.
const PAUSE: Duration = Duration::from_millis(20);

/// The reason why a group was not given back.
#[derive(Debug, thiserror::Error)]
pub enum BackError {
    /// A request failed for good.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The kube-apiservers are not known.
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
    /// The server's changes are not known.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// It cannot be noted that etcd gets copies again.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// Some objects cannot be written to etcd.
    #[error(
        "{count} objects cannot be written back to etcd: {}; the group stays with the server \
         until they can be, or are deleted",
        .named.join("; ")
    )]
    Refused {
        /// The number of these objects.
        count: usize,
        /// The first of these objects, with the reasons.
        named: Vec<String>,
    },
    /// The rest could not be written in the time that requests may wait.
    #[error(
        "requests were held for {} s and the rest is not written to etcd; the server continues \
         to serve, and the operator tries again",
        HOLD.as_secs()
    )]
    Late,
    /// Somebody has changed a CRD, which cuts all watches.
    #[error("CRD {crd} was changed during the way back; the operator tries again")]
    CrdChanged {
        /// Name of the CRD.
        crd: String,
    },
    /// Etcd has grown further than the jump went.
    #[error("more was written to etcd than there was room for; the operator tries again")]
    Outgrown,
    /// The watches on the server were cut after the jump.
    #[error(
        "watches on the server were cut; the operator tries again when clients have reconnected"
    )]
    Cut,
    /// Somebody has taken an APIService away from our server, and the CRD answers too early.
    #[error(
        "an APIService was taken away from the server during the way back; the operator points \
         it to the server again, and the way back starts over"
    )]
    TakenAway,
    /// The CRD does not answer at a kube-apiserver.
    #[error(
        "after {} s the kube-apiserver {endpoint} does not answer {path} from the CRD; look at \
         the APIServices of the group",
        CONFIRM.as_secs()
    )]
    NotConfirmed {
        /// Path of the request.
        path: String,
        /// Address of the kube-apiserver.
        endpoint: String,
    },
}

impl From<WriteBackError> for BackError {
    fn from(error: WriteBackError) -> Self {
        match error {
            WriteBackError::Wire(error) => Self::Wire(error),
            WriteBackError::Feed(error) => Self::Feed(error),
            WriteBackError::TakenAway { .. } => Self::TakenAway,
        }
    }
}

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
    let endpoints = endpoints::discover(&cx.deps.config).await?;
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
/// deleted, the CRDs answer everywhere, and our gates are closed, which ends the watches on our
/// server.
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
        door::await_cached(cx, o, &self.endpoints.all, &token).await?;
        // Each version has a cache of its own. That of the door answers; those of the public ones
        // cannot be asked while our server is in charge, and are given as long again.
        tokio::time::sleep(begun.elapsed().clamp(CACHES.0, CACHES.1)).await;
        let caches = opened.iter().map(|crd| crd.revision).min();
        Ok(Doors {
            caches: caches.unwrap_or_default(),
            opened,
            resumed: 0,
        })
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
            let (writer, one) = Writer::begin(self.cx, resource, crd, wire, before).await?;
            before.done += objects(resource);
            account.add(one);
            writers.push(writer);
        }
        check(&account)?;
        Ok(writers)
    }

    /// Writes until little is left, then lets the counter jump above it, and etcd follow. If much
    /// is written while etcd follows, the counter jumps again. What is left is written in the hold.
    async fn jump(&self, writers: &mut [Writer<'_>], doors: &mut Doors) -> Result<(), BackError> {
        let mut room = ROOM;
        for _ in 0..ATTEMPTS {
            self.catch_up(writers).await?;
            if self.counter().await? + MARGIN < doors.caches {
                break;
            }
            *doors = self.open_door(room).await?;
            // The doors are open: the message is that of the step again.
            let step = StepName::BackBurn;
            self.cx.show(step, step.phase());
            room *= 2;
        }
        doors.resumed = resumed(writers);
        for _ in 0..ATTEMPTS {
            self.jump_once(writers).await?;
            if waiting(writers) <= REST {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Lets the counter jump above all that is known to be written, writes it, and lets etcd
    /// follow.
    async fn jump_once(&self, writers: &mut [Writer<'_>]) -> Result<(), BackError> {
        let revision = revisions::newest(self.endpoints).await?;
        let known = self.counter().await?.max(revision);
        let goal = known + MARGIN + 2 * waiting(writers) as u64;
        for writer in writers.iter() {
            writer.cut(goal);
        }
        self.raise_counter(goal).await?;
        let each = writers.iter_mut().map(|w| w.pass_before_cut(goal, FOLLOW));
        total(try_join_all(each).await?)?;
        if revisions::newest(self.endpoints).await? > goal {
            return Err(BackError::Outgrown);
        }
        // What clients write meanwhile is little against what is burnt.
        self.raise_revision(goal).await?;
        let counter = self.counter().await?;
        self.raise_revision(counter).await
    }

    /// Makes passes until few changes are left.
    async fn catch_up(&self, writers: &mut [Writer<'_>]) -> Result<(), BackError> {
        for _ in 0..PASSES {
            if waiting(writers) <= FEW {
                break;
            }
            let each = writers.iter_mut().map(Writer::pass);
            total(try_join_all(each).await?)?;
        }
        Ok(())
    }

    /// Holds requests and writes the rest. Where that fails, clients are served again rather than
    /// kept waiting.
    async fn hold(&self, writers: &mut [Writer<'_>], doors: &Doors) -> Result<(), BackError> {
        let (cx, o) = (self.cx, self.o);
        let held = tokio::time::timeout(HOLD, self.write_rest(writers, doors)).await;
        let error = match held {
            // From here on the way leads to the CRDs only, whoever goes it: where it is not known
            // which gates say so, none is opened.
            Ok(Ok(())) => return release_gates(cx, o, self.endpoints).await,
            Ok(Err(error)) => error,
            Err(_) => BackError::Late,
        };
        operations::set_gates(cx, &o.resources, GateState::Open, None).await?;
        cx.event(
            EventType::Warning,
            reasons::ROLLING_BACK,
            &format!("{}: {error}", cx.target.group),
        );
        Err(error)
    }

    async fn write_rest(&self, writers: &mut [Writer<'_>], doors: &Doors) -> Result<(), BackError> {
        let (cx, o) = (self.cx, self.o);
        let hold = GateSpec {
            state: GateState::Held,
            ..GateSpec::default()
        };
        let gates = operations::move_gates(cx, &o.resources, &hold).await?;
        let names = o.resources.iter().map(Resource::name);
        let frozen: HashMap<&str, u64> = names
            .zip(&gates)
            .filter_map(|(name, gate)| Some((name, version_of(gate)?)))
            .collect();
        let newest = frozen.values().copied().max().unwrap_or_default();
        tokio::try_join!(self.raise_revision(newest), follow(writers, &frozen))?;
        let each = writers.iter_mut().map(Writer::last_pass);
        total(try_join_all(each).await?)?;
        if resumed(writers) != doors.resumed {
            return Err(BackError::Cut);
        }
        let (changed, ours) = tokio::try_join!(
            door::changed_since(cx, &doors.opened),
            operations::are_ours(cx, o.ours()),
        )?;
        if let Some(crd) = changed {
            return Err(BackError::CrdChanged { crd });
        }
        if ours {
            Ok(())
        } else {
            Err(BackError::TakenAway)
        }
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

/// Returns the number of objects that have changed since they were last written.
fn waiting(writers: &[Writer<'_>]) -> usize {
    writers.iter().map(Writer::waiting).sum()
}

/// Returns the number of times that the watches on the server were cut.
fn resumed(writers: &[Writer<'_>]) -> u32 {
    writers.iter().map(Writer::resumed).sum()
}

/// Waits until all changes of each resource are known, up to the version at which its own gate was
/// closed to writes. Its watch does not tell of later writes to other resources.
async fn follow(writers: &[Writer<'_>], frozen: &HashMap<&str, u64>) -> Result<(), BackError> {
    let each = writers.iter().map(|writer| {
        let version = frozen.get(writer.resource_name()).copied();
        writer.until(version.unwrap_or_default(), FOLLOW)
    });
    try_join_all(each).await?;
    Ok(())
}

fn version_of(gate: &GateSpec) -> Option<u64> {
    gate.resource_version.as_deref()?.parse().ok()
}

fn total(accounts: Vec<Account>) -> Result<(), BackError> {
    let mut account = Account::default();
    for one in accounts {
        account.add(one);
    }
    check(&account)
}

fn check(account: &Account) -> Result<(), BackError> {
    if account.refused == 0 {
        return Ok(());
    }
    Err(BackError::Refused {
        count: account.refused,
        named: account.refused_names.clone(),
    })
}

/// Waits until every kube-apiserver answers from the CRDs: discovery and lists.
async fn confirm(cx: &Cx, o: &Observed, endpoints: &Endpoints) -> Result<(), BackError> {
    let group = cx.target.group.as_str();
    let mut lists: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (resource, crd) in o.crds() {
        for version in crd.served() {
            let list = collection(group, version, resource.plural());
            let of_version = lists.entry(format!("/apis/{group}/{version}")).or_default();
            of_version.push(query(&list, FROM_CACHE));
        }
    }
    let lists = &lists;
    let each = endpoints.all.iter().flat_map(|endpoint| {
        lists
            .iter()
            .map(move |(discovery, lists)| confirm_at(endpoint, discovery, lists).boxed())
    });
    try_join_all(each).await.map(drop)
}

/// Confirms one version at one kube-apiserver. Discovery comes first: a list that it still sends to
/// our server waits there until the gate closes, which is after this.
async fn confirm_at(
    endpoint: &Endpoint,
    discovery: &str,
    lists: &[String],
) -> Result<(), BackError> {
    answers(endpoint, discovery).await?;
    let each = lists.iter().map(|list| answers(endpoint, list).boxed());
    try_join_all(each).await.map(drop)
}

/// Waits until a path is answered, and not by our server.
async fn answers(endpoint: &Endpoint, path: &str) -> Result<(), BackError> {
    let wire = &endpoint.wire;
    let deadline = Instant::now() + CONFIRM;
    while Instant::now() < deadline {
        if let Ok(Ok(reply)) = tokio::time::timeout(Duration::from_secs(5), wire.get(path)).await
            && !reply.is_ours()
        {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(BackError::NotConfirmed {
        path: path.to_owned(),
        endpoint: endpoint.address.clone(),
    })
}
