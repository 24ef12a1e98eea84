//! A suspended `ReportsServer`.

use super::*;

fn phase_at_rest(decision: &Decision) -> MigrationPhase {
    match decision {
        Decision::Idle {
            phase, wake: None, ..
        } => *phase,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_new_is_begun_while_suspended() {
    let mut o = observed(Holder::Crd, GateState::Closed, false);
    let decision = suspended(&o, ApiOwner::Server);
    assert_eq!(phase_at_rest(&decision), MigrationPhase::Mirroring);
    (o.mirrors, o.verified) = (MirrorStage::Following, true);
    let decision = suspended(&o, ApiOwner::Server);
    assert_eq!(phase_at_rest(&decision), MigrationPhase::Verifying);
    let Decision::Idle { message, .. } = decision else {
        unreachable!()
    };
    assert_eq!(
        message,
        "suspended before the step SwitchHold; nothing new is started while spec.suspend is true"
    );
    let prunable = served(3600);
    let decision = suspended(&prunable, ApiOwner::Server);
    assert_eq!(phase_at_rest(&decision), MigrationPhase::Retaining);
    let decision = suspended(&prunable, ApiOwner::Crd);
    assert_eq!(phase_at_rest(&decision), MigrationPhase::Retaining);
    let mut pruned = served(3600);
    pruned.notes.pruned_at = Some(pruned.now);
    let decision = suspended(&pruned, ApiOwner::Crd);
    assert_eq!(phase_at_rest(&decision), MigrationPhase::Completed);
}

#[test]
fn what_clients_wait_for_comes_to_its_end_while_suspended() {
    let goes_on = |o: &Observed, owner| match suspended(o, owner) {
        Decision::Run(action) => action,
        other => panic!("{other:?}"),
    };
    // An operator died in a switch, and the next one finds it suspended.
    let mut half = observed(Holder::Ours, GateState::Held, false);
    let action = goes_on(&half, ApiOwner::Server);
    assert_eq!(action, Action::Switch(SwitchFrom::Confirm));
    half.versions.push(version(Holder::Crd));
    let action = goes_on(&half, ApiOwner::Server);
    assert_eq!(action, Action::Switch(SwitchFrom::Patch));
    // The same in the hold of a way back, and after it.
    let held = observed(Holder::Ours, GateState::Held, true);
    assert_eq!(goes_on(&held, ApiOwner::Crd), Action::Reopen);
    let mut released = held;
    for resource in &mut released.resources {
        resource.stored.status.released = true;
    }
    assert_eq!(goes_on(&released, ApiOwner::Crd), Action::Release);
}

#[test]
fn a_group_without_crds_is_not_left_halfway_while_suspended() {
    let mut o = observed(Holder::Ours, GateState::Closed, false);
    for resource in &mut o.resources {
        resource.crd = None;
    }
    let register = Decision::Run(Action::Register);
    assert_eq!(suspended(&o, ApiOwner::Server), register);
    o.versions = vec![version(Holder::Absent)];
    let decision = suspended(&o, ApiOwner::Server);
    assert!(matches!(decision, Decision::Idle { .. }), "{decision:?}");
}
