//! The switch of a group that a predecessor serves, and the look for late writes after it.
//!
//! As in the switch from the CRDs, requests wait at our server from the first patch of an
//! APIService until everything is there. Nothing can be listed at the predecessor by then: what is
//! under way is told by the watches that were opened before. So the predecessor is read whole right
//! before, and a watch that ends too early takes the switch back.

use std::collections::BTreeMap;
use std::time::Duration;

use crds::control::{GateState, ImportBatch};
use crds::v1alpha1::reasons;
use futures::future::try_join_all;
use jiff::Timestamp;
use kube::runtime::events::EventType;
use tokio::time::Instant;

use super::copier::empty_batch;
use super::{Copier, CopyError, Drained, guard};
use crate::apiservice::SWITCHED_AT;
use crate::migration::cluster::control::retry;
use crate::migration::cluster::endpoints::{self, Endpoints};
use crate::migration::cluster::wire::WireError;
use crate::migration::cluster::{door, operations, revisions};
use crate::migration::context::Cx;
use crate::migration::observe::origin;
use crate::migration::observe::state::Observed;
use crate::migration::plan::step::StepName;
use crate::migration::plan::target::Predecessor;
use crate::migration::steps::confirm::confirm;
use crate::migration::steps::drain::UNSEEN_MARGIN;
use crate::migration::steps::restart::{self, Side};
use crate::migration::steps::settle::{self, SettleError};
use crate::migration::steps::switch::{PATIENCE, SwitchError, seal, undo_unopened};
use crate::migration::task::live::Live;

/// The longest time that a request to the predecessor may be under way at a kube-apiserver, by its
/// own default.
pub const UNDER_WAY: Duration = Duration::from_mins(1);

/// The longest time for the CRDs to be changed while requests are held.
const DOOR: Duration = Duration::from_secs(5);

/// The reason why watches do not go on.
const LOST: &str = "the group was taken over from a server with other resource versions";

/// Takes the group over.
///
/// # Errors
/// See [`SwitchError`]; until the gates are open the predecessor gets the group back.
pub async fn run(cx: &Cx, o: &Observed, live: &mut Live) -> Result<(), SwitchError> {
    let Some(predecessor) = &cx.target.predecessor else {
        // Another one is wanted by now.
        return Ok(());
    };
    live.opened = None;
    let endpoints = endpoints::discover(&cx.deps).await?;
    guard::enforce(cx, o, &endpoints, predecessor).await?;
    if o.has_crds() {
        door::guard(cx).await?;
    }
    origin::note_taken_over(cx, revisions::newest(&endpoints).await?).await?;
    let _turn = cx.hold_turn().await;
    try_join_all(copiers(live).map(Copier::pass)).await?;
    seal(live)?;
    live.reported = settle::forget_dropped(cx);
    let begun = Instant::now();
    let hold = operations::set_gates(cx, &o.resources, GateState::Held, Some(false));
    cx.step(StepName::SwitchHold, hold).await?;
    let token = Timestamp::now().to_string();
    let notes = BTreeMap::from([(SWITCHED_AT.to_owned(), token.clone())]);
    cx.step(StepName::SwitchPatch, operations::take_over(cx, o, &notes))
        .await?;
    if let Err(error) = moved(cx, o, live, &endpoints, &token).await {
        undo_unopened(cx, o).await?;
        // The next attempt reads everything anew.
        live.running.clear();
        return Err(error);
    }
    restart::lost(cx, Side::Server, LOST).await;
    // Once one of them may be open, the way leads forward only.
    let open = operations::set_gates(cx, &o.resources, GateState::Open, None);
    cx.step(StepName::SwitchOpen, open).await?;
    live.opened = Some(Instant::now());
    let took = begun.elapsed();
    for resource in &o.resources {
        let metrics = &cx.deps.metrics;
        metrics.held(&cx.target.group, resource.plural(), took);
    }
    for copier in copiers(live) {
        copier.opened().await;
    }
    cx.event(
        EventType::Warning,
        reasons::VERSIONS_RESTARTED,
        &restarted(&cx.target.group, predecessor),
    );
    Ok(())
}

/// Does the part from the patched APIServices to gates that can be opened.
async fn moved(
    cx: &Cx,
    o: &Observed,
    live: &Live,
    endpoints: &Endpoints,
    token: &str,
) -> Result<(), SwitchError> {
    cx.step(StepName::SwitchConfirm, confirm(cx, o, endpoints))
        .await?;
    let drain = try_join_all(copiers(live).map(Copier::drain));
    let drained = cx.step(StepName::SwitchDrain, drain).await?;
    end_early_watches(cx, o, token).await;
    // Whoever led an APIService elsewhere meanwhile had writes go there.
    confirm(cx, o, endpoints).await?;
    if !operations::are_ours(cx, o.versions.iter()).await? {
        return Err(CopyError::TakenBack.into());
    }
    // A watch that has ended since the drain would tell of no late write.
    seal(live)?;
    let margin = if o.has_crds() { UNSEEN_MARGIN } else { 0 };
    raise(cx, o, endpoints, &drained, margin).await?;
    Ok(())
}

/// Opens the side door: watches on the CRDs from before the predecessor end with it. They have etcd's
/// versions, and nothing of what the predecessor took. No takeover fails for it: the look for late
/// writes opens the door again, and what they resume from then is below the horizon all the same.
async fn end_early_watches(cx: &Cx, o: &Observed, token: &str) {
    let opened = tokio::time::timeout(DOOR, door::open(cx, o, token)).await;
    let error = match opened {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", DOOR.as_secs()),
    };
    tracing::warn!(
        group = cx.target.group,
        error,
        "cannot end the watches on the CRDs"
    );
}

