//! The way forward.

use super::*;
use crate::grant::Rule;

#[test]
fn the_way_forward_step_by_step() {
    let t = target();
    let mut o = observed(Holder::Crd, GateState::Closed, false);
    assert_eq!(action(&o, &t), Action::Mirror);
    o.mirrors = MirrorStage::Copying;
    assert_eq!(action(&o, &t), Action::Mirror);
    o.mirrors = MirrorStage::Following;
    assert_eq!(action(&o, &t), Action::Verify);
    o.verified = true;
    assert_eq!(action(&o, &t), Action::Switch(SwitchFrom::Hold));

    let o = observed(Holder::Ours, GateState::Held, false);
    assert_eq!(action(&o, &t), Action::Switch(SwitchFrom::Confirm));
    let mut o = served(1);
    o.resources[0].stored.status.settled = false;
    assert_eq!(action(&o, &t), Action::Settle);
    let mut o = served(1);
    o.resources[1].crd = Some(with_door(&crd("policyreports"), "t"));
    assert_eq!(action(&o, &t), Action::CloseDoor);
    assert_eq!(action(&served(1), &t), Action::Soak);
    assert!(matches!(
        plan(&served(30), &t),
        Decision::Idle {
            phase: MigrationPhase::Retaining,
            ..
        }
    ));
    assert_eq!(action(&served(61), &t), Action::Prune);
    let mut o = served(90);
    o.notes.pruned_at = Some(o.now);
    assert!(matches!(
        plan(&o, &t),
        Decision::Idle {
            phase: MigrationPhase::Completed,
            wake: None,
            ..
        }
    ));
}

#[test]
fn the_soak_begins_when_late_writes_are_not_looked_for_any_more() {
    let mut t = target();
    t.settings.drain_window = Duration::from_secs(40);
    assert_eq!(action(&served(45), &t), Action::Soak);
    assert!(matches!(plan(&served(51), &t), Decision::Idle { .. }));
}

#[test]
fn late_writes_are_looked_for_when_a_look_is_due() {
    let mut t = target();
    t.settings.drain_window = Duration::from_secs(40);
    let mut o = served(10);
    o.resources[0].stored.status.settled = false;
    assert_eq!(action(&o, &t), Action::Settle, "the first look");
    o.next_look = Some(o.now + SignedDuration::from_secs(5));
    let waits = Decision::Idle {
        phase: MigrationPhase::Soaking,
        message: format!(
            "served by the server; the operator looks for late writes to etcd until {}",
            o.now + SignedDuration::from_secs(30)
        ),
        wake: o.next_look,
    };
    assert_eq!(plan(&o, &t), waits);
    // A window that is taken back, and a group that is to go back, do not wait.
    let without = target();
    assert_eq!(action(&o, &without), Action::Settle);
    t.owner = ApiOwner::Crd;
    assert_eq!(action(&o, &t), Action::Settle);
    t.owner = ApiOwner::Server;
    o.now += SignedDuration::from_secs(5);
    assert_eq!(action(&o, &t), Action::Settle, "the next look");
}

#[test]
fn an_operator_that_died_in_the_switch_goes_on_where_the_cluster_stands() {
    let t = target();
    // After 4a: nobody is served by us, the copy is taken up again.
    let o = observed(Holder::Crd, GateState::Held, false);
    assert_eq!(action(&o, &t), Action::CloseGates);
    // In the middle of 4b: one version patched, one not.
    let mut o = observed(Holder::Ours, GateState::Held, false);
    o.versions.push(version(Holder::Crd));
    assert_eq!(action(&o, &t), Action::Switch(SwitchFrom::Patch));
    // In the middle of 4e: one gate open, one not.
    let mut o = served(1);
    let status = &mut o.resources[0].stored.status;
    (status.gate, status.opened, status.settled) = (GateState::Held, false, false);
    assert_eq!(action(&o, &t), Action::Switch(SwitchFrom::Confirm));
    // A gate that was open already is not copied to again: the server has taken writes.
    let status = &mut o.resources[1].stored.status;
    (status.gate, status.settled) = (GateState::Held, false);
    assert_eq!(action(&o, &t), Action::Reopen);
    // In the middle of the prune the door is open, and the prune goes on.
    let mut o = served(90);
    o.resources[1].crd = Some(with_door(&crd("policyreports"), "t"));
    assert_eq!(action(&o, &t), Action::Prune);
}

#[test]
fn a_mirror_that_dies_before_the_switch_is_started_again_and_verified_again() {
    let mut o = observed(Holder::Crd, GateState::Closed, false);
    o.verified = true;
    o.mirrors = MirrorStage::Missing;
    assert_eq!(action(&o, &target()), Action::Mirror);
}

#[test]
fn without_crds_the_group_is_registered() {
    let mut o = observed(Holder::Absent, GateState::Closed, false);
    o.resources.iter_mut().for_each(|r| r.crd = None);
    assert_eq!(action(&o, &target()), Action::Register);
    // Died between the APIService and the gates.
    let mut o = observed(Holder::Ours, GateState::Closed, false);
    o.resources.iter_mut().for_each(|r| r.crd = None);
    assert_eq!(action(&o, &target()), Action::Register);
}

