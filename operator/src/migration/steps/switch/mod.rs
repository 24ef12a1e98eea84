//! Step 4, a to e: from the first request that waits to the gate that opens.
//!
//! Everything that can be prepared is prepared before: the guard of the side door is in force,
//! connections to each kube-apiserver are open, and a probe watch is open at each for every CRD.

use std::collections::BTreeMap;
use std::time::Duration;

use crds::control::GateState;
use futures::future::try_join_all;
use jiff::Timestamp;
use tokio::time::Instant;

use super::confirm::{ConfirmError, confirm};
use super::mirror::WatchState;
use super::predecessor::{self, CopyError, guard};
use super::recover::{self, RecoverError};
use super::restart::{self, Side};
use super::{catch_up, drain, settle};
use crate::apiservice::{ETCD_BYTES, SWITCHED_AT};
use crate::migration::cluster::endpoints::{self, Endpoints, EndpointsError};
use crate::migration::cluster::wire::WireError;
use crate::migration::cluster::{door, operations, revisions};
use crate::migration::context::Cx;
use crate::migration::observe::origin::{self, OriginError};
use crate::migration::observe::state::Observed;
use crate::migration::plan::action::SwitchFrom;
use crate::migration::plan::step::StepName;
use crate::migration::task::live::Live;

/// The time for which the floor is tried to be raised.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The reason why watches are lost where the switch is given up after the drain.
pub(super) const TAKEN_AWAY: &str =
    "an APIService was taken away after the watches on the CRDs had been ended";

/// The reason for lost watches after a drained switch that could not be completed.
const GIVEN_UP: &str = "a switch was given up after the watches on the CRDs had been ended";

/// The reason why a switch did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// A request failed for good.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The kube-apiservers are not known.
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
    /// The CRDs from which the copies come cannot be noted.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// The events that the mirrors lost could not be fetched.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// The copy from a predecessor failed.
    #[error(transparent)]
    Copy(Box<CopyError>),
    /// A mirror is not following right now.
    #[error("the watch on {0} is being resumed; the switch waits for it")]
    NotFollowing(String),
    /// Somebody has led the clients back to the CRDs.
    #[error(
        "an APIService was taken away from the server while requests were held; the group stays \
         with the CRDs, and the operator tries again"
    )]
    TakenAway,
    /// A switch that cannot be given up any more is not completed yet.
    #[error(
        "a part of the group is served already, so the APIServices stay, and the switch is tried \
         again: {0}"
    )]
    HalfServed(Box<SwitchError>),
    /// Our server does not answer everywhere.
    #[error(transparent)]
    NotConfirmed(#[from] ConfirmError),
}

impl From<CopyError> for SwitchError {
    fn from(error: CopyError) -> Self {
        Self::Copy(Box::new(error))
    }
}

/// Carries the switch out from the given point.
///
/// # Errors
/// See [`SwitchError`]; the next observation tells where to go on.
pub async fn run(
    cx: &Cx,
    o: &Observed,
    live: &mut Live,
    from: SwitchFrom,
) -> Result<(), SwitchError> {
    if o.predecessor.is_some() {
        return predecessor::switch::run(cx, o, live).await;
    }
    let endpoints = endpoints::discover(&cx.deps).await?;
    door::guard(cx).await?;
    if from == SwitchFrom::Hold {
        origin::note(cx, o).await?;
    }
    let _turn = cx.hold_turn().await;
    let mut probes = Vec::new();
    if from == SwitchFrom::Hold {
        let mirrors = live.running.values().map(|r| r.mirror.subscribe());
        catch_up::wait(&mirrors.collect::<Vec<_>>()).await;
        probes = drain::open_probes(&endpoints, live).await?;
        seal(live)?;
    }
    if from == SwitchFrom::Confirm {
        recover::begin_anew(cx, o, &endpoints).await?;
    }
    live.reported = settle::forget_dropped(cx);
    let since = o.notes.switched_at.unwrap_or_else(Timestamp::now);
    let token = since.to_string();
    let begun = Instant::now();
    let waiting: Vec<_> = o
        .resources
        .iter()
        .filter(|r| r.gate() != GateState::Open)
        .collect();
    let hold = operations::set_gates(cx, waiting.iter().copied(), GateState::Held, Some(false));
    if from == SwitchFrom::Hold {
        cx.step(StepName::SwitchHold, hold).await?;
    } else {
        hold.await?;
    }
    if from != SwitchFrom::Confirm {
        let mut notes = BTreeMap::from([(SWITCHED_AT.to_owned(), token.clone())]);
        if from == SwitchFrom::Hold {
            notes.insert(ETCD_BYTES.to_owned(), live.size().1.to_string());
        }
        cx.step(StepName::SwitchPatch, operations::take_over(cx, o, &notes))
            .await?;
    }
    if let Err(error) = cx
        .step(StepName::SwitchConfirm, confirm(cx, o, &endpoints))
        .await
    {
        return Err(give_up(cx, o, error.into()).await?);
    }
    let drained = cx
        .step(
            StepName::SwitchDrain,
            drain::drain(cx, o, live, probes, &token, drain::limit(begun.elapsed())),
        )
        .await?;
    if let Some(why) = drained.watches_lost() {
        restart::lost(cx, Side::Server, &why).await;
    }
    if drained.lost {
        // What a mirror still sends would come between what is read now.
        live.running.clear();
        recover::recover(cx, o, &endpoints).await?;
    }
    if from == SwitchFrom::Hold && !operations::are_ours(cx, o.versions.iter()).await? {
        // Clients write to the CRDs, past the mirrors, and the server has taken no write yet.
        restart::lost(cx, Side::Server, TAKEN_AWAY).await;
        undo_unopened(cx, o).await?;
        live.running.clear();
        return Err(SwitchError::TakenAway);
    }
    cx.step(
        StepName::SwitchOpen,
        open(cx, o, &endpoints, drained.margin),
    )
    .await?;
    let took = begun.elapsed();
    for resource in waiting {
        cx.deps
            .metrics
            .held(&cx.target.group, resource.plural(), took);
    }
    live.running.clear();
    Ok(())
}

