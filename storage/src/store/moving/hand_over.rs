//! The last step: in the committer, so that nothing is written meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crds::control::{GateState, MovePhase};
use futures::FutureExt as _;
use tokio::sync::watch;
use tokio::time::timeout;

use super::copy::Copier;
use super::source::{Hold, MarkError};
use super::{MoveError, Progress};
use crate::model::ResourceId;
use crate::store::Store;
use crate::store::committer::Committer;
use crate::store::engine::corrupt;
use crate::store::registry::Registry;

/// Has the committer hold, finish the copy and go over. An error leaves everything as it was.
pub(super) async fn hand_over(
    store: &Store,
    copier: Copier,
    progress: &Arc<watch::Sender<Progress>>,
    hold: Duration,
) -> Result<(), MoveError> {
    let progress = Arc::clone(progress);
    let ordered = store.command(move |committer| {
        async move { Ok(in_committer(committer, copier, &progress, hold).await) }.boxed()
    });
    ordered.await??;
    store.others_may_write();
    Ok(())
}

async fn in_committer(
    committer: &mut Committer,
    mut copier: Copier,
    progress: &watch::Sender<Progress>,
    limit: Duration,
) -> Result<(), MoveError> {
    let began = Instant::now();
    for resource in committer.registry.all() {
        let record = resource.record();
        if record.gate.state == GateState::Held {
            return Err(MoveError::Held(record.def.resource.to_string()));
        }
    }
    if !committer.in_step {
        committer.catch_up().await?;
    }
    let held = match timeout(limit, finish(committer, &mut copier, limit)).await {
        Ok(finished) => finished?,
        Err(_) => return Err(MoveError::Late(limit)),
    };
    let seq = committer.position.seq;
    if let Err(error) = mark(held, seq, &copier).await {
        // Where it is there all the same, whoever comes next finds it.
        committer.in_step = false;
        return Err(error);
    }
    // Moved. Whatever fails from here on is an outage of the new database.
    let movable = Arc::clone(&copier.movable);
    if let Err(error) = movable.go_over(copier.target, seq).await {
        tracing::error!(%error, "the reports are moved, but their new database does not answer");
        committer.in_step = false;
    }
    let took = began.elapsed();
    progress.send_modify(|progress| {
        let state = progress.get_or_insert_default();
        state.phase = MovePhase::Moved;
        state.seq = seq;
        state.held = Some(took);
        state.message.clear();
    });
    tracing::info!(
        seq,
        held_ms = took.as_millis(),
        "the reports are in PostgreSQL"
    );
    Ok(())
}

/// Keeps everybody from writing, copies the rest and makes sure that both databases are equal.
async fn finish(
    committer: &mut Committer,
    copier: &mut Copier,
    limit: Duration,
) -> Result<Box<dyn Hold>, MoveError> {
    let attempt = copier.target.attempt();
    let movable = Arc::clone(&copier.movable);
    let held = movable.source().hold(attempt, limit).await?;
    if movable.source().is_shared() {
        // What others wrote until they were kept from it. Cut short, it leaves records behind.
        committer.in_step = false;
        committer.catch_up().await?;
    }
    match copier.unaware().await? {
        0 => {}
        others => return Err(MoveError::Unaware(others)),
    }
    let (mut snapshot, _) = copier.follow().await?;
    let position = snapshot.position().await?;
    if position != committer.position {
        return Err(corrupt(&"the database", "was written by somebody else").into());
    }
    let compacted = snapshot.compacted().await?;
    let definitions = snapshot.definitions().await?;
    let target = &copier.target;
    target
        .finish(position, compacted, &definitions, copier.commit())
        .await?;
    let sums = sums(&committer.registry);
    copier.compare_rest(&mut snapshot, compacted, &sums).await?;
    Ok(held)
}

/// Returns number of objects and sum of their versions, of each resource, as the server serves
/// them.
fn sums(registry: &Registry) -> BTreeMap<ResourceId, (i64, i64)> {
    let resources = registry.all();
    let sums = resources.iter().map(|resource| {
        let snapshot = resource.snapshot();
        let namespaces = snapshot.namespaces();
        let objects = namespaces.iter().flat_map(|namespace| {
            let scope = (!namespace.is_empty()).then_some(*namespace);
            snapshot.range(scope, None)
        });
        let sum = objects.fold((0, 0), |(count, sum), object| {
            (count + 1, sum + object.rv.cast_signed())
        });
        (resource.record().id, sum)
    });
    sums.collect()
}

/// Marks the database as moved.
async fn mark(held: Box<dyn Hold>, seq: u64, copier: &Copier) -> Result<(), MoveError> {
    let batch = copier.commit().map(|(_, batch)| batch);
    match held.mark(seq, batch, copier.target.ids()).await {
        Ok(()) => Ok(()),
        Err(MarkError::Unmarked(error) | MarkError::Unknown(error)) => Err(error.into()),
        Err(MarkError::Lost(error)) => {
            // Either database may be the one that counts. A start finds out.
            tracing::error!(%error, "the mark of the move could not be written; the process exits to be restarted");
            std::process::abort();
        }
    }
}
