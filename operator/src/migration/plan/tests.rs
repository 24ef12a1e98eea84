//! Every state that a migration can be found in, and the decision for it.

use std::time::Duration;

use crds::control::{StoredResource, StoredResourceStatus};
use crds::v1alpha1::spec::OnFailure;
use crds::v1alpha1::status::MigrationPhase;
use jiff::SignedDuration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::apiservice::{Holder, ServiceRef};
use crate::migration::cluster::door::objects;
use crate::migration::observe::bypass::Bypass;
use crate::migration::observe::state::{Crd, Notes, Resource, Version};
use crate::migration::plan::target::{Predecessor, PredecessorDatabase, Settings};
use crate::migration::steps::import;

const GROUP: &str = "wgpolicyk8s.io";

pub(in crate::migration) fn target() -> GroupTarget {
    GroupTarget {
        group: GROUP.into(),
        owner: ApiOwner::Server,
        predecessor: None,
        database: None,
        service: ServiceRef {
            namespace: "reports".into(),
            name: "s".into(),
            port: 443,
        },
        ca_bundle: b"PEM".to_vec(),
        server_ready: true,
        control_available: true,
        persistent: true,
        suspended: false,
        settings: Settings {
            soak: Duration::from_secs(10),
            on_failure: OnFailure::Revert,
            prune_after: Some(Duration::from_mins(1)),
            ..Settings::default()
        },
    }
}

fn crd_json(plural: &str) -> serde_json::Value {
    json!({"metadata": {"name": format!("{plural}.{GROUP}"), "uid": plural, "resourceVersion": "1"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": plural, "kind": "K"},
            "versions": [{"name": "v1alpha2", "served": true, "storage": true, "schema":
                {"openAPIV3Schema": {"type": "object"}}}]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]}})
}

pub(in crate::migration) fn crd(plural: &str) -> Crd {
    Crd::new(serde_json::from_value(crd_json(plural)).unwrap())
}

pub(in crate::migration) fn with_door(crd: &Crd, token: &str) -> Crd {
    let mut value = serde_json::to_value(&crd.object).unwrap();
    json_patch::patch(
        &mut value,
        &objects::open_patch(&crd.object, token).unwrap(),
    )
    .unwrap();
    Crd::new(serde_json::from_value::<CustomResourceDefinition>(value).unwrap())
}

pub(in crate::migration) fn resource(
    plural: &str,
    gate: GateState,
    settled: bool,
    crd: Option<Crd>,
) -> Resource {
    let stored = StoredResource {
        api_version: String::new(),
        kind: String::new(),
        metadata: ObjectMeta {
            name: Some(format!("{plural}.{GROUP}")),
            ..ObjectMeta::default()
        },
        status: StoredResourceStatus {
            group: GROUP.into(),
            resource: plural.into(),
            versions: vec!["v1alpha2".into()],
            objects: 5,
            gate,
            opened: settled || gate == GateState::Open,
            settled,
            ..StoredResourceStatus::default()
        },
    };
    Resource { stored, crd }
}

pub(in crate::migration) fn version(holder: Holder) -> Version {
    Version {
        name: "v1alpha2".into(),
        api_service: None,
        holder,
        outdated: false,
    }
}

/// Returns two resources with CRDs, in one state.
fn observed(holder: Holder, gate: GateState, settled: bool) -> Observed {
    let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
    Observed {
        resources: ["clusterpolicyreports", "policyreports"]
            .map(|p| resource(p, gate, settled, Some(crd(p))))
            .to_vec(),
        versions: vec![version(holder)],
        control_available: true,
        now,
        ..Observed::default()
    }
}

fn served(since_seconds: i64) -> Observed {
    let mut o = observed(Holder::Ours, GateState::Open, true);
    let since = o.now - SignedDuration::from_secs(since_seconds);
    o.notes = Notes {
        switched_at: Some(since),
        ..Notes::default()
    };
    o
}

