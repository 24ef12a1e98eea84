//! The last step: in the committer, so that nothing is written meanwhile. Its work does not grow with
//! the number of objects: what is there was compared before, and is known not to change without a
//! commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crds::control::GateState;
use futures::FutureExt as _;
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

use super::copy::Copier;
use super::rows::{Departure, LastCommit};
use super::source::{Hold, MarkError};
use super::{MoveError, Progress};
use crate::store::Store;
use crate::store::committer::Committer;
use crate::store::engine::corrupt;

/// Has the committer hold, finish the copy and go over. An error leaves everything as it was.
pub(super) async fn hand_over(
    store: &Store,
    copier: &Arc<Mutex<Copier>>,
    progress: &Arc<watch::Sender<Progress>>,
    hold: Duration,
) -> Result<(), MoveError> {
    let (copier, progress) = (Arc::clone(copier), Arc::clone(progress));
    let ordered = store.command(move |committer| {
        async move {
            let mut copier = copier.lock().await;
            Ok(in_committer(committer, &mut copier, &progress, hold).await)
        }
        .boxed()
    });
    ordered.await?
}

async fn in_committer(
    committer: &mut Committer,
    copier: &mut Copier,
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
    let held = match timeout(limit, finish(committer, copier, limit)).await {
        Ok(finished) => finished?,
        Err(_) => return Err(MoveError::Late(limit)),
    };
    let marked = mark(held, committer, copier).await;
    // Where the mark is there all the same, whoever comes next finds it.
    committer.in_step = marked.is_ok();
    let departure = marked?;
    let seq = departure.last.seq;
    copier.target.release().await;
    // Moved. Whatever fails from here on is an outage of the new database, or has the reports taken
    // back.
    if let Err(error) = copier.movable.go_over(departure).await {
        tracing::error!(%error, "the reports are moved, but their new database cannot be opened yet");
    }
    committer.in_step = copier.movable.moved_at().is_some();
    let took = began.elapsed();
    progress.send_modify(|progress| {
        let state = progress.get_or_insert_default();
        state.seq = seq;
        state.held = Some(took);
    });
    tracing::info!(
        seq,
        held_ms = took.as_millis(),
        "writes waited for the move"
    );
    Ok(())
}

/// Keeps everybody from writing, copies the rest and makes sure that it is there.
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
        others => return Err(copier.not_yet(others)),
    }
    let (mut snapshot, _) = copier.follow().await?;
    copier.compare_touched(&mut snapshot).await?;
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
    Ok(held)
}

/// Marks the database as moved.
async fn mark(
    held: Box<dyn Hold>,
    committer: &Committer,
    copier: &Copier,
) -> Result<Departure, MoveError> {
    let last = LastCommit {
        seq: committer.position.seq,
        batch: copier.commit().map(|(_, batch)| batch),
        counter: committer.position.counter,
    };
    let number = copier.target.last_step();
    match held.mark(last, number, copier.target.ids()).await {
        Ok(departure) => Ok(departure),
        Err(MarkError::Unmarked(error)) => Err(error.into()),
        // It may come as late as it likes: the copy must not be touched any more.
        Err(MarkError::Unknown(error)) => Err(MoveError::Unknown(error)),
        Err(MarkError::Lost(error)) => {
            // Either database may be the one that counts. A start finds out.
            tracing::error!(%error, "the mark of the move could not be written; the process exits to be restarted");
            std::process::abort();
        }
    }
}
