//! The findings about backups, and about the restore of one.

use crds::v1alpha1::reasons;
use crds::v1alpha1::status::{BackupResult, LastBackup};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::conditions::Finding;
use crate::controller::apply::Recovery;
use crate::controller::workload;

/// Returns the backup that ended last, and what was said about it if it failed.
#[must_use]
pub fn last(jobs: &[Job]) -> Option<(LastBackup, Option<String>)> {
    let ended = jobs.iter().filter_map(ended);
    ended.max_by_key(|(backup, _)| backup.time.0)
}

fn ended(job: &Job) -> Option<(LastBackup, Option<String>)> {
    let is = |type_| workload::job_condition(job, type_);
    let (condition, result) = match (is("Complete"), is("Failed")) {
        (Some(complete), _) => (complete, BackupResult::Succeeded),
        (None, Some(failed)) => (failed, BackupResult::Failed),
        (None, None) => return None,
    };
    let backup = LastBackup {
        name: Some(job.name_any()),
        time: condition.last_transition_time.clone()?,
        result,
    };
    let why = condition.message.clone().filter(|why| !why.is_empty());
    Some((backup, why.filter(|_| result == BackupResult::Failed)))
}

/// Returns whether the last backup succeeded; none where the Jobs say nothing and something was said
/// before.
#[must_use]
pub fn finding(jobs: &[Job], before: Option<&LastBackup>) -> Option<Finding> {
    match last(jobs) {
        Some((backup, why)) => Some(told(&backup, why.as_deref())),
        None if before.is_some() => None,
        None => Some(Finding::unknown("no backup has been made yet")),
    }
}

fn told(backup: &LastBackup, why: Option<&str>) -> Finding {
    let name = backup.name.as_deref().unwrap_or_default();
    let Time(time) = backup.time;
    match backup.result {
        BackupResult::Succeeded => Finding::yes(
            reasons::BACKUP_SUCCEEDED,
            format!("{name} was made at {time}"),
        ),
        BackupResult::Failed => Finding::no(
            reasons::BACKUP_FAILED,
            format!(
                "{name} failed at {time}: {}; see the log of its pod",
                why.unwrap_or("no reason was given")
            ),
        ),
    }
}

/// Of a database that is being filled from the backup that `field` names.
#[must_use]
pub fn restoring(recovery: &Recovery, field: &str) -> Finding {
    let name = recovery.job.name_any();
    let failed = workload::job_condition(&recovery.job, "Failed").is_some();
    let why = workload::why_job_fails(&recovery.pods);
    if failed {
        let why = why.unwrap_or_else(|| "its pods are gone".to_owned());
        return Finding::no(
            reasons::RESTORE_FAILED,
            format!("Job {name}: {why}; correct {field}, or delete the Job to try again"),
        );
    }
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    Finding::no(
        reasons::RESTORING,
        format!("Job {name} is restoring the database from a backup{why}"),
    )
}
