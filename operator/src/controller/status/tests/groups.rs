//! The groups of a `ReportsServer`, as they are told.

use super::*;
use crate::migration::{Counted, Plan};

#[test]
fn a_dry_run_that_is_through_is_ready_and_shows_its_plan() {
    let object = fixtures::object(spec());
    let mut dry = group(MigrationPhase::DryRun, ServedBy::Crd);
    dry.plan = Some(Plan {
        hash: "sha256:0".into(),
        reports: 18_000,
        bytes: 44_000_000,
        copy_seconds: Some(12),
        switch_seconds: 16,
        prune_seconds: None,
    });
    let status = status_of(&object, &applied(true, true, true), &[dry]);
    let dry_run = |is| Some((is, reasons::DRY_RUN));
    assert_eq!(condition(&status, types::READY), dry_run("True"));
    assert_eq!(condition(&status, types::DATA_MIGRATED), dry_run("True"));
    assert_eq!(
        condition(&status, types::API_SERVICES_REGISTERED),
        dry_run("False")
    );
    assert_eq!(kstatus(&status, 3), "Current");
    assert_eq!(status.served.as_deref(), Some("0/1"));
    let plan = status.migration.unwrap().groups[0].plan.clone().unwrap();
    assert_eq!((plan.reports, plan.copy_seconds), (18_000, Some(12)));
    assert_eq!((plan.switch_seconds, plan.prune_seconds), (16, None));
}

fn named(name: &str, phase: MigrationPhase, message: &str) -> GroupStatus {
    GroupStatus {
        group: name.into(),
        message: message.into(),
        ..group(phase, ServedBy::Crd)
    }
}

#[test]
fn phase_and_message_tell_of_the_same_group() {
    let apis = ["a.example", "b.example", "c.example"]
        .map(|group| json!({"group": group, "owner": "Server"}));
    let object = fixtures::object(json!({"apis": apis}));
    let told = |groups: &[GroupStatus]| {
        let status = status_of(&object, &applied(true, true, true), groups);
        let ready = status.conditions.iter().find(|c| c.type_ == types::READY);
        let migration = status.migration.unwrap();
        let phase = migration.phase.unwrap().as_str().to_owned();
        (
            phase,
            migration.message.unwrap(),
            ready.unwrap().message.clone(),
        )
    };
    let mut groups = [
        named("a.example", MigrationPhase::Verifying, "comparing"),
        named("b.example", MigrationPhase::Mirroring, "copying"),
        named("c.example", MigrationPhase::Completed, "served"),
    ];
    let (phase, message, ready) = told(&groups);
    assert_eq!(
        (phase.as_str(), message.as_str()),
        ("Mirroring", "b.example: copying")
    );
    assert_eq!(ready, "b.example: Mirroring: copying");
    // What nobody but a person can mend comes first, wherever its group stands.
    groups[2].problem = Some(problem(true));
    let (phase, message, ready) = told(&groups);
    assert_eq!(
        (phase.as_str(), message.as_str()),
        ("Completed", "c.example: somebody else")
    );
    assert_eq!(ready, "c.example: somebody else");
}

#[test]
fn a_group_that_only_a_person_can_help_stalls() {
    let object = fixtures::object(spec());
    let mut preflight = group(MigrationPhase::Preflight, ServedBy::Foreign);
    preflight.problem = Some(problem(true));
    let status = status_of(&object, &applied(true, true, true), &[preflight.clone()]);
    assert_eq!(kstatus(&status, 3), "Failed");
    assert_eq!(
        condition(&status, types::READY),
        Some(("False", "ForeignAPIService"))
    );
    preflight.problem = Some(problem(false));
    let status = status_of(&object, &applied(true, true, true), &[preflight]);
    assert_eq!(kstatus(&status, 3), "InProgress");
}

#[test]
fn a_deletion_tells_how_far_the_way_back_is() {
    let object = fixtures::object(spec());
    let mut back = group(MigrationPhase::RollingBack, ServedBy::Server);
    let message = |back: &GroupStatus| {
        let groups = std::slice::from_ref(back);
        let status = compute(&object, &State::Deleting { found: None }, groups, at(0));
        let ready = status.conditions.iter().find(|c| c.type_ == types::READY);
        ready.unwrap().message.clone()
    };
    assert!(!message(&back).contains("at work"));
    back.progress = Some(Counted {
        done: 1_234,
        total: 10_000,
    });
    assert_eq!(message(&back), "a.example: at work: 1,234/10,000");
}

#[test]
fn groups_given_back_are_ready_too() {
    let spec = json!({"apis": [{"group": GROUP, "owner": "CRD"}]});
    let object = fixtures::object(spec);
    let groups = [group(MigrationPhase::RolledBack, ServedBy::Crd)];
    let status = status_of(&object, &applied(true, true, true), &groups);
    assert_eq!(
        condition(&status, types::READY),
        Some(("True", reasons::ROLLED_BACK))
    );
    assert_eq!(status.served.as_deref(), Some("0/0"));
}

#[rstest]
#[case::nothing_pruned(true, false, ("True", reasons::AS_EXPECTED))]
#[case::pruned(true, true, ("True", reasons::SOURCE_PRUNED))]
#[case::no_crd(false, true, ("False", reasons::CRD_MISSING))]
fn the_way_back_is_told(
    #[case] crds_present: bool,
    #[case] pruned: bool,
    #[case] expected: (&str, &str),
) {
    let object = fixtures::object(spec());
    let mut completed = group(MigrationPhase::Completed, ServedBy::Server);
    completed.crds_present = crds_present;
    completed.pruned_at = pruned.then(|| at(0));
    let status = status_of(&object, &applied(true, true, true), &[completed]);
    assert_eq!(
        condition(&status, types::ROLLBACK_AVAILABLE),
        Some(expected)
    );
}