fn action(o: &Observed, target: &GroupTarget) -> Action {
    match plan(o, target) {
        Decision::Run(action) => action,
        other => panic!("{other:?}"),
    }
}

fn problem(o: &Observed, target: &GroupTarget) -> Problem {
    match plan(o, target) {
        Decision::Wait { problem, .. } => problem,
        other => panic!("{other:?}"),
    }
}

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

/// Returns a group about to be switched, for which a cluster has a policy.
fn ruled() -> Observed {
    let mut o = observed(Holder::Crd, GateState::Closed, false);
    o.bypass = Some(Ok(Bypass {
        count: 1,
        named: vec!["ValidatingAdmissionPolicy a".to_owned()],
    }));
    o
}

#[test]
fn what_would_lose_its_effect_holds_a_switch_where_that_is_required() {
    let (mut t, mut o) = (target(), ruled());
    assert_eq!(action(&o, &t), Action::Mirror, "named, and no more");
    t.settings.require_admission = true;
    let told = problem(&o, &t);
    assert_eq!(told.reason, reasons::ADMISSION_BYPASSED);
    assert!(
        told.stalled
            && told
                .message
                .starts_with("ValidatingAdmissionPolicy a would")
    );
    (o.mirrors, o.verified) = (MirrorStage::Following, true);
    assert_eq!(problem(&o, &t).reason, reasons::ADMISSION_BYPASSED);
    let Decision::Wait { step, phase, .. } = plan(&o, &t) else {
        panic!("{:?}", plan(&o, &t));
    };
    assert_eq!(
        (step, phase),
        (StepName::Preflight, MigrationPhase::Preflight)
    );
    o.bypass = Some(Err(Problem::forbidden(&"cannot list resourcequotas")));
    assert_eq!(problem(&o, &t).reason, reasons::FORBIDDEN);
    o.bypass = None;
    assert!(!problem(&o, &t).stalled, "it is not known yet");
    o.bypass = Some(Ok(Bypass::default()));
    assert_eq!(action(&o, &t), Action::Switch(SwitchFrom::Hold));
}

#[test]
fn a_group_without_crds_is_not_registered_either() {
    let mut t = target();
    t.settings.require_admission = true;
    let mut o = ruled();
    o.resources.iter_mut().for_each(|r| r.crd = None);
    o.versions = vec![version(Holder::Absent)];
    assert_eq!(problem(&o, &t).reason, reasons::ADMISSION_BYPASSED);
    t.settings.require_admission = false;
    assert_eq!(action(&o, &t), Action::Register);
}

#[test]
fn whom_the_server_has_served_is_served_whatever_is_required() {
    let mut t = target();
    t.settings.require_admission = true;
    let bypass = ruled().bypass;
    // Between the patches of two APIServices.
    let mut o = observed(Holder::Crd, GateState::Held, false);
    o.versions.push(version(Holder::Ours));
    o.bypass.clone_from(&bypass);
    assert_eq!(action(&o, &t), Action::Switch(SwitchFrom::Patch));
    // Taken away by somebody.
    let mut o = observed(Holder::Crd, GateState::Open, true);
    o.bypass.clone_from(&bypass);
    assert_eq!(action(&o, &t), Action::Retake);
    let mut o = served(1);
    o.bypass = bypass;
    assert_eq!(action(&o, &t), Action::Soak);
}

