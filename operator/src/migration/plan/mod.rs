//! The decision about the next action. Pure: the same observation always leads to the same
//! decision.

pub mod action;
pub mod due;
pub mod estimate;
pub mod preflight;
pub mod step;
pub mod suspension;
pub mod target;
pub mod verified;

use std::time::Duration;

use crds::control::GateState;
use crds::v1alpha1::reasons;
use crds::v1alpha1::spec::{ApiOwner, Approval};
use crds::v1alpha1::status::MigrationPhase;
use jiff::Timestamp;

use self::action::{Action, Decision, SwitchFrom};
use self::estimate::Plan;

use self::step::StepName;
use self::target::GroupTarget;
use crate::apiservice::Holder;
use crate::migration::observe::state::{MirrorStage, Observed, Resource};
use crate::migration::report::status::Problem;

/// The age of a switch up to which it is brought to its end on the way back. Requests are held for
/// as long: then a 410 is the smaller evil.
const LONGEST_HOLD: Duration = Duration::from_mins(2);

fn wait(step: StepName, problem: Problem) -> Decision {
    Decision::Wait {
        step,
        phase: step.phase(),
        problem,
    }
}

/// Decides the next action.
#[must_use]
pub fn plan(o: &Observed, target: &GroupTarget) -> Decision {
    match decide(o, target) {
        Decision::Run(action) if target.suspended => {
            suspension::rest(o, action).unwrap_or(Decision::Run(action))
        }
        decision => decision,
    }
}

fn decide(o: &Observed, target: &GroupTarget) -> Decision {
    if o.is_released() {
        // Whoever is wanted by now: the way leads to the CRDs first.
        return if o.control_available {
            Decision::Run(Action::Release)
        } else {
            wait(StepName::BackRelease, control_unavailable())
        };
    }
    match (target.owner, &o.reverted) {
        (ApiOwner::Crd, _) | (_, Some(_)) => back(o, target),
        (ApiOwner::Server, None) if o.all_ours() => served(o, target),
        (ApiOwner::Server, None) => forward(o, target),
    }
}

/// Decides on the way to our server, while at least one version is not ours.
fn forward(o: &Observed, target: &GroupTarget) -> Decision {
    if let Some(problem) = preflight::refusal(o, target) {
        return wait(StepName::Preflight, problem);
    }
    let partly = o.any_ours();
    if partly && o.notes.can_return && !o.is_ahead_of_etcd() {
        // Died while it patched the APIServices; what the predecessor got since is not known.
        return Decision::Run(Action::Undo);
    }
    if !o.has_crds() && o.predecessor.is_none() {
        if target.settings.dry_run && !partly {
            return dry_run("no CRD serves the group, so there is nothing to copy");
        }
        return Decision::Run(Action::Register);
    }
    if o.is_ahead_of_etcd() {
        // Taken away, or a version that the CRD has gained: either way etcd was written to.
        return Decision::Run(Action::Retake);
    }
    if partly {
        let held = o.gates_are(GateState::Held);
        let action = if held {
            Action::Switch(SwitchFrom::Patch)
        } else {
            Action::Undo
        };
        return Decision::Run(action);
    }
    if o.mirrors == MirrorStage::Missing && !o.gates_are(GateState::Closed) {
        return Decision::Run(Action::CloseGates);
    }
    if o.mirrors < MirrorStage::Following {
        return Decision::Run(Action::Mirror);
    }
    if !o.verified {
        return Decision::Run(Action::Verify);
    }
    if target.settings.dry_run {
        let described = o.plan.as_ref().map(Plan::describe);
        return dry_run(&described.unwrap_or_default());
    }
    if let Some(problem) = approval(o, target) {
        return wait(StepName::Approve, problem);
    }
    Decision::Run(Action::Switch(SwitchFrom::Hold))
}

/// Returns the decision of a dry run, when everything that changes nothing is done.
fn dry_run(found: &str) -> Decision {
    Decision::Idle {
        phase: MigrationPhase::DryRun,
        message: format!(
            "dry run: {found}; nothing is switched while spec.migration.dryRun is true"
        ),
        wake: None,
    }
}

