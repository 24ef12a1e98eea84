//! Statuses of whole situations, judged as kstatus judges them.

mod admission;
mod managed;
mod moving;
mod other_database;
mod refused;
mod upgrade;

use crds::v1alpha1::status::{MigrationPhase, ServedBy};
use crds::v1alpha1::{ReportsServer, ReportsServerStatus, conditions as types, reasons};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::{State, compute};
use crate::certs;
use crate::controller::apply::{Applied, Managed, Recovery, Volume};
use crate::controller::fixtures::{self, validated};
use crate::controller::found::Found;
use crate::controller::validate::Refusal;
use crate::migration::{ApiServiceStatus, Counted, GroupStatus, Plan, Problem};

const GROUP: &str = "a.example";

fn spec() -> Value {
    json!({"apis": [{"group": GROUP, "owner": "Server"}]})
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn applied(ready: bool, available: bool, bound: bool) -> Applied {
    let count = i32::from(ready);
    let object = |value: Value| value;
    Applied {
        deployment: serde_json::from_value(object(json!({
            "metadata": {"name": "simple-server", "generation": 2},
            "spec": {"replicas": 1, "selector": {}, "template": {}},
            "status": {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1,
                "readyReplicas": count, "availableReplicas": count},
        })))
        .unwrap(),
        pods: Vec::new(),
        unmonitored: Vec::new(),
        managed: None,
        data: Some(Volume {
            claim: serde_json::from_value(object(json!({
                "metadata": {"name": "simple-data", "namespace": "target"},
                "status": {"phase": if bound { "Bound" } else { "Pending" }},
            })))
            .unwrap(),
            refused: None,
        }),
        control_api: serde_json::from_value(object(json!({
            "metadata": {"name": "v1alpha1.control.reports-server.io"},
            "status": {"conditions": [{"type": "Available", "message": "no endpoints",
                "status": if available { "True" } else { "False" }}]},
        })))
        .unwrap(),
    }
}

fn issued() -> certs::Outcome {
    let policy = &validated(spec()).certs;
    certs::reconcile("simple", at(0), certs::Material::default(), &[], policy).unwrap()
}

fn group(phase: MigrationPhase, served_by: ServedBy) -> GroupStatus {
    GroupStatus {
        group: GROUP.into(),
        phase,
        message: "at work".into(),
        crds_present: true,
        api_services: vec![ApiServiceStatus {
            name: format!("v1.{GROUP}"),
            uid: Some("u".into()),
            served_by,
            original: None,
        }],
        ..GroupStatus::default()
    }
}

fn status_of(
    object: &ReportsServer,
    applied: &Applied,
    groups: &[GroupStatus],
) -> ReportsServerStatus {
    let (spec, certs) = (
        validated(serde_json::to_value(&object.spec).unwrap()),
        issued(),
    );
    compute(
        object,
        &State::Applied {
            spec: &spec,
            refusal: None,
            applied,
            certs: &certs,
            database: None,
        },
        groups,
        at(0),
    )
}

fn condition<'a>(status: &'a ReportsServerStatus, type_: &str) -> Option<(&'a str, &'a str)> {
    let found = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_)?;
    Some((found.status.as_str(), found.reason.as_str()))
}

fn on_postgres(ready: bool, refused: Option<&str>) -> Applied {
    let pod = json!({"metadata": {"name": "simple-postgres-0"}, "status": {"containerStatuses": [
        {"name": "postgres", "image": "", "imageID": "", "ready": false, "restartCount": 1,
            "lastState": {"terminated": {"exitCode": 1, "message": "no space left"}}}]}});
    Applied {
        data: None,
        managed: Some(Managed {
            stateful_set: serde_json::from_value(json!({
                "metadata": {"name": "simple-postgres", "namespace": "target"},
                "status": {"replicas": 1, "readyReplicas": i32::from(ready)},
            }))
            .unwrap(),
            data: Volume {
                claim: serde_json::from_value(json!({
                    "metadata": {"name": "simple-postgres-data", "namespace": "target"},
                    "status": {"phase": "Bound"},
                }))
                .unwrap(),
                refused: refused.map(str::to_owned),
            },
            pods: vec![serde_json::from_value(pod).unwrap()],
            upgrade: None,
            recovery: None,
            backups: None,
            backup_jobs: Vec::new(),
        }),
        ..applied(true, true, true)
    }
}

fn managed_object() -> ReportsServer {
    let mut spec = spec();
    spec["database"] = json!({"mode": "Managed"});
    fixtures::object(spec)
}

