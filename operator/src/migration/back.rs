//! The way back: etcd gets what we hold, then the CRDs get their APIs back.
//!
//! Most is written while the server still serves; then requests are held, the last differences
//! are written, and the APIServices are deleted. The door stays open: taking it away is a change
//! of the CRD's spec and would cut the clients that the CRD serves again.

use std::{collections::BTreeSet, time::Duration};

use crds::{control::GateState, v1alpha1::reasons};
use futures::{
    FutureExt,
    future::{join_all, try_join_all},
};
use kube::runtime::events::EventType;
use tokio::time::Instant;

use super::{
    acts,
    cx::Cx,
    door_io,
    endpoints::{self, Endpoint, Endpoints, EndpointsError},
    notes,
    observed::Observed,
    step::StepName,
    wire::{WireError, collection, query},
    writeback::{Account, Writer},
};

/// Largest distance between our versions and etcd's revision that is burnt: some 20 s of writes.
const AFFORDABLE: u64 = 20_000;
/// How much further, so that what is written meanwhile does not undo it.
const AHEAD: u64 = 200;
/// Writers that burn revisions.
const BURNERS: u64 = 8;
/// How long the CRDs are waited for at every kube-apiserver.
const CONFIRM: Duration = Duration::from_mins(1);
/// Pause between two questions.
const PAUSE: Duration = Duration::from_millis(20);
/// What the door is opened for.
const TOKEN: &str = "the way back";

/// Why a group was not given back.
#[derive(Debug, thiserror::Error)]
pub enum BackError {
    /// A request failed for good.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The kube-apiservers are not known.
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
    /// Some objects cannot be written to etcd.
    #[error(
        "{count} objects cannot be written back to etcd: {}; the group stays with the server \
         until they can be, or are deleted",
        .named.join("; ")
    )]
    Refused {
        /// How many.
        count: usize,
        /// The first of them, and why.
        named: Vec<String>,
    },
    /// The CRD does not answer at a kube-apiserver.
    #[error(
        "after {} s the kube-apiserver {endpoint} does not answer {path} from the CRD; look at \
         the APIServices of the group",
        CONFIRM.as_secs()
    )]
    NotConfirmed {
        /// Path that was asked.
        path: String,
        /// Address.
        endpoint: String,
    },
}

/// Gives the group back.
///
/// # Errors
/// See [`BackError`]; carrying it out again goes on.
pub async fn run(cx: &Cx, o: &Observed) -> Result<(), BackError> {
    let endpoints = endpoints::discover(&cx.deps.config).await?;
    cx.step(StepName::BackOpenDoor, async {
        door_io::guard(cx).await?;
        door_io::ensure_open(cx, o, TOKEN).await?;
        door_io::await_open(cx, o, &endpoints.all).await
    })
    .await?;
    let wire = endpoints.all.first().map_or(&cx.wire, |e| &e.wire);
    let mut writers: Vec<Writer<'_>> = o
        .crds()
        .map(|(resource, crd)| Writer::new(cx, resource, crd, wire))
        .collect();
    cx.step(StepName::BackWrite, write(&mut writers)).await?;
    cx.step(StepName::BackBurn, burn(cx, &endpoints, AHEAD))
        .await?;
    let _still = cx.still().await;
    if let Err(error) = cx
        .step(StepName::BackHold, hold(cx, o, &mut writers, &endpoints))
        .await
    {
        // Clients wait: serve them again rather than keep them waiting for a mended cluster.
        acts::set_gates(cx, &o.resources, GateState::Open, None).await?;
        return Err(error);
    }
    cx.step(StepName::BackRelease, async {
        acts::release(cx, o).await?;
        confirm(cx, o, &endpoints).await
    })
    .await?;
    close(cx, o).await?;
    Ok(())
}

/// The CRDs answer: our gates are closed, which ends the watches on our server.
///
/// # Errors
/// See [`WireError`].
pub async fn close(cx: &Cx, o: &Observed) -> Result<(), WireError> {
    cx.step(
        StepName::BackClose,
        acts::set_gates(cx, &o.resources, GateState::Closed, None),
    )
    .await
}

/// First pass: everything that differs, while the server serves.
async fn write(writers: &mut [Writer<'_>]) -> Result<(), BackError> {
    let mut account = Account::default();
    for writer in writers {
        account.add(writer.first_pass().await?);
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

/// Requests are held; what has changed since the first pass is written.
async fn hold(
    cx: &Cx,
    o: &Observed,
    writers: &mut [Writer<'_>],
    endpoints: &Endpoints,
) -> Result<(), BackError> {
    acts::set_gates(cx, &o.resources, GateState::Held, None).await?;
    let last = writers.iter_mut().map(Writer::last_pass);
    let mut account = Account::default();
    for one in try_join_all(last).await? {
        account.add(one);
    }
    check(&account)?;
    burn(cx, endpoints, 0).await
}

/// Raises etcd's revision to `ahead` beyond our versions, where that is affordable: then a watch
/// that goes over to the CRD holds a version which etcd has passed, and misses nothing.
async fn burn(cx: &Cx, endpoints: &Endpoints, ahead: u64) -> Result<(), BackError> {
    let stored = cx.control.list(&cx.target.group).await?;
    let ours = stored
        .iter()
        .filter_map(|s| s.status.resource_version.parse::<u64>().ok())
        .max();
    let goal = ours.unwrap_or_default() + ahead;
    let revision = acts::etcd_revision(endpoints).await?;
    let gap = goal.saturating_sub(revision);
    if gap == 0 {
        return Ok(());
    }
    if gap > AFFORDABLE {
        let note = format!(
            "{}: etcd is {gap} revisions behind the server, more than can be caught up with. \
             Clients that go on watching at the CRD see nothing until they list anew: restart \
             them once the group is given back",
            cx.target.group
        );
        cx.event(EventType::Warning, reasons::ROLLING_BACK, &note);
        return Ok(());
    }
    let share = gap.div_ceil(BURNERS);
    let burners = (0..BURNERS).map(|n| notes::burn(&cx.wire, &cx.deps.namespace, n, share));
    for burnt in join_all(burners).await {
        burnt?;
    }
    Ok(())
}

/// Every kube-apiserver answers from the CRDs: discovery and lists.
async fn confirm(cx: &Cx, o: &Observed, endpoints: &Endpoints) -> Result<(), BackError> {
    let group = cx.target.group.as_str();
    let mut paths = BTreeSet::new();
    for (resource, crd) in o.crds() {
        for version in crd.served() {
            paths.insert(format!("/apis/{group}/{version}"));
            let list = collection(group, version, resource.plural());
            paths.insert(query(&list, &[("limit", "1")]));
        }
    }
    let mut each = Vec::new();
    for endpoint in &endpoints.all {
        each.extend(
            paths
                .iter()
                .map(|path| confirm_at(endpoint, path.clone()).boxed()),
        );
    }
    try_join_all(each).await.map(drop)
}

async fn confirm_at(endpoint: &Endpoint, path: String) -> Result<(), BackError> {
    let wire = &endpoint.wire;
    let deadline = Instant::now() + CONFIRM;
    while Instant::now() < deadline {
        if let Ok(Ok(reply)) = tokio::time::timeout(Duration::from_secs(5), wire.get(&path)).await
            && !reply.is_ours()
        {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(BackError::NotConfirmed {
        path,
        endpoint: endpoint.address.clone(),
    })
}