#[test]
fn the_way_back_does_not_depend_on_what_is_required() {
    let mut t = target();
    t.owner = ApiOwner::Crd;
    let mut o = served(61);
    for bypass in [ruled().bypass, Some(Err(Problem::forbidden(&"no"))), None] {
        o.bypass = bypass;
        for required in [false, true] {
            t.settings.require_admission = required;
            assert_eq!(action(&o, &t), Action::Back);
        }
    }
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
    let found = problem(&o, &t);
    assert_eq!(found.reason, reasons::FORBIDDEN);
    assert!(found.message.contains("patch apiservices"));

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

#[test]
fn a_database_that_was_lost_is_filled_again_from_etcd_unless_that_was_pruned() {
    let mut o = observed(Holder::Ours, GateState::Closed, false);
    assert_eq!(action(&o, &target()), Action::Switch(SwitchFrom::Confirm));
    o.notes.pruned_at = Some(o.now);
    let found = problem(&o, &target());
    assert_eq!(
        (found.reason, found.stalled),
        (reasons::DATABASE_LOST, true)
    );
}

#[test]
fn an_apiservice_that_was_taken_away_is_taken_back_and_etcd_looked_through() {
    let o = observed(Holder::Crd, GateState::Open, true);
    assert_eq!(action(&o, &target()), Action::Retake);
}

#[test]
fn what_was_led_away_by_hand_is_taken_back_or_told_with_what_to_do() {
    let claimed = |holder: Holder| {
        let mut o = observed(holder, GateState::Open, true);
        let object = json!({"metadata": {"annotations": {"reports-server.io/claimed-by": "a"}}});
        o.versions[0].api_service = Some(serde_json::from_value(object).unwrap());
        o
    };
    // Its Service was taken out: etcd may have been written to.
    let local = claimed(Holder::Unmanaged);
    assert_eq!(action(&local, &target()), Action::Retake);
    let away = problem(&claimed(Holder::Foreign("x/y".into())), &target());
    assert_eq!(away.reason, reasons::FOREIGN_API_SERVICE);
    assert!(
        away.message.contains("led away from the server"),
        "{}",
        away.message
    );
    assert!(!away.message.contains("from.server"), "{}", away.message);
    // Back at the server that the group was taken over from.
    let mut back = claimed(Holder::Foreign("x/y".into()));
    let object = json!({"metadata": {"annotations": {"reports-server.io/claimed-by": "a",
        "reports-server.io/taken-from": "x/y"}}});
    back.versions[0].api_service = Some(serde_json::from_value(object).unwrap());
    assert!(problem(&back, &target()).message.contains("from.server"));
    // What nobody of us had is left alone.
    let local = observed(Holder::Unmanaged, GateState::Open, true);
    assert_eq!(
        problem(&local, &target()).reason,
        reasons::FOREIGN_API_SERVICE
    );
}

#[test]
fn a_version_that_the_crd_has_gained_is_taken_over_with_what_etcd_got_through_it() {
    let mut back = target();
    back.owner = ApiOwner::Crd;
    for (holder, expected) in [
        (Holder::Crd, None),
        (
            Holder::Foreign("a/b".into()),
            Some(reasons::FOREIGN_API_SERVICE),
        ),
    ] {
        let mut o = served(99);
        o.versions.push(Version {
            name: "v1beta1".into(),
            ..version(holder)
        });
        for wanted in [&target(), &back] {
            match expected {
                None => assert_eq!(action(&o, wanted), Action::Retake),
                Some(reason) => assert_eq!(problem(&o, wanted).reason, reason),
            }
        }
    }
}

#[test]
fn copies_of_a_crd_that_is_gone_are_not_served() {
    let names = |o: &Observed| -> Vec<String> {
        let leftovers = o.leftovers().map(Resource::name);
        leftovers.map(str::to_owned).collect()
    };
    let mut o = observed(Holder::Crd, GateState::Closed, false);
    assert!(names(&o).is_empty());
    o.resources[1].crd = None;
    assert_eq!(names(&o), ["policyreports.wgpolicyk8s.io"]);
    o.resources[1].stored.status.objects = 0;
    assert!(names(&o).is_empty());
    // What was switched is not a copy any more.
    let mut o = observed(Holder::Ours, GateState::Held, false);
    o.resources[1].crd = None;
    assert!(names(&o).is_empty());
}

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

fn gate() -> impl Strategy<Value = GateState> {
    prop_oneof![
        Just(GateState::Closed),
        Just(GateState::Held),
        Just(GateState::Open)
    ]
}

fn holder() -> impl Strategy<Value = Holder> {
    prop_oneof![
        Just(Holder::Absent),
        Just(Holder::Crd),
        Just(Holder::Ours),
        Just(Holder::Unmanaged),
        Just(Holder::Foreign("a/b".into())),
    ]
}

prop_compose! {
    fn any_observed()(
        holders in prop::collection::vec(holder(), 1..3),
        gates in prop::collection::vec(
            (gate(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()), 1..3),
        mirrors in prop_oneof![Just(MirrorStage::Missing), Just(MirrorStage::Copying),
            Just(MirrorStage::Following)],
        (verified, available, pruned, since) in
            (any::<bool>(), any::<bool>(), any::<bool>(), 0i64..200),
    ) -> Observed {
        let mut o = observed(Holder::Crd, GateState::Closed, false);
        o.versions = holders.into_iter().map(version).collect();
        o.resources = gates
            .into_iter()
            .map(|(gate, settled, opened, has_crd, released)| {
                let crd = has_crd.then(|| crd("policyreports"));
                let mut resource = resource("policyreports", gate, settled, crd);
                resource.stored.status.opened |= opened;
                resource.stored.status.released = released && gate == GateState::Held && settled;
                resource
            })
            .collect();
        o.mirrors = mirrors;
        o.verified = verified;
        o.control_available = available;
        o.notes.switched_at = Some(o.now - SignedDuration::from_secs(since));
        o.notes.pruned_at = pruned.then_some(o.now);
        o
    }
}

proptest! {
    /// Nothing is deleted from etcd, and nothing is switched, unless everything it rests on holds.
    #[test]
    fn dangerous_actions_have_their_grounds(
        o in any_observed(), crd_owner in any::<bool>(), dry_run in any::<bool>()
    ) {
        let mut t = target();
        t.settings.dry_run = dry_run;
        if crd_owner {
            t.owner = ApiOwner::Crd;
        }
        if let Decision::Run(action) = plan(&o, &t) {
            match action {
                Action::Prune => {
                    prop_assert!(!dry_run && !crd_owner && o.all_ours() && o.gates_are(GateState::Open));
                    prop_assert!(o.resources.iter().all(|r| r.stored.status.settled));
                    prop_assert!(o.now >= due::after(o.notes.switched_at.unwrap(), Duration::from_mins(1)));
                    prop_assert!(o.notes.pruned_at.is_none());
                }
                Action::Switch(SwitchFrom::Hold) => {
                    prop_assert!(!dry_run && !o.any_ours() && o.verified && o.control_available);
                    prop_assert_eq!(o.mirrors, MirrorStage::Following);
                    prop_assert!(!o.any_gate(GateState::Open));
                }
                Action::Register => prop_assert!(!dry_run || o.any_ours()),
                // Gates are closed only where our server answers for nothing.
                Action::CloseGates => {
                    prop_assert!(!o.any_ours() && !o.is_ahead_of_etcd());
                }
                // The APIServices are given back only where etcd has everything.
                Action::Release => prop_assert!(o.is_released()),
                // Nobody serves what the CRD may serve already.
                Action::Reopen | Action::Retake | Action::Back => {
                    prop_assert!(!o.is_released());
                }
                // Given back without writing back only where the server has taken no write.
                Action::Undo if o.has_crds() => {
                    prop_assert!(!o.is_ahead_of_etcd());
                }
                // Nothing is copied to what has taken writes.
                Action::Switch(SwitchFrom::Confirm | SwitchFrom::Patch) => {
                    let copied = o.resources.iter().filter(|r| r.gate() != GateState::Open);
                    prop_assert!(copied.clone().all(|r| r.gate() != GateState::Held
                        || !r.stored.status.opened));
                }
                // An import may begin only where nobody is served by us.
                Action::Mirror => prop_assert!(!o.any_ours() && !o.any_gate(GateState::Open)),
                _ => {}
            }
        }
    }
}

const PREDECESSOR: &str = "reports-server/reports-server";

/// Returns a group that is served by a predecessor which the user lets us take the group over from.
fn preceded(gate: GateState) -> (Observed, GroupTarget) {
    let mut o = observed(Holder::Foreign(PREDECESSOR.into()), gate, false);
    o.predecessor = Some(PREDECESSOR.into());
    let predecessor = Predecessor {
        namespace: "reports-server".into(),
        name: "reports-server".into(),
        user: "system:serviceaccount:reports-server:reports-server".into(),
    };
    let target = GroupTarget {
        predecessor: Some(predecessor),
        ..target()
    };
    (o, target)
}

/// Returns a group whose APIServices are ours, and tell how they led to the predecessor.
fn taken(gate: GateState) -> (Observed, GroupTarget) {
    let (mut o, target) = preceded(gate);
    o.predecessor = None;
    o.versions = vec![version(Holder::Ours)];
    o.notes = Notes {
        switched_at: Some(o.now),
        taken_from: Some(PREDECESSOR.into()),
        can_return: true,
        ..Notes::default()
    };
    (o, target)
}

#[test]
fn a_group_is_taken_over_from_a_server_that_the_user_names() {
    let (mut o, t) = preceded(GateState::Closed);
    assert_eq!(action(&o, &t), Action::Mirror);
    o.mirrors = MirrorStage::Following;
    assert_eq!(action(&o, &t), Action::Verify);
    o.verified = true;
    assert_eq!(action(&o, &t), Action::Switch(SwitchFrom::Hold));
    // The same without CRDs: there is nothing to register before it is copied.
    for resource in &mut o.resources {
        resource.crd = None;
    }
    assert_eq!(action(&o, &t), Action::Switch(SwitchFrom::Hold));
    o.mirrors = MirrorStage::Missing;
    assert_eq!(action(&o, &t), Action::Mirror);
    // Another one is left alone.
    let o = observed(Holder::Foreign("a/b".into()), GateState::Closed, false);
    assert_eq!(problem(&o, &t).reason, reasons::FOREIGN_API_SERVICE);
}

#[test]
fn a_predecessor_that_takes_the_group_back_is_not_copied_over_what_the_server_has() {
    let (o, t) = preceded(GateState::Open);
    assert_eq!(problem(&o, &t).reason, reasons::FOREIGN_API_SERVICE);
}

#[test]
fn a_group_that_etcd_serves_as_well_is_not_taken_over() {
    let (mut o, t) = preceded(GateState::Closed);
    o.versions.push(Version {
        name: "v1beta1".into(),
        ..version(Holder::Crd)
    });
    let found = problem(&o, &t);
    assert!(
        found.stalled && found.message.contains("v1beta1"),
        "{found:?}"
    );
}

#[test]
fn a_switch_from_a_predecessor_that_died_is_taken_back_until_a_gate_is_open() {
    let (mut o, t) = taken(GateState::Held);
    assert_eq!(action(&o, &t), Action::Undo);
    // One version patched, one not.
    o.versions
        .push(version(Holder::Foreign(PREDECESSOR.into())));
    o.predecessor = Some(PREDECESSOR.into());
    assert_eq!(action(&o, &t), Action::Undo);
    // One gate open: both have everything.
    let (mut o, t) = taken(GateState::Open);
    let status = &mut o.resources[1].stored.status;
    (status.gate, status.opened) = (GateState::Held, false);
    assert_eq!(action(&o, &t), Action::Reopen);
    // All are open: late writes are looked for, and then nothing leads back.
    let (mut o, t) = taken(GateState::Open);
    assert_eq!(action(&o, &t), Action::Settle);
    for resource in &mut o.resources {
        resource.stored.status.settled = true;
    }
    assert_eq!(action(&o, &t), Action::Soak);
    o.now += SignedDuration::from_hours(48);
    o.notes.can_return = false;
    let Decision::Idle { phase, message, .. } = plan(&o, &t) else {
        panic!("nothing of etcd is pruned that was not copied from there");
    };
    assert_eq!(phase, MigrationPhase::Completed);
    assert!(message.contains(PREDECESSOR), "{message}");
    for resource in &mut o.resources {
        let status = &mut resource.stored.status;
        (status.gate, status.settled, status.opened) = (GateState::Closed, false, false);
    }
    assert_eq!(problem(&o, &t).reason, reasons::DATABASE_LOST);
}

#[test]
fn a_way_back_leads_to_the_crds_or_to_the_predecessor_that_was_not_left() {
    let (o, mut t) = taken(GateState::Held);
    t.owner = ApiOwner::Crd;
    assert_eq!(action(&o, &t), Action::Undo);
    let (mut o, mut t) = taken(GateState::Open);
    t.owner = ApiOwner::Crd;
    for resource in &mut o.resources {
        resource.stored.status.settled = true;
    }
    assert_eq!(action(&o, &t), Action::Back);
    let (o, mut t) = preceded(GateState::Closed);
    t.owner = ApiOwner::Crd;
    let Decision::Idle { message, .. } = plan(&o, &t) else {
        panic!("nothing is to be done");
    };
    assert_eq!(message, format!("served by {PREDECESSOR}"));
}

/// Returns a group that is served, with a database to import reports from.
fn with_database(since_seconds: i64) -> (Observed, GroupTarget) {
    let target = GroupTarget {
        database: Some(PredecessorDatabase::new("ns", "secret", "cluster")),
        ..target()
    };
    (served(since_seconds), target)
}

#[test]
fn what_a_predecessors_database_has_is_imported_between_settle_and_soak() {
    let (mut o, t) = with_database(10_000);
    o.resources[0].stored.status.settled = false;
    assert_eq!(action(&o, &t), Action::Settle);
    o.resources[0].stored.status.settled = true;
    // However long ago the switch was: nothing is pruned before.
    assert_eq!(action(&o, &t), Action::ImportDatabase);
    let database = t.database.clone().unwrap();
    let mut note = import::Note::resume(None, &database);
    o.import = Some(note.clone());
    assert_eq!(action(&o, &t), Action::ImportDatabase, "cut off");
    note.finish(o.now);
    o.import = Some(note);
    assert_eq!(action(&o, &t), Action::Prune);
    // Another database has other reports.
    let mut other = t.clone();
    other.database = Some(PredecessorDatabase::new("ns", "other", "cluster"));
    assert_eq!(action(&o, &other), Action::ImportDatabase);
}

#[test]
fn a_group_without_crds_imports_once_it_is_registered_and_one_that_goes_back_does_not() {
    let (mut o, mut t) = with_database(0);
    for resource in &mut o.resources {
        resource.crd = None;
    }
    assert_eq!(action(&o, &t), Action::ImportDatabase);
    o.control_available = false;
    assert_eq!(problem(&o, &t).reason, reasons::CONTROL_API_UNAVAILABLE);
    let (o, _) = with_database(0);
    t.owner = ApiOwner::Crd;
    assert_eq!(action(&o, &t), Action::Back);
    // Before the switch it has no meaning.
    t.owner = ApiOwner::Server;
    let o = observed(Holder::Crd, GateState::Closed, false);
    assert_eq!(action(&o, &t), Action::Mirror);
}

/// Returns the decision for a suspended `ReportsServer`.
fn suspended(o: &Observed, owner: ApiOwner) -> Decision {
    let target = GroupTarget {
        owner,
        suspended: true,
        ..target()
    };
    plan(o, &target)
}

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

#[test]
fn a_clock_that_was_set_back_does_not_stretch_what_follows_the_switch() {
    let ahead = served(-3600);
    assert_eq!(action(&ahead, &target()), Action::Refresh);
    assert_eq!(
        suspended(&ahead, ApiOwner::Server),
        Decision::Run(Action::Refresh)
    );
    // Clocks of two nodes.
    assert_eq!(action(&served(-30), &target()), Action::Soak);
}