/// Decides when every version is ours.
fn served(o: &Observed, target: &GroupTarget) -> Decision {
    let closed = o.resources.iter().filter(|r| r.gate() != GateState::Open);
    let (mut any, mut reopen, mut with_crd) = (false, false, false);
    for resource in closed {
        any = true;
        reopen |= resource.is_to_reopen();
        with_crd |= resource.crd.is_some();
    }
    if !o.control_available {
        let phase = if o.notes.pruned_at.is_some() {
            MigrationPhase::Completed
        } else {
            MigrationPhase::Retaining
        };
        let problem = control_unavailable();
        return Decision::Wait {
            step: StepName::Soak,
            phase,
            problem,
        };
    }
    if any {
        return Decision::Run(match (reopen, with_crd) {
            (true, _) => Action::Reopen,
            _ if o.notes.can_return && o.is_ahead_of_etcd() => Action::Reopen,
            // The last writes to the predecessor are lost with the watches: it is asked again.
            _ if o.notes.can_return => Action::Undo,
            _ if o.notes.taken_from.is_some() => {
                return wait(StepName::SwitchConfirm, database_lost());
            }
            (false, false) => Action::Register,
            (false, true) if o.notes.pruned_at.is_some() || o.notes.was_pruned => {
                return wait(StepName::SwitchConfirm, database_lost());
            }
            (false, true) => Action::Switch(SwitchFrom::Confirm),
        });
    }
    if o.versions.iter().any(|v| v.outdated) || o.is_dated_ahead() {
        return Decision::Run(Action::Refresh);
    }
    if o.resources.iter().any(|r| !r.stored.status.settled) {
        return settle(o, target);
    }
    if is_import_due(o, target) {
        return Decision::Run(Action::ImportDatabase);
    }
    let since = o.notes.switched_at.unwrap_or(o.now);
    if o.now < due::soaked(since, &target.settings) {
        let action = if o.door_open() {
            Action::CloseDoor
        } else {
            Action::Soak
        };
        return Decision::Run(action);
    }
    prune(o, target, since)
}

/// Returns whether a predecessor's database has reports that are still to be imported.
fn is_import_due(o: &Observed, target: &GroupTarget) -> bool {
    target.database.as_ref().is_some_and(|database| {
        let note = o.import.as_ref();
        !note.is_some_and(|note| note.is_done(database))
    })
}

/// Decides on the look for late writes; between two looks there is nothing to do.
fn settle(o: &Observed, target: &GroupTarget) -> Decision {
    let waits = due::drained(o, target).zip(o.next_look);
    match waits.filter(|(_, next)| o.now < *next) {
        Some((until, next)) => Decision::Idle {
            phase: MigrationPhase::Soaking,
            message: format!(
                "served by the server; the operator looks for late writes to etcd until {until}"
            ),
            wake: Some(next),
        },
        None => Decision::Run(Action::Settle),
    }
}

/// Decides on the copies in etcd, after the soak.
fn prune(o: &Observed, target: &GroupTarget, since: Timestamp) -> Decision {
    if let Some(keep) = target.settings.prune_after
        && target.persistent
        && o.has_crds()
        && o.notes.pruned_at.is_none()
        && o.notes.taken_from.is_none()
    {
        let due = due::after(since, keep);
        let is_due = o.now >= due;
        if is_due && !target.settings.dry_run {
            return Decision::Run(Action::Prune);
        }
        if !o.door_open() {
            let until = if is_due {
                "while spec.migration.dryRun is true".to_owned()
            } else {
                format!("until {due}")
            };
            return Decision::Idle {
                phase: MigrationPhase::Retaining,
                message: format!("served by the server; the copies in etcd are kept {until}"),
                wake: (!is_due).then_some(due),
            };
        }
    }
    if o.door_open() {
        return Decision::Run(Action::CloseDoor);
    }
    let message = match (o.notes.pruned_at, target.persistent) {
        _ if o.notes.taken_from.is_some() => taken_over(o),
        (Some(at), _) => format!("served by the server; the copies in etcd were deleted at {at}"),
        (None, true) => "served by the server; the copies in etcd are kept".to_owned(),
        (None, false) => "served by the server; the copies in etcd are kept because the database \
                          would not survive its pod"
            .to_owned(),
    };
    Decision::Idle {
        phase: MigrationPhase::Completed,
        message,
        wake: None,
    }
}

fn taken_over(o: &Observed) -> String {
    let from = o.notes.taken_from.as_deref().unwrap_or_default();
    format!("served by the server; taken over from {from}, which is no longer needed")
}

/// Decides on the way to the CRDs.
fn back(o: &Observed, target: &GroupTarget) -> Decision {
    let ahead = o.is_ahead_of_etcd();
    if !o.any_ours() && !ahead {
        if !o.gates_are(GateState::Closed) {
            return Decision::Run(Action::CloseGates);
        }
        return restored(o);
    }
    if !o.control_available {
        return wait(StepName::BackOpenDoor, control_unavailable());
    }
    if is_to_finish(o) {
        return Decision::Run(Action::Switch(SwitchFrom::Confirm));
    }
    if !ahead {
        return Decision::Run(Action::Undo);
    }
    if !o.any_ours() || o.any_elsewhere() {
        if let Some(problem) = preflight::refused_versions(o, target) {
            return wait(StepName::BackOpenDoor, problem);
        }
        // Only through the public API can our objects be read, and what was written to etcd through
        // a version that is not ours is taken over before anything is written there.
        return Decision::Run(Action::Retake);
    }
    if o.any_gate(GateState::Held) {
        // Whoever held it is gone. Clients are served before anything else is done.
        return Decision::Run(Action::Reopen);
    }
    if o.has_crds() && o.resources.iter().any(|r| !r.stored.status.settled) {
        // What etcd got behind our back goes to the server before the server's goes to etcd.
        return Decision::Run(Action::Settle);
    }
    if o.server_just_started {
        return wait(StepName::BackOpenDoor, just_started());
    }
    let without: Vec<&str> = o
        .resources
        .iter()
        .filter(|r| match &r.crd {
            Some(crd) => !crd.stays(),
            None => r.stored.status.objects > 0,
        })
        .map(Resource::name)
        .collect();
    if !without.is_empty() {
        return wait(StepName::BackOpenDoor, crd_missing(&without));
    }
    if o.has_crds() {
        Decision::Run(Action::Back)
    } else {
        Decision::Run(Action::Undo)
    }
}

