//! The channel by which a task publishes its state.

use tokio::sync::watch;

use super::status::GroupStatus;
use crate::migration::plan::target::Owner;
use crate::migration::task::changes::Changes;

/// The channel by which a task publishes its state.
pub struct StatusPublisher {
    status: watch::Sender<GroupStatus>,
    changes: Changes,
    owner: Owner,
}

impl StatusPublisher {
    pub(in crate::migration) fn new(
        status: watch::Sender<GroupStatus>,
        changes: Changes,
        owner: Owner,
    ) -> Self {
        Self {
            status,
            changes,
            owner,
        }
    }

    /// Returns the status as it is now.
    pub fn status(&self) -> GroupStatus {
        self.status.borrow().clone()
    }

    /// Changes the status, and wakes the controller if that made a difference.
    pub fn update(&self, change: impl FnOnce(&mut GroupStatus)) {
        let changed = self.status.send_if_modified(|status| {
            let before = status.clone();
            change(status);
            *status != before
        });
        if changed {
            self.changes.push(&self.owner.name);
        }
    }
}