#[test]
fn refusals_name_what_is_wrong() {
    let t = target();
    let closed = || observed(Holder::Crd, GateState::Closed, false);

    let foreign = observed(Holder::Foreign("x/y".into()), GateState::Closed, false);
    let found = problem(&foreign, &t);
    assert_eq!(
        (found.reason, found.stalled),
        (reasons::FOREIGN_API_SERVICE, true)
    );
    assert!(found.message.contains("v1alpha2.wgpolicyk8s.io") && found.message.contains("x/y"));

    let mut o = closed();
    let mut webhook = crd_json("policyreports");
    webhook["spec"]["conversion"] = json!({"strategy": "Webhook"});
    o.resources[1].crd = Some(Crd::new(serde_json::from_value(webhook).unwrap()));
    assert_eq!(problem(&o, &t).reason, reasons::WEBHOOK_CONVERSION);

    let mut o = closed();
    o.strangers = vec!["clusterpolicies.wgpolicyk8s.io".into()];
    assert_eq!(problem(&o, &t).reason, reasons::UNSUPPORTED_VERSION);

    let mut o = closed();
    o.resources[0].stored.status.versions.clear();
    assert_eq!(problem(&o, &t).reason, reasons::UNSUPPORTED_VERSION);

    let mut o = closed();
    o.missing_rights = vec!["patch apiservices".into()];
    let refused =
        "\" cannot patch resource \"apiservices\" in API group \"a\" at the cluster scope";
    o.missing_rules.extend(Rule::of_refusal(refused));
    let found = problem(&o, &t);
    assert_eq!(found.reason, reasons::FORBIDDEN);
    assert!(found.message.contains("patch apiservices"));
    let rule = "{apiGroups: [\"a\"], resources: [\"apiservices\"], verbs: [\"patch\"]}";
    assert!(found.message.ends_with(rule), "{}", found.message);

    let mut o = closed();
    o.control_available = false;
    assert_eq!(problem(&o, &t).reason, reasons::CONTROL_API_UNAVAILABLE);

    let absent = observed(Holder::Absent, GateState::Closed, false);
    assert_eq!(problem(&absent, &t).reason, reasons::PREFLIGHT_FAILED);
}

#[test]
fn manual_approval_waits_for_the_hash_of_this_plan() {
    let mut t = target();
    t.settings.approval = Approval::Manual;
    let mut o = observed(Holder::Crd, GateState::Closed, false);
    o.mirrors = MirrorStage::Following;
    o.verified = true;
    let hash = o.plan_hash(&t);
    assert!(problem(&o, &t).message.contains(&hash));
    t.settings.approved_plan = Some("sha256:of-another-plan".into());
    assert_eq!(problem(&o, &t).reason, reasons::AWAITING_APPROVAL);
    t.settings.approved_plan = Some(hash.clone());
    assert_eq!(action(&o, &t), Action::Switch(SwitchFrom::Hold));
    t.settings.prune_after = None;
    assert_ne!(o.plan_hash(&t), hash);
}

#[test]
fn a_dry_run_stops_before_anything_is_switched_and_goes_on_from_there() {
    let mut t = target();
    t.settings.dry_run = true;
    let mut o = observed(Holder::Crd, GateState::Closed, false);
    assert_eq!(action(&o, &t), Action::Mirror);
    o.mirrors = MirrorStage::Following;
    assert_eq!(action(&o, &t), Action::Verify);
    o.verified = true;
    o.plan = Some(Plan {
        reports: 18_000,
        ..Plan::default()
    });
    let Decision::Idle { phase, message, .. } = plan(&o, &t) else {
        panic!("{:?}", plan(&o, &t));
    };
    assert_eq!(phase, MigrationPhase::DryRun);
    assert!(message.contains("18000 reports") && message.contains("spec.migration.dryRun"));
    t.settings.dry_run = false;
    assert_eq!(action(&o, &t), Action::Switch(SwitchFrom::Hold));
}

#[test]
fn a_dry_run_neither_registers_nor_prunes_but_ends_what_has_begun() {
    let mut t = target();
    t.settings.dry_run = true;
    let mut o = observed(Holder::Absent, GateState::Closed, false);
    o.resources.iter_mut().for_each(|r| r.crd = None);
    assert!(matches!(
        plan(&o, &t),
        Decision::Idle {
            phase: MigrationPhase::DryRun,
            ..
        }
    ));
    let Decision::Idle { phase, message, .. } = plan(&served(61), &t) else {
        panic!("{:?}", plan(&served(61), &t));
    };
    assert_eq!(phase, MigrationPhase::Retaining);
    assert!(message.contains("kept while spec.migration.dryRun is true"));
    // Interrupted in the prune: the CRDs are left as their owner shipped them.
    let mut o = served(61);
    o.resources[1].crd = Some(with_door(&crd("policyreports"), "t"));
    assert_eq!(action(&o, &t), Action::CloseDoor);
    // Clients wait in a switch that has begun.
    let o = observed(Holder::Ours, GateState::Held, false);
    assert_eq!(action(&o, &t), Action::Switch(SwitchFrom::Confirm));
    t.owner = ApiOwner::Crd;
    assert_eq!(action(&served(61), &t), Action::Back);
}

#[test]
fn nothing_is_pruned_where_the_database_is_not_persistent_or_the_copies_are_kept() {
    let mut t = target();
    t.persistent = false;
    assert!(matches!(
        plan(&served(9999), &t),
        Decision::Idle {
            phase: MigrationPhase::Completed,
            ..
        }
    ));
    let mut t = target();
    t.settings.prune_after = None;
    assert!(matches!(
        plan(&served(9999), &t),
        Decision::Idle {
            phase: MigrationPhase::Completed,
            ..
        }
    ));
}
