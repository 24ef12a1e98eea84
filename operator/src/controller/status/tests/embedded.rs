//! The findings about backups of an embedded database, and about its restore.

use crds::v1alpha1::status::{MigrationPhase, ServedBy};
use crds::v1alpha1::{ReportsServer, conditions as types, reasons};
use k8s_openapi::api::batch::v1::Job;
use rstest::rstest;
use serde_json::{Value, json};

use super::{applied, condition, group, spec, status_of};
use crate::controller::apply::{Embedded, Recovery};
use crate::controller::fixtures;

fn object(database: Value) -> ReportsServer {
    let mut spec = spec();
    spec["database"] = database;
    fixtures::object(spec)
}

fn ended(type_: &str) -> Job {
    serde_json::from_value(json!({"metadata": {"name": "simple-backup-1"},
        "status": {"conditions": [{"type": type_, "status": "True",
            "lastTransitionTime": "2026-01-02T03:00:09Z",
            "message": "Job has reached the specified backoff limit"}]}}))
    .unwrap()
}

/// To a bucket as well, where there is no volume for backups.
#[rstest]
#[case::on_a_volume(json!({}), "Complete", "True", reasons::BACKUP_SUCCEEDED)]
#[case::in_a_bucket(
    json!({"destination": {"s3": {"bucket": "reports", "credentialsSecretRef": {"name": "s"}}}}),
    "Complete",
    "True",
    reasons::BACKUP_SUCCEEDED
)]
#[case::failed(json!({}), "Failed", "False", reasons::BACKUP_FAILED)]
fn the_last_backup_is_told(
    #[case] backup: Value,
    #[case] type_: &str,
    #[case] is: &str,
    #[case] reason: &str,
) {
    let object = object(json!({"backup": backup}));
    let mut applied = applied(true, true, true);
    applied.embedded = Some(Embedded {
        backup_jobs: vec![ended(type_)],
        ..Embedded::default()
    });
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    let status = status_of(&object, &applied, &groups);
    let told = condition(&status, types::LAST_BACKUP_SUCCEEDED);
    assert_eq!(told, Some((is, reason)));
    // A failed backup makes nothing unready.
    let ready = condition(&status, types::READY);
    assert_eq!(ready, Some(("True", reasons::SERVING)));
    let last = status.database.unwrap().last_backup.unwrap();
    assert_eq!(last.name.as_deref(), Some("simple-backup-1"));
}

#[test]
fn nothing_is_told_of_backups_that_nobody_asked_for() {
    let mut applied = applied(true, true, true);
    applied.embedded = Some(Embedded::default());
    let status = status_of(&object(json!({})), &applied, &[]);
    assert_eq!(condition(&status, types::LAST_BACKUP_SUCCEEDED), None);
}

#[test]
fn a_restore_keeps_the_server_waiting() {
    let recovery = json!({"recovery": {"backupName": "x"}});
    let object = object(json!({"embedded": {"bootstrap": recovery}}));
    let mut applied = applied(false, false, true);
    let pod = json!({"metadata": {"name": "r-1"}, "status": {"containerStatuses": [
        {"name": "restore", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 1, "message": "backup x does not exist"}}}]}});
    let mut restore = |job: Job| {
        applied.embedded = Some(Embedded {
            recovery: Some(Recovery {
                job,
                pods: vec![serde_json::from_value(pod.clone()).unwrap()],
            }),
            ..Embedded::default()
        });
        let status = status_of(&object, &applied, &[]);
        let mut conditions = status.conditions.into_iter();
        conditions.find(|found| found.type_ == types::DATABASE_READY)
    };
    let begun = json!({"metadata": {"name": "simple-recovery-1"}});
    let running = restore(serde_json::from_value(begun).unwrap()).unwrap();
    assert_eq!(running.reason, reasons::RESTORING);
    let failed = restore(ended("Failed")).unwrap();
    assert_eq!(failed.reason, reasons::RESTORE_FAILED);
    let words = "backup x does not exist; correct spec.database.embedded.bootstrap.recovery";
    assert!(failed.message.contains(words), "{}", failed.message);
}

/// A volume of a class that waits for the first consumer is bound when the pod of the restore has a
/// node, and that needs the claim with the backups.
#[test]
fn a_restore_that_keeps_its_volume_waiting_says_why() {
    let mut applied = applied(false, false, false);
    let pod = json!({"metadata": {"name": "r-1"}, "status": {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "persistentvolumeclaim \"other\" not found"}]}});
    applied.embedded = Some(Embedded {
        recovery: Some(Recovery {
            job: Job::default(),
            pods: vec![serde_json::from_value(pod).unwrap()],
        }),
        ..Embedded::default()
    });
    let recovery = json!({"recovery": {"backupName": "x"}});
    let object = object(json!({"embedded": {"bootstrap": recovery}}));
    let status = status_of(&object, &applied, &[]);
    let told = condition(&status, types::DATABASE_READY);
    assert_eq!(told, Some(("False", reasons::RESTORING)));
    let mut conditions = status.conditions.iter();
    let told = conditions.find(|found| found.type_ == types::DATABASE_READY);
    let message = &told.unwrap().message;
    assert!(message.contains("\"other\" not found"), "{message}");
}