/// Returns what `kubectl wait`, Flux and Argo CD make of it (cli-utils, kstatus/status/generic.go).
fn kstatus(status: &ReportsServerStatus, generation: i64) -> &'static str {
    if status.observed_generation != Some(generation) {
        return "InProgress";
    }
    let is = |type_| condition(status, type_).map(|(status, _)| status);
    match (is(types::RECONCILING), is(types::STALLED), is(types::READY)) {
        (Some("True"), _, _) => "InProgress",
        (_, Some("True"), _) => "Failed",
        (_, _, Some("False" | "Unknown")) => "InProgress",
        _ => "Current",
    }
}

fn problem(stalled: bool) -> Problem {
    Problem {
        reason: "ForeignAPIService",
        message: "somebody else".into(),
        stalled,
    }
}

#[rstest]
#[case::pending(MigrationPhase::Pending, ServedBy::Crd, "InProgress")]
#[case::mirroring(MigrationPhase::Mirroring, ServedBy::Crd, "InProgress")]
#[case::awaiting(MigrationPhase::AwaitingApproval, ServedBy::Crd, "InProgress")]
#[case::switching(MigrationPhase::Switching, ServedBy::Server, "InProgress")]
#[case::importing(MigrationPhase::Importing, ServedBy::Server, "InProgress")]
#[case::soaking(MigrationPhase::Soaking, ServedBy::Server, "Current")]
#[case::retaining(MigrationPhase::Retaining, ServedBy::Server, "Current")]
#[case::pruning(MigrationPhase::Pruning, ServedBy::Server, "Current")]
#[case::completed(MigrationPhase::Completed, ServedBy::Server, "Current")]
#[case::hijacked(MigrationPhase::Completed, ServedBy::Foreign, "InProgress")]
fn tools_that_know_kstatus_read_it(
    #[case] phase: MigrationPhase,
    #[case] served_by: ServedBy,
    #[case] expected: &str,
) {
    let object = fixtures::object(spec());
    let status = status_of(
        &object,
        &applied(true, true, true),
        &[group(phase, served_by)],
    );
    assert_eq!(kstatus(&status, 3), expected, "{:#?}", status.conditions);
    for condition in &status.conditions {
        assert_eq!(
            condition.observed_generation,
            Some(3),
            "{}",
            condition.type_
        );
    }
}

#[rstest]
#[case::claim(
    applied(false, false, false),
    types::DATABASE_READY,
    reasons::VOLUME_PENDING
)]
#[case::pods(
    applied(false, false, true),
    types::SERVER_AVAILABLE,
    reasons::PODS_NOT_READY
)]
#[case::canary(
    applied(true, false, true),
    types::SERVER_AVAILABLE,
    reasons::CONTROL_API_UNAVAILABLE
)]
fn what_is_waited_for_is_named(
    #[case] applied: Applied,
    #[case] type_: &str,
    #[case] reason: &str,
) {
    let object = fixtures::object(spec());
    let status = status_of(
        &object,
        &applied,
        &[group(MigrationPhase::Pending, ServedBy::Crd)],
    );
    assert_eq!(condition(&status, type_), Some(("False", reason)));
    assert_eq!(
        condition(&status, types::READY),
        Some(("False", reasons::DEPENDENCY_NOT_READY))
    );
    assert_eq!(kstatus(&status, 3), "InProgress");
}

#[test]
fn everything_served_is_ready_and_counted() {
    let object = fixtures::object(spec());
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    let status = status_of(&object, &applied(true, true, true), &groups);
    assert_eq!(
        condition(&status, types::READY),
        Some(("True", reasons::SERVING))
    );
    assert_eq!(
        condition(&status, types::DATA_MIGRATED),
        Some(("True", reasons::VERIFIED))
    );
    assert_eq!(condition(&status, types::RECONCILING), None);
    assert_eq!(condition(&status, types::STALLED), None);
    assert_eq!(status.served.as_deref(), Some("1/1"));
    assert_eq!(status.versions.unwrap().server.as_deref(), Some("1.2.3"));
    let migration = status.migration.unwrap();
    assert_eq!(migration.phase.unwrap().as_str(), "Completed");
    assert!(migration.completed_at.is_some());
}

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
fn a_refused_specification_stalls_and_leaves_the_rest_as_it_was() {
    let mut object = fixtures::object(spec());
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &groups));
    object.metadata.generation = Some(4);
    let refusal = Refusal {
        reason: reasons::INVALID_SPEC,
        message: "spec.x: no".into(),
    };
    let status = compute(
        &object,
        &State::Refused {
            refusal: &refusal,
            found: None,
        },
        &groups,
        at(9),
    );
    assert_eq!(kstatus(&status, 4), "Failed");
    assert_eq!(
        condition(&status, types::STALLED),
        Some(("True", reasons::INVALID_SPEC))
    );
    let available = Some(("True", reasons::AS_EXPECTED));
    assert_eq!(condition(&status, types::SERVER_AVAILABLE), available);
    assert_eq!(status.served.as_deref(), Some("1/1"));
}

