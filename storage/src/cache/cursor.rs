//! The place of one watch in the events of a resource.

use std::sync::Arc;

use tokio::sync::watch;

use super::resource::Look;
use super::{Event, LogError, Resource};
use crate::model::ResourceId;

/// The reason why a cursor returns no more events.
#[derive(Debug, thiserror::Error)]
pub enum CursorError {
    /// The watcher was so slow that its place was compacted: 410 Expired.
    #[error("too old resource version: {position} ({oldest})")]
    Lagged {
        /// The position of the cursor.
        position: u64,
        /// The oldest version from which a watch can begin now.
        oldest: u64,
    },
    /// The gate was closed or the server shuts down: the watch ends cleanly and the client comes
    /// back.
    #[error("watching has ended")]
    Closed {
        /// True when all events were delivered: nothing comes behind the position.
        complete: bool,
    },
    /// The database did not answer. Nothing was skipped, and the same call may be made again.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Pulls the events of one resource in order, each exactly once.
///
/// Nothing is buffered for a watcher: it takes events from the ring that all share, and from the
/// change log when it is behind the ring.
#[derive(Debug)]
pub struct Cursor {
    resource: Arc<Resource>,
    /// The version up to which everything has been delivered.
    position: u64,
    epoch: u64,
    wake: watch::Receiver<u64>,
    milestone: watch::Receiver<u64>,
    /// Newest milestone that the watcher knows of.
    told: u64,
}

impl Cursor {
    pub(super) fn new(
        resource: Arc<Resource>,
        position: u64,
        epoch: u64,
        wake: watch::Receiver<u64>,
        milestone: watch::Receiver<u64>,
    ) -> Self {
        Self {
            resource,
            position,
            epoch,
            wake,
            milestone,
            told: position,
        }
    }

    /// Returns the next events, at most `max` (at least one is returned); waits until there is one.
    ///
    /// Cancel safe: a call that is dropped has taken nothing.
    ///
    /// # Errors
    /// See [`CursorError`].
    pub async fn next(&mut self, max: usize) -> Result<Vec<Arc<Event>>, CursorError> {
        loop {
            if let Some(events) = self.next_or_milestone(max, false).await? {
                return Ok(events);
            }
        }
    }

    /// Returns the same as [`Cursor::next`]; with `milestones`, returns `None` when the watcher has
    /// everything up to a milestone that it has not been told of, so that a bookmark is due.
    ///
    /// # Errors
    /// See [`CursorError`].
    pub async fn next_or_milestone(
        &mut self,
        max: usize,
        milestones: bool,
    ) -> Result<Option<Vec<Arc<Event>>>, CursorError> {
        let max = max.max(1);
        loop {
            self.wake.mark_unchanged();
            let milestone = *self.milestone.borrow_and_update();
            match self.resource.look(self.position, self.epoch, max) {
                Look::Events(events) => return Ok(Some(self.take(events))),
                Look::UpTo(rv) => self.position = self.position.max(rv),
                Look::Last(rv) => {
                    self.position = self.position.max(rv);
                    return Err(CursorError::Closed { complete: true });
                }
                Look::Ended => return Err(CursorError::Closed { complete: false }),
                Look::TooOld(oldest) => return Err(self.lagged(oldest)),
                Look::Older { id, floor } => match self.older(id, floor, max).await? {
                    Some(events) => return Ok(Some(events)),
                    None => continue,
                },
            }
            if milestones && self.told < milestone && milestone <= self.position {
                self.told = milestone;
                return Ok(None);
            }
            let goes_on = tokio::select! {
                woken = self.wake.changed() => woken.is_ok(),
                reached = self.milestone.changed(), if milestones => reached.is_ok(),
            };
            if !goes_on {
                return Err(CursorError::Closed { complete: false });
            }
        }
    }

    /// Returns whether the resource is being given back.
    #[must_use]
    pub fn gives_back(&self) -> bool {
        self.resource.gate().borrow().gives_back()
    }

    /// Returns events that have left the ring; `None` where there are none up to its `floor`.
    async fn older(
        &mut self,
        id: ResourceId,
        floor: u64,
        max: usize,
    ) -> Result<Option<Vec<Arc<Event>>>, CursorError> {
        let events = self.resource.older(id, self.position, max).await?;
        // Rows may have been compacted, or all of them reset, while they were read.
        match self.resource.look(self.position, self.epoch, 1) {
            Look::Ended => return Err(CursorError::Closed { complete: false }),
            Look::TooOld(oldest) => return Err(self.lagged(oldest)),
            Look::Older { .. } | Look::Events(_) | Look::UpTo(_) | Look::Last(_) => {}
        }
        if events.is_empty() {
            self.position = floor;
            return Ok(None);
        }
        Ok(Some(self.take(events)))
    }

    /// Returns the version up to which everything has been delivered: a bookmark may carry it.
    ///
    /// It also advances while nothing happens to this resource, as far as no event is waiting.
    pub fn position(&mut self) -> u64 {
        if let Look::UpTo(rv) | Look::Last(rv) = self.resource.look(self.position, self.epoch, 1) {
            self.position = self.position.max(rv);
        }
        self.position
    }

    fn take(&mut self, events: Vec<Arc<Event>>) -> Vec<Arc<Event>> {
        if let Some(last) = events.last() {
            self.position = self.position.max(last.rv());
        }
        events
    }

    fn lagged(&self, oldest: u64) -> CursorError {
        CursorError::Lagged {
            position: self.position,
            oldest,
        }
    }
}
