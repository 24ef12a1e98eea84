//! States of the past, by taking events back.

use std::sync::Arc;

use super::Resource;
use crate::cache::snapshot::Contents;
use crate::cache::{Event, LogError, Snapshot};
use crate::model::ResourceId;

/// The reason why a past state is not available.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// 410 Expired.
    #[error("the resource version is too old: the history begins at {oldest}")]
    Expired {
        /// The oldest version that is still available, as far as is known.
        oldest: u64,
    },
    /// Not reached yet.
    #[error("too large resource version: current is {current}")]
    Future {
        /// The present version.
        current: u64,
    },
    /// The database did not answer.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Most events that [`Resource::snapshot_at`] takes back from the database.
const MAX_UNDO: usize = 20_000;
/// Events that [`Resource::snapshot_at`] reads at a time.
const UNDO_PAGE: usize = 200;

impl Resource {
    /// Returns all objects as they were at `rv`, by taking back the events since.
    ///
    /// # Errors
    /// If `rv` is below the horizon, or further back than the state can be rebuilt, or has not been
    /// reached, or if the database does not answer.
    pub async fn snapshot_at(&self, rv: u64) -> Result<Snapshot, SnapshotError> {
        let applied = self.applied();
        let (id, mut contents, recent, floor) = {
            let state = self.read();
            let current = state.current_rv(applied);
            if rv > current {
                return Err(SnapshotError::Future { current });
            }
            let oldest = state.record.effective_horizon();
            if rv < oldest {
                return Err(SnapshotError::Expired { oldest });
            }
            let recent = state.ring.after(rv, usize::MAX);
            (
                state.record.id,
                state.contents.clone(),
                recent,
                state.ring.floor(),
            )
        };
        undo(&mut contents, &recent)?;
        if rv < floor {
            let older = self.older_events(id, rv, floor).await?;
            undo(&mut contents, &older)?;
        }
        Ok(Snapshot::new(rv, contents))
    }

    /// Returns the events above `rv` up to `floor`, from the database.
    async fn older_events(
        &self,
        id: ResourceId,
        rv: u64,
        floor: u64,
    ) -> Result<Vec<Arc<Event>>, SnapshotError> {
        let mut events: Vec<Arc<Event>> = Vec::new();
        let mut reached = rv;
        while reached < floor {
            let page = self.older(id, reached, UNDO_PAGE).await?;
            let Some(last) = page.last() else { break };
            reached = last.rv();
            events.extend(page);
            if events.len() > MAX_UNDO {
                return Err(SnapshotError::Expired { oldest: floor });
            }
        }
        let oldest = self.horizon();
        if rv < oldest || self.record().id != id {
            return Err(SnapshotError::Expired { oldest });
        }
        events.retain(|e| e.rv() <= floor);
        Ok(events)
    }
}

/// Takes `events` back, newest first.
fn undo(contents: &mut Contents, events: &[Arc<Event>]) -> Result<(), SnapshotError> {
    for event in events.iter().rev() {
        if !contents.undo(event) {
            return Err(SnapshotError::Expired { oldest: event.rv() });
        }
    }
    Ok(())
}