#[test]
fn a_deletion_tells_how_far_the_way_back_is() {
    let object = fixtures::object(spec());
    let mut back = group(MigrationPhase::RollingBack, ServedBy::Server);
    let message = |back: &GroupStatus| {
        let groups = std::slice::from_ref(back);
        let status = compute(&object, &State::Deleting, groups, at(0));
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
fn a_server_whose_namespace_is_gone_is_not_available() {
    let mut object = fixtures::object(spec());
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &groups));
    let refusal = Refusal {
        reason: reasons::TARGET_NAMESPACE_MISSING,
        message: "namespace target is being deleted".into(),
    };
    let state = State::Refused {
        refusal: &refusal,
        found: None,
    };
    let status = compute(&object, &state, &groups, at(9));
    let away = Some(("False", reasons::TARGET_NAMESPACE_MISSING));
    assert_eq!(condition(&status, types::SERVER_AVAILABLE), away);
    assert_eq!(condition(&status, types::READY), away);
}

/// Suspended, with the server as it is found.
fn suspended(
    object: &ReportsServer,
    found: Option<&Found>,
    groups: &[GroupStatus],
) -> ReportsServerStatus {
    let spec = validated(spec());
    let state = State::Suspended {
        finishing: false,
        spec: &spec,
        found,
    };
    compute(object, &state, groups, at(9))
}

fn as_found(applied: Applied) -> Found {
    Found {
        deployment: Some(applied.deployment),
        pods: applied.pods,
        stateful_set: None,
        control_api: applied.control_api,
        certs: issued(),
    }
}

#[test]
fn suspending_keeps_ready_and_says_so() {
    let mut object = fixtures::object(spec());
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &groups));
    // Of an operator that has just started, too.
    let found = as_found(applied(true, true, true));
    for groups in [&[][..], &groups] {
        let status = suspended(&object, Some(&found), groups);
        assert_eq!(
            condition(&status, types::READY),
            Some(("True", reasons::SUSPENDED))
        );
        assert_eq!(kstatus(&status, 3), "Current");
        assert_eq!(
            status.migration.map(|migration| migration.phase),
            Some(object.status.clone().unwrap().migration.unwrap().phase),
            "what was reached stays shown"
        );
    }
}

#[test]
fn a_suspended_server_that_is_gone_is_not_ready_until_it_is_back() {
    let mut object = fixtures::object(spec());
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &groups));
    let gone = Found {
        deployment: None,
        ..as_found(applied(true, true, true))
    };
    let unready = as_found(applied(false, true, true));
    for found in [gone, unready] {
        let status = suspended(&object, Some(&found), &groups);
        let away = Some(("False", reasons::PODS_NOT_READY));
        assert_eq!(condition(&status, types::SERVER_AVAILABLE), away);
        let not_ready = Some(("False", reasons::SUSPENDED));
        assert_eq!(condition(&status, types::READY), not_ready);
        let mut later = object.clone();
        later.status = Some(status);
        let back = as_found(applied(true, true, true));
        let status = suspended(&later, Some(&back), &groups);
        let ready = Some(("True", reasons::SUSPENDED));
        assert_eq!(condition(&status, types::READY), ready);
    }
}

/// The last specification that could be carried out is in force; the status says both.
#[test]
fn what_is_kept_in_place_of_a_refused_specification_is_told() {
    let object = fixtures::object(spec());
    let certs = issued();
    let (spec, applied) = (validated(spec()), applied(false, true, true));
    let refusal = Refusal {
        reason: reasons::INVALID_SPEC,
        message: "spec.x: no".into(),
    };
    let state = State::Applied {
        spec: &spec,
        refusal: Some(&refusal),
        applied: &applied,
        certs: &certs,
        database: None,
    };
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    let status = compute(&object, &state, &groups, at(0));
    assert_eq!(kstatus(&status, 3), "Failed");
    let stalled = status.conditions.iter().find(|c| c.type_ == types::STALLED);
    let message = &stalled.unwrap().message;
    assert!(message.starts_with("spec.x: no; "), "{message}");
    assert!(message.contains("stays in force"), "{message}");
    let away = Some(("False", reasons::PODS_NOT_READY));
    assert_eq!(condition(&status, types::SERVER_AVAILABLE), away);
}

