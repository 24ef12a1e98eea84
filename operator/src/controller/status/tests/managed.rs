//! The findings about a managed database, its backups and its restore.

use crds::v1alpha1::status::{MigrationPhase, ServedBy};
use crds::v1alpha1::{ReportsServerStatus, conditions as types, reasons};
use rstest::rstest;
use serde_json::json;

use super::{condition, group, kstatus, managed_object, on_postgres, status_of};
use crate::controller::apply::Recovery;

#[rstest]
#[case::down(
    false,
    None,
    "False",
    reasons::DATABASE_UNAVAILABLE,
    "PostgreSQL: pod simple-postgres-0: container postgres ended with code 1: no space left"
)]
#[case::up(
    true,
    None,
    "True",
    reasons::DATABASE_AVAILABLE,
    "PostgreSQL 17.11-bookworm answers"
)]
#[case::too_small(
    true,
    Some("only dynamically provisioned pvc can be resized"),
    "True",
    reasons::VOLUME_CANNOT_GROW,
    "PostgreSQL 17.11-bookworm answers; the volume keeps its size: \
     only dynamically provisioned pvc can be resized"
)]
fn a_managed_database_is_told_by_itself(
    #[case] ready: bool,
    #[case] refused: Option<&str>,
    #[case] is: &str,
    #[case] reason: &str,
    #[case] message: &str,
) {
    let object = managed_object();
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    let status = status_of(&object, &on_postgres(ready, refused), &groups);
    assert_eq!(
        condition(&status, types::DATABASE_READY),
        Some((is, reason))
    );
    let told = status
        .conditions
        .iter()
        .find(|c| c.type_ == types::DATABASE_READY);
    assert_eq!(told.unwrap().message, message);
    // The pods stay ready, and a client is refused all the same.
    for type_ in [types::READY, types::SERVER_AVAILABLE] {
        assert_eq!(condition(&status, type_).map(|(is, _)| is), Some(is));
    }
    let database = status.database.unwrap();
    assert_eq!(database.ready, Some(ready));
    assert_eq!(
        database.host.as_deref(),
        Some("simple-postgres.target.svc:5432")
    );
    assert_eq!(
        database.volume_claim.as_deref(),
        Some("simple-postgres-data")
    );
    assert_eq!(database.primary.is_some(), ready);
    assert_eq!(
        status.versions.unwrap().postgres.as_deref(),
        Some("17.11-bookworm")
    );
}

#[test]
fn a_rolling_update_is_served_and_on_its_way() {
    let object = managed_object();
    let mut applied = on_postgres(true, None);
    let rolling = json!({
        "metadata": {"name": "simple-server", "generation": 2},
        "spec": {"replicas": 2, "selector": {}, "template": {}},
        "status": {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1,
            "readyReplicas": 2, "availableReplicas": 2},
    });
    applied.deployment = serde_json::from_value(rolling).unwrap();
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    let status = status_of(&object, &applied, &groups);
    assert_eq!(
        condition(&status, types::READY),
        Some(("True", reasons::SERVING))
    );
    let on_its_way = Some(("True", reasons::PODS_NOT_READY));
    assert_eq!(condition(&status, types::RECONCILING), on_its_way);
    assert_eq!(kstatus(&status, 3), "InProgress");
}

fn backup_job(name: &str, type_: &str, time: &str) -> k8s_openapi::api::batch::v1::Job {
    serde_json::from_value(
        json!({"metadata": {"name": name}, "status": {"conditions": [
        {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": time},
        {"type": type_, "status": "True", "lastTransitionTime": time,
            "message": "Job has reached the specified backoff limit"}]}}),
    )
    .unwrap()
}

#[test]
fn the_last_backup_is_told_also_when_its_job_is_gone() {
    let mut object = managed_object();
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    let with = |jobs: Vec<_>| {
        let mut applied = on_postgres(true, None);
        let managed = applied.managed.as_mut().unwrap();
        managed.backups = Some(managed.data.clone());
        managed.backup_jobs = jobs;
        applied
    };
    let is = |status: &ReportsServerStatus| {
        let (is, reason) = condition(status, types::LAST_BACKUP_SUCCEEDED)?;
        Some((is.to_owned(), reason.to_owned()))
    };
    let none = status_of(&object, &with(Vec::new()), &groups);
    assert_eq!(
        is(&none),
        Some(("Unknown".to_owned(), reasons::UNKNOWN.to_owned()))
    );

    let jobs = vec![
        backup_job("simple-backup-2", "Complete", "2026-01-02T03:00:09Z"),
        backup_job("simple-backup-1", "Failed", "2026-01-01T03:00:09Z"),
        serde_json::from_value(json!({"metadata": {"name": "running"}})).unwrap(),
    ];
    let made = status_of(&object, &with(jobs), &groups);
    let succeeded = Some(("True".to_owned(), reasons::BACKUP_SUCCEEDED.to_owned()));
    assert_eq!(is(&made), succeeded);
    let last = made.database.clone().unwrap().last_backup.unwrap();
    assert_eq!(last.name.as_deref(), Some("simple-backup-2"));

    object.status = Some(made);
    let later = status_of(&object, &with(Vec::new()), &groups);
    assert_eq!(is(&later), succeeded);
    assert_eq!(later.database.unwrap().last_backup, Some(last));

    let jobs = vec![backup_job(
        "simple-backup-3",
        "Failed",
        "2026-01-03T03:00:09Z",
    )];
    let failed = status_of(&object, &with(jobs), &groups);
    assert_eq!(
        is(&failed),
        Some(("False".to_owned(), reasons::BACKUP_FAILED.to_owned()))
    );
    assert_eq!(
        condition(&failed, types::READY).map(|(is, _)| is),
        Some("True")
    );
}

#[rstest]
#[case::runs(false, reasons::RESTORING, "restoring the database from a backup")]
#[case::failed(
    true,
    reasons::RESTORE_FAILED,
    "backup x does not exist; correct spec.database"
)]
fn a_restore_keeps_the_servers_waiting(
    #[case] failed: bool,
    #[case] reason: &str,
    #[case] words: &str,
) {
    let mut applied = on_postgres(true, None);
    let ended = json!({"metadata": {"name": "r-1"}, "status": {"containerStatuses": [
        {"name": "postgres", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 1, "message": "backup x does not exist"}}}]}});
    let job = if failed {
        backup_job("simple-recovery-1", "Failed", "2026-01-01T03:00:09Z")
    } else {
        serde_json::from_value(json!({"metadata": {"name": "simple-recovery-1"}})).unwrap()
    };
    applied.managed.as_mut().unwrap().recovery = Some(Recovery {
        job,
        pods: if failed {
            vec![serde_json::from_value(ended).unwrap()]
        } else {
            Vec::new()
        },
    });
    let none = json!({"metadata": {"name": "simple-server", "generation": 1},
        "spec": {"replicas": 0, "selector": {}, "template": {}},
        "status": {"observedGeneration": 1}});
    applied.deployment = serde_json::from_value(none).unwrap();
    let object = managed_object();
    let status = status_of(
        &object,
        &applied,
        &[group(MigrationPhase::Pending, ServedBy::Crd)],
    );
    assert_eq!(
        condition(&status, types::DATABASE_READY),
        Some(("False", reason))
    );
    let told = status
        .conditions
        .iter()
        .find(|c| c.type_ == types::DATABASE_READY);
    let message = &told.unwrap().message;
    assert!(message.contains(words), "{message}");
    let server = condition(&status, types::SERVER_AVAILABLE);
    assert_eq!(server, Some(("False", reasons::PODS_NOT_READY)));
}