/// Returns whether a switch that was cut off is brought to its end although the CRDs are wanted by
/// now. Where they are drained, the way back alone brings clients there without a 410; and what is
/// served in part cannot be undone.
fn is_to_finish(o: &Observed) -> bool {
    if !o.all_ours() || !o.is_cut_off() || o.notes.can_return {
        return false;
    }
    // What was served before it was held is opened again first: nothing is copied to it.
    let was_served = |r: &Resource| r.gate() == GateState::Held && r.stored.status.opened;
    if o.resources.iter().any(was_served) {
        return false;
    }
    let since = o.notes.switched_at.unwrap_or(o.now);
    o.is_ahead_of_etcd() || o.has_drained() && o.now < due::after(since, LONGEST_HOLD)
}

/// Returns the Service of another server that answers for a version.
fn foreign(o: &Observed) -> Option<&str> {
    o.versions.iter().find_map(|v| match &v.holder {
        Holder::Foreign(service) => Some(service.as_str()),
        _ => None,
    })
}

/// Returns the decision when the CRDs answer and our gates are closed.
fn restored(o: &Observed) -> Decision {
    if o.crds()
        .any(|(_, crd)| crd.door.is_open() && crd.asks_to_close())
    {
        return Decision::Run(Action::CloseDoor);
    }
    let mut message = match (&o.reverted, foreign(o)) {
        (_, Some(service)) => format!("served by {service}"),
        (Some(why), None) => format!(
            "given back to the CRDs: {why}; set owner: CRD, then owner: Server \
                              to try again"
        ),
        (None, None) => "served by the CRDs".to_owned(),
    };
    if o.door_open() {
        message.push_str(
            "; their additional version `legacy` stays, because its removal would cut every watch. \
             It is removed with the next change of the CRD by its owner, or after \
             `kubectl annotate crd NAME reports-server.io/close-door=true`",
        );
    }
    Decision::Idle {
        phase: MigrationPhase::RolledBack,
        message,
        wake: None,
    }
}

fn approval(o: &Observed, target: &GroupTarget) -> Option<Problem> {
    if target.settings.approval == Approval::Automatic {
        return None;
    }
    let hash = o.plan_hash(target);
    let approved = target.settings.approved_plan.as_deref();
    if approved == Some(hash.as_str()) {
        return None;
    }
    let stale = if approved.is_some() {
        "the approved plan is another one; "
    } else {
        ""
    };
    Some(Problem {
        reason: reasons::AWAITING_APPROVAL,
        message: format!(
            "everything is copied and verified; {stale}set spec.migration.approvedPlan to {hash} \
             to switch"
        ),
        stalled: false,
    })
}

fn control_unavailable() -> Problem {
    Problem {
        reason: reasons::CONTROL_API_UNAVAILABLE,
        message: "the control API of the server is not Available; look at the server's pod and \
                  at `kubectl get apiservice v1alpha1.control.reports-server.io`"
            .to_owned(),
        stalled: false,
    }
}

fn just_started() -> Problem {
    Problem {
        reason: reasons::DEPENDENCY_NOT_READY,
        message: "the server was not ready a moment ago; clients get time to reconnect before \
                  they are sent to the CRDs"
            .to_owned(),
        stalled: false,
    }
}

fn database_lost() -> Problem {
    Problem {
        reason: reasons::DATABASE_LOST,
        message: "the server's database has lost its reports, and there are no copies in etcd; \
                  restore the database from a backup"
            .to_owned(),
        stalled: true,
    }
}

fn crd_missing(names: &[&str]) -> Problem {
    Problem {
        reason: reasons::CRD_MISSING,
        message: format!(
            "reports can only be given back to CRDs which are gone or being deleted: {}; install \
             these CRDs again, or keep owner: Server",
            names.join(", ")
        ),
        stalled: true,
    }
}

#[cfg(test)]
pub(in crate::migration) mod tests;
