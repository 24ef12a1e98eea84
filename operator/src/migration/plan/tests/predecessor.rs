//! A group that another server serves, or whose reports are in the database of one.

use super::*;
use crate::migration::plan::target::{Predecessor, PredecessorDatabase};
use crate::migration::steps::import;

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
    // The same where it has ended the watches on the CRDs, whoever is wanted.
    let token = o.now.to_string();
    o.resources[1].crd = Some(with_door(&crd("policyreports"), &token));
    assert!(o.has_drained());
    for owner in [ApiOwner::Server, ApiOwner::Crd] {
        assert_eq!(
            action(&o, &GroupTarget { owner, ..t.clone() }),
            Action::Undo
        );
    }
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
