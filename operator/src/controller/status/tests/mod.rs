//! Statuses of whole situations, judged as kstatus judges them.

mod admission;
mod between;
mod certificates;
mod embedded;
mod failed;
mod groups;
mod kept;
mod managed;
mod moving;
mod other_database;
mod upgrade;
mod write;

use crds::v1alpha1::status::{MigrationPhase, ServedBy};
use crds::v1alpha1::{ReportsServer, ReportsServerStatus, conditions as types, reasons};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::{State, compute};
use crate::certs;
use crate::controller::apply::{Applied, Managed, Recovery, Volume};
use crate::controller::fixtures::{self, validated};
use crate::migration::{ApiServiceStatus, GroupStatus, Problem};

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
        embedded: None,
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