/// Makes the end of every mirror's watch final; all of them, or none.
///
/// # Errors
/// [`SwitchError::NotFollowing`].
pub fn seal(live: &Live) -> Result<(), SwitchError> {
    live.running
        .values()
        .for_each(|running| running.mirror.seal(true));
    // First sealed, then looked at: a watch that is open now cannot be resumed behind our back.
    let broken = live
        .running
        .values()
        .find(|r| r.mirror.progress().watch != WatchState::Live);
    if let Some(running) = broken {
        live.running
            .values()
            .for_each(|running| running.mirror.seal(false));
        return Err(SwitchError::NotFollowing(running.source.plural.clone()));
    }
    Ok(())
}

/// 4e: raises the floor above etcd's revision and opens the gates.
async fn open(
    cx: &Cx,
    o: &Observed,
    endpoints: &Endpoints,
    margin: u64,
) -> Result<(), SwitchError> {
    // No probe shows when the watches end at a kube-apiserver that is behind the address of others.
    let unseen = if endpoints.direct {
        0
    } else {
        drain::UNSEEN_MARGIN
    };
    let floor = revisions::newest(endpoints).await? + margin.max(unseen);
    let closed: Vec<_> = o
        .resources
        .iter()
        .filter(|r| r.gate() != GateState::Open)
        .collect();
    let raise = closed
        .iter()
        .map(|r| cx.control.raise_floor(r.name(), floor, PATIENCE));
    try_join_all(raise).await?;
    origin::note_served(cx).await?;
    operations::set_gates(cx, closed, GateState::Open, None).await?;
    Ok(())
}

/// Gives a switch up after an error, which it returns. Not one that has opened a gate before it was
/// cut off: what clients have written there is at the server alone, so it can only be completed.
///
/// # Errors
/// See [`undo_unopened`].
async fn give_up(cx: &Cx, o: &Observed, error: SwitchError) -> Result<SwitchError, WireError> {
    if o.is_ahead_of_etcd() {
        return Ok(SwitchError::HalfServed(Box::new(error)));
    }
    undo_unopened(cx, o).await?;
    Ok(error)
}

/// Gives the APIServices back although they are switched, because nothing was opened: etcd, or the
/// predecessor, still has everything.
///
/// # Errors
/// See [`WireError`].
pub async fn undo_unopened(cx: &Cx, o: &Observed) -> Result<(), WireError> {
    if o.predecessor.is_some() || o.notes.can_return {
        operations::return_to_predecessor(cx, o).await?;
        guard::lift(cx).await?;
        operations::set_gates(cx, &o.resources, GateState::Closed, None).await?;
        // Nobody has a watch on the CRDs that it would cut.
        return door::close(cx, o).await;
    }
    if o.is_cut_off() && o.has_drained() {
        restart::lost(cx, Side::Server, GIVEN_UP).await;
    }
    operations::release(cx, o).await?;
    operations::set_gates(cx, &o.resources, GateState::Closed, None).await
}

#[cfg(test)]
mod tests;
