//! The work that goes on while the `ReportsServer` is suspended. Pure.

use super::action::{Action, Decision, SwitchFrom};
use crds::v1alpha1::status::MigrationPhase;

use super::step::StepName;
use crate::migration::observe::state::Observed;

/// Returns the decision in place of `action` while nothing new may be begun; nothing where the
/// action goes on.
#[must_use]
pub fn rest(o: &Observed, action: Action) -> Option<Decision> {
    if goes_on(o, action) {
        return None;
    }
    let step = action.step();
    Some(Decision::Idle {
        phase: phase(o, step),
        message: format!(
            "suspended before the step {step}; nothing new is started while spec.suspend is true"
        ),
        wake: None,
    })
}

/// Returns whether clients would notice if this were left out. Between two steps of a switch
/// requests are held or refused, and what has been given back halfway is served by nobody.
fn goes_on(o: &Observed, action: Action) -> bool {
    match action {
        Action::Switch(SwitchFrom::Patch | SwitchFrom::Confirm)
        | Action::CloseGates
        | Action::Reopen
        | Action::Retake
        | Action::Settle
        | Action::Refresh
        | Action::Undo
        | Action::Release => true,
        Action::Register => o.any_ours(),
        Action::Switch(SwitchFrom::Hold)
        | Action::Mirror
        | Action::Verify
        | Action::ImportDatabase
        | Action::CloseDoor
        | Action::Soak
        | Action::Prune
        | Action::Back => false,
    }
}

/// Returns the phase of a group that waits before `step`.
fn phase(o: &Observed, step: StepName) -> MigrationPhase {
    match step.phase() {
        MigrationPhase::Switching => MigrationPhase::Verifying,
        MigrationPhase::RollingBack | MigrationPhase::Pruning if o.notes.pruned_at.is_some() => {
            MigrationPhase::Completed
        }
        MigrationPhase::RollingBack | MigrationPhase::Pruning => MigrationPhase::Retaining,
        phase => phase,
    }
}