fn with_certificates(certs: &certs::Outcome) -> ReportsServerStatus {
    let object = fixtures::object(spec());
    let (spec, applied) = (validated(spec()), applied(true, true, true));
    let state = State::Applied {
        spec: &spec,
        refusal: None,
        applied: &applied,
        certs,
        database: None,
    };
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    compute(&object, &state, &groups, at(0))
}

#[test]
fn a_certificate_that_cannot_be_used_is_told_with_the_one_in_use() {
    let mut certs = issued();
    let message = "spec.tls.provided.secretRef: wrong".to_owned();
    certs.problem = Some(certs::Problem::new(
        reasons::CERTIFICATE_INVALID,
        message.clone(),
    ));
    let status = with_certificates(&certs);
    assert_eq!(kstatus(&status, 3), "Failed");
    let invalid = Some(("False", reasons::CERTIFICATE_INVALID));
    assert_eq!(condition(&status, types::CERTIFICATES_READY), invalid);
    let told = status.conditions.iter().find(|c| c.type_ == types::STALLED);
    let told = &told.unwrap().message;
    assert!(told.starts_with(&message), "{told}");
    assert!(told.contains("the one in use stays"), "{told}");

    certs.problem = Some(certs::Problem::waiting(
        reasons::CERTIFICATE_NOT_READY,
        message,
    ));
    let status = with_certificates(&certs);
    assert_eq!(condition(&status, types::STALLED), None);
    assert_eq!(kstatus(&status, 3), "InProgress");
}

#[test]
fn the_end_of_a_certificate_is_told_while_everything_is_served() {
    let mut certs = issued();
    certs.expiring = true;
    let status = with_certificates(&certs);
    let expiring = Some(("True", reasons::CERTIFICATE_EXPIRING));
    assert_eq!(condition(&status, types::CERTIFICATES_READY), expiring);
    let events = crate::events::transitions(&[], &status.conditions);
    let warns = |event: &kube::runtime::events::Event| {
        event.reason == reasons::CERTIFICATE_EXPIRING && event.action == "WatchCertificate"
    };
    assert!(events.iter().any(warns));
}

#[test]
fn a_failed_step_does_not_make_unready_what_is_served() {
    let mut object = fixtures::object(spec());
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &groups));
    let state = State::Failed {
        message: "cannot apply".into(),
        forbidden: false,
    };
    let status = compute(&object, &state, &groups, at(9));
    assert_eq!(
        condition(&status, types::READY),
        Some(("True", reasons::SERVING))
    );
    assert_eq!(
        condition(&status, types::RECONCILING),
        Some(("True", reasons::APPLY_FAILED))
    );
    assert_eq!(kstatus(&status, 3), "InProgress");
}

#[rstest]
#[case(false, "InProgress")]
#[case(true, "Failed")]
fn a_failed_step_is_told(#[case] forbidden: bool, #[case] expected: &str) {
    let object = fixtures::object(spec());
    let state = State::Failed {
        message: "cannot apply".into(),
        forbidden,
    };
    let status = compute(&object, &state, &[], at(0));
    assert_eq!(kstatus(&status, 3), expected);
    let message = &status
        .conditions
        .iter()
        .find(|c| c.type_ == types::READY)
        .unwrap()
        .message;
    assert_eq!(message, "cannot apply");
}

#[test]
fn the_same_situation_gives_the_same_status_later() {
    let mut object = fixtures::object(spec());
    let certs = issued();
    let (spec, applied) = (validated(spec()), applied(true, true, true));
    let state = State::Applied {
        spec: &spec,
        refusal: None,
        applied: &applied,
        certs: &certs,
        database: None,
    };
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    let first = compute(&object, &state, &groups, at(0));
    object.status = Some(first.clone());
    assert_eq!(compute(&object, &state, &groups, at(3600)), first);
    // Through the API and back nothing changes either.
    let back = serde_json::from_value(serde_json::to_value(&first).unwrap()).unwrap();
    object.status = Some(back);
    assert_eq!(compute(&object, &state, &groups, at(7200)), first);
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