fn copiers(live: &Live) -> impl Iterator<Item = &Copier> {
    live.running.values().filter_map(|r| r.copier.as_ref())
}

/// Raises the versions above all that the predecessor gave, and `margin` above etcd's revision, so
/// that a client which resumes from one of those lists anew.
async fn raise(
    cx: &Cx,
    o: &Observed,
    endpoints: &Endpoints,
    drained: &[Drained],
    margin: u64,
) -> Result<(), WireError> {
    let revision = revisions::newest(endpoints).await? + margin;
    let given = drained.iter().map(|d| d.version.max(d.theirs)).max();
    let floor = given.unwrap_or_default().max(revision) + 1;
    for resource in &o.resources {
        let name = resource.name();
        cx.control.raise_floor(name, floor, PATIENCE).await?;
        let horizon = ImportBatch {
            horizon: Some(floor.to_string()),
            ..empty_batch()
        };
        retry(PATIENCE, || cx.control.import(name, &horizon)).await?;
    }
    Ok(())
}

/// Returns the sentence for users, with what they have to do.
fn restarted(group: &str, predecessor: &Predecessor) -> String {
    let Predecessor {
        namespace, name, ..
    } = predecessor;
    format!(
        "{group}: taken over from {namespace}/{name}. Its resource versions differ, so a watch \
         that is resumed gets 410 once; watches that are open there see nothing new until that \
         server is stopped: `kubectl -n {namespace} scale deployment {name} --replicas=0` \
         (docs/from-reports-server.md)"
    )
}

/// Returns whether late writes to the predecessor are still taken over, or the group could be given
/// back to it.
#[must_use]
pub fn is_followed(o: &Observed, live: &Live) -> bool {
    o.notes.can_return || copiers(live).next().is_some()
}

/// Takes late writes over for as long as a request may have been under way, forgets the way to the
/// predecessor, and looks for late writes to etcd: the CRDs answered where somebody has deleted an
/// APIService meanwhile.
///
/// # Errors
/// See [`SettleError`]; carrying it out again goes on.
pub async fn settle(cx: &Cx, o: &Observed, live: &mut Live) -> Result<(), SettleError> {
    if copiers(live).next().is_some() {
        // The gates were opened by another step where they were not all opened at once.
        let opened = *live.opened.get_or_insert_with(Instant::now);
        for copier in copiers(live) {
            copier.opened().await;
        }
        tokio::time::sleep(still_under_way(Some(opened.elapsed()))).await;
        // Nothing late comes any more; should the rest fail, it is done with a token of its own.
        live.running.clear();
    } else if !still_under_way(live.opened.map(|at| at.elapsed())).is_zero() {
        let note = unseen(&cx.target.group, cx.target.predecessor.as_ref());
        cx.event(EventType::Warning, reasons::LATE_WRITES_UNSEEN, &note);
    }
    operations::forget_predecessor(cx, o).await?;
    settle::run(cx, o, &mut live.reported).await
}

/// Returns the sentence for users where the process that took the group over has ended, and with it
/// the watches on the predecessor.
fn unseen(group: &str, predecessor: Option<&Predecessor>) -> String {
    let server = predecessor.map_or_else(
        || "the other server".to_owned(),
        |Predecessor {
             namespace, name, ..
         }| format!("{namespace}/{name}"),
    );
    let seconds = UNDER_WAY.as_secs();
    format!(
        "{group}: the operator was restarted within {seconds} s after the group was taken over from \
         {server}, so it cannot see what {server} answered in that time. Reports of requests that \
         were under way then may be missing: have their clients write them again, as Kyverno does \
         with its next background scan (docs/from-reports-server.md)"
    )
}

/// Returns the time for which requests to the predecessor may still be under way, `served` after
/// the gates were opened: every kube-apiserver had noticed the switch by then.
fn still_under_way(served: Option<Duration>) -> Duration {
    UNDER_WAY.saturating_sub(served.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migration::context::fixtures::context;
    use crate::testing::pair;

    #[test]
    fn late_writes_are_looked_for_until_a_minute_after_the_opening() {
        let seconds = Duration::from_secs;
        assert_eq!(still_under_way(Some(seconds(0))), seconds(60));
        assert_eq!(still_under_way(Some(seconds(59))), seconds(1));
        assert_eq!(still_under_way(Some(seconds(3600))), seconds(0));
        assert_eq!(still_under_way(None), seconds(60), "not known");
    }

    #[test]
    fn the_event_has_room_for_all_that_is_to_be_done() {
        let predecessor = Predecessor {
            namespace: "n".repeat(63),
            name: "s".repeat(63),
            user: String::new(),
        };
        let note = restarted("reports.kyverno.io", &predecessor);
        assert!(note.len() <= 1000, "{}", note.len());
        assert!(note.contains("docs/from-reports-server.md"));
        let note = unseen("reports.kyverno.io", Some(&predecessor));
        assert!(note.len() <= 1000, "{}", note.len());
        assert!(note.contains("docs/from-reports-server.md"));
    }

    #[tokio::test]
    async fn a_process_that_took_nothing_over_says_what_it_cannot_see() {
        let (client, mut server) = pair();
        let told = tokio::spawn(async move {
            let mut told = Vec::new();
            while let Some(request) = server.next_if_any().await {
                if request.path.contains("/events") {
                    let body = request.body.clone();
                    request.answer(201, &body);
                    told.push(body);
                } else {
                    request.refuse(404, "NotFound");
                }
            }
            told
        });
        let cx = context(&client);
        // Nothing else of it is there.
        let _ = settle(&cx, &Observed::default(), &mut Live::default()).await;
        drop((cx, client));
        let told = told.await.unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0]["reason"], reasons::LATE_WRITES_UNSEEN);
        assert_eq!(told[0]["type"], "Warning");
    }
}
