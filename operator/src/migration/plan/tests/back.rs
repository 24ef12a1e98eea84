//! The way back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;

#[test]
fn the_way_back_step_by_step() {
    let mut t = target();
    t.owner = ApiOwner::Crd;
    assert_eq!(action(&served(99), &t), Action::Back);
    let mut o = served(99);
    o.server_just_started = true;
    assert_eq!(problem(&o, &t).reason, reasons::DEPENDENCY_NOT_READY);
    // Taken away: our objects can only be read through the public API.
    assert_eq!(
        action(&observed(Holder::Crd, GateState::Open, true), &t),
        Action::Retake
    );
    // Taken away in part: both sides take writes.
    let mut o = served(99);
    let mut other = o.versions[0].clone();
    other.holder = Holder::Crd;
    o.versions.push(other);
    assert_eq!(action(&o, &t), Action::Retake);
    // Nobody makes the APIService of a version that the CRD has no more.
    o.versions[1].holder = Holder::Absent;
    assert_eq!(action(&o, &t), Action::Back);
    // Held by somebody who is gone: clients are served first.
    assert_eq!(
        action(&observed(Holder::Ours, GateState::Held, true), &t),
        Action::Reopen
    );
    // Released: that way is gone to its end, whatever is wanted by then.
    for holder in [Holder::Ours, Holder::Crd] {
        for wanted in [&t, &target()] {
            let o = released(holder.clone());
            assert_eq!(action(&o, wanted), Action::Release);
        }
    }
    let done = observed(Holder::Crd, GateState::Closed, true);
    assert!(matches!(
        plan(&done, &t),
        Decision::Idle {
            phase: MigrationPhase::RolledBack,
            ..
        }
    ));
    // Never opened: etcd has everything.
    assert_eq!(
        action(&observed(Holder::Ours, GateState::Held, false), &t),
        Action::Undo
    );
    // Taken away while requests were held: the server has what etcd may lack.
    for wanted in [&t, &target()] {
        assert_eq!(
            action(&observed(Holder::Crd, GateState::Held, true), wanted),
            Action::Retake
        );
    }
    // Taken back: what etcd got meanwhile is looked for before anything is written there.
    let mut o = observed(Holder::Ours, GateState::Open, false);
    assert_eq!(action(&o, &t), Action::Settle);
    o.resources
        .iter_mut()
        .for_each(|r| r.stored.status.settled = true);
    assert_eq!(action(&o, &t), Action::Back);
    // Changed one's mind before the release: we still have everything.
    assert_eq!(
        action(&observed(Holder::Ours, GateState::Held, true), &target()),
        Action::Reopen
    );
}

#[test]
fn a_switch_that_was_cut_off_after_the_drain_goes_to_its_end_before_the_way_back() {
    let mut t = target();
    t.owner = ApiOwner::Crd;
    let mut o = observed(Holder::Ours, GateState::Held, false);
    let since = o.now;
    o.notes.switched_at = Some(since);
    let door = |token: &str| Some(with_door(&crd("policyreports"), token));
    // Not drained for this switch: the caches of the CRDs are as they were.
    o.resources[1].crd = door("an earlier one");
    assert_eq!(action(&o, &t), Action::Undo);
    // One CRD is enough: its clients would be told 410.
    o.resources[1].crd = door(&since.to_string());
    let finish = Action::Switch(SwitchFrom::Confirm);
    assert_eq!(action(&o, &t), finish);
    t.suspended = true;
    assert_eq!(action(&o, &t), finish);
    t.suspended = false;
    // Requests are not held for ever.
    o.now = due::after(since, LONGEST_HOLD);
    assert_eq!(action(&o, &t), Action::Undo);
    // Somebody has led the clients away.
    o.now = since;
    o.versions[0].holder = Holder::Crd;
    assert_ne!(action(&o, &t), finish);
}

#[test]
fn a_group_that_was_opened_in_part_is_opened_whole_before_the_way_back() {
    let mut t = target();
    t.owner = ApiOwner::Crd;
    let mut o = observed(Holder::Ours, GateState::Held, false);
    // Held again since: nothing may be copied to what has taken writes.
    o.resources[0].stored.status.opened = true;
    assert_eq!(action(&o, &t), Action::Reopen);
    o.resources[0].stored.status.gate = GateState::Open;
    assert_eq!(action(&o, &t), Action::Switch(SwitchFrom::Confirm));
}

#[test]
fn a_door_that_a_way_back_left_open_is_closed_only_on_request() {
    let mut t = target();
    t.owner = ApiOwner::Crd;
    let mut o = observed(Holder::Crd, GateState::Closed, true);
    let mut open = with_door(&crd("policyreports"), "t");
    o.resources[1].crd = Some(open.clone());
    let Decision::Idle { message, .. } = plan(&o, &t) else {
        panic!()
    };
    assert!(message.contains(objects::CLOSE_ANNOTATION));
    open.object.metadata.annotations =
        Some([(objects::CLOSE_ANNOTATION.into(), "true".into())].into());
    o.resources[1].crd = Some(open);
    assert_eq!(action(&o, &t), Action::CloseDoor);
}

#[test]
fn reports_are_not_given_back_to_crds_that_are_gone() {
    let mut t = target();
    t.owner = ApiOwner::Crd;
    let mut o = served(99);
    o.resources[0].crd = None;
    assert_eq!(problem(&o, &t).reason, reasons::CRD_MISSING);
    o.resources[0].stored.status.objects = 0;
    assert_eq!(action(&o, &t), Action::Back);
    // One that is being deleted takes along what is written to it.
    let mut o = served(99);
    if let Some(crd) = &mut o.resources[0].crd {
        crd.object.metadata.deletion_timestamp = Some(Time(o.now));
    }
    assert_eq!(problem(&o, &t).reason, reasons::CRD_MISSING);
}

#[test]
fn a_reverted_group_goes_back_and_stays_there() {
    let mut o = served(5);
    o.reverted = Some("slow".into());
    assert_eq!(action(&o, &target()), Action::Back);
    let mut o = observed(Holder::Crd, GateState::Closed, true);
    o.reverted = Some("slow".into());
    let Decision::Idle { phase, message, .. } = plan(&o, &target()) else {
        panic!()
    };
    assert_eq!(phase, MigrationPhase::RolledBack);
    assert!(message.contains("slow"));
}

/// Returns a group that is held, and written back to etcd whole.
fn released(holder: Holder) -> Observed {
    let mut o = observed(holder, GateState::Held, true);
    o.resources
        .iter_mut()
        .for_each(|r| r.stored.status.released = true);
    o
}
