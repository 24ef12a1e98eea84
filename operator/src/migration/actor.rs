//! The task of one API group: observe, decide, carry out, report.

use tokio::sync::watch;

use super::{
    status::GroupStatus,
    supervisor::{Changes, Deps},
    target::{GroupTarget, Owner},
};

/// Where a task publishes its state.
pub(super) struct Report {
    status: watch::Sender<GroupStatus>,
    changes: Changes,
    owner: Owner,
}

impl Report {
    pub(super) fn new(status: watch::Sender<GroupStatus>, changes: Changes, owner: Owner) -> Self {
        Self {
            status,
            changes,
            owner,
        }
    }

    /// Changes the status and wakes the controller if that made a difference.
    pub(super) fn update(&self, change: impl FnOnce(&mut GroupStatus)) {
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

/// Runs until it is aborted or the supervisor drops the target's sender.
pub(super) async fn run(
    _deps: Deps,
    _owner: Owner,
    mut target: watch::Receiver<GroupTarget>,
    report: Report,
) {
    while target.changed().await.is_ok() {
        report.update(|status| status.message = "waiting for the first observation".to_owned());
    }
}
