//! The work that goes on while the `ReportsServer` is suspended. Pure.

use super::action::{Action, Decision, SwitchFrom};
use super::phase::Phase;
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
            "suspended before the step {step}; nothing new is begun while spec.suspend is true"
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
fn phase(o: &Observed, step: StepName) -> Phase {
    match step.phase() {
        Phase::Switching => Phase::Verifying,
        Phase::RollingBack | Phase::Pruning if o.notes.pruned_at.is_some() => Phase::Completed,
        Phase::RollingBack | Phase::Pruning => Phase::Serving,
        phase => phase,
    }
}
