//! Backups of a managed database, and the restore of one.
//!
//! A `CronJob` dumps the database to a volume of its own or to a bucket; each backup has the name
//! of its Job. A `ReportsServer` that starts with a backup gets a Job that fills the empty database
//! before the first server starts.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, Job, JobSpec, JobTemplateSpec};
use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, ObjectFieldSelector, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, PodSpec, Volume, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sha2::{Digest, Sha256};

use super::parts::{self, empty, files, mount, on_claim, resources, secret, variable};
use super::pod::container;
use super::s3::{self, Transfer};
use super::scope::Scope;
use super::wanted::{Backup, Destination, Managed, Recovery, Source};
use super::{DATABASE, PORT, ROLE, conf};
use crate::names::Names;

/// Variable with the name of the backup.
pub(in crate::database) const BACKUP_NAME: &str = "BACKUP_NAME";
/// The directory in which backups are mounted.
pub(in crate::database) const DIRECTORY: &str = "/backups";
pub(super) const CLIENT_DIRECTORY: &str = "/etc/reports-postgres-client";
/// The time after which a backup that could not be started is left out.
const STARTING_DEADLINE_SECONDS: i64 = 3600;
/// Tries of one Job: the database may be restarting.
pub(in crate::database) const RETRIES: i32 = 3;
/// Label that the Job controller sets on pods; the name of a backup.
const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";

/// The work of a Job.
struct Work<'a> {
    source: Source,
    script: &'static str,
    transfer: Transfer,
    name: EnvVar,
    own: Vec<EnvVar>,
    labels: &'a BTreeMap<String, String>,
}

/// Returns the volume for backups, where they go to one; it always outlives the `ReportsServer`.
#[must_use]
pub fn claim(backup: &Backup, scope: Scope<'_>) -> Option<PersistentVolumeClaim> {
    let Destination::Volume { size, class } = &backup.destination else {
        return None;
    };
    Some(PersistentVolumeClaim {
        metadata: scope.unowned(scope.names.backup(), scope.names.backup_labels()),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: class.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".to_owned(), size.clone())])),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    })
}

/// Returns the `CronJob` that makes the backups. `kubectl create job NAME --from=cronjob/...` makes
/// one called `NAME` at once.
#[must_use]
pub fn cron_job(managed: &Managed, backup: &Backup, scope: Scope<'_>) -> CronJob {
    let retention_minutes = backup.retention.as_secs() / 60;
    let labels = scope.names.backup_labels();
    let work = Work {
        source: match &backup.destination {
            Destination::Volume { .. } => Source::Claim(scope.names.backup()),
            Destination::Bucket(bucket) => Source::Bucket(bucket.clone()),
        },
        script: conf::BACKUP,
        transfer: Transfer::Put { retention_minutes },
        name: name_of_job(),
        own: vec![variable("RETENTION_MINUTES", retention_minutes.to_string())],
        labels: &labels,
    };
    // What is not restored yet is no database to keep, and one that is copied is away.
    let suspended = managed.recovering().is_some() || managed.present.stopped;
    on_schedule(backup, suspended, job(managed, scope, work), scope)
}

/// Returns the variable with the name of a backup: that of its Job.
pub(in crate::database) fn name_of_job() -> EnvVar {
    EnvVar {
        name: BACKUP_NAME.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: format!("metadata.labels['{JOB_NAME_LABEL}']"),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

/// Returns the `CronJob` that makes such Jobs at the times of the backups.
pub(in crate::database) fn on_schedule(
    backup: &Backup,
    suspended: bool,
    job: JobSpec,
    scope: Scope<'_>,
) -> CronJob {
    let labels = scope.names.backup_labels();
    CronJob {
        metadata: ObjectMeta {
            labels: Some(labels.clone()),
            ..scope.metadata(scope.names.backup())
        },
        spec: Some(CronJobSpec {
            schedule: backup.schedule.clone(),
            time_zone: Some("Etc/UTC".to_owned()),
            concurrency_policy: Some("Forbid".to_owned()),
            suspend: Some(suspended),
            starting_deadline_seconds: Some(STARTING_DEADLINE_SECONDS),
            successful_jobs_history_limit: Some(3),
            failed_jobs_history_limit: Some(3),
            job_template: JobTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    ..ObjectMeta::default()
                }),
                spec: Some(job),
            },
        }),
        ..CronJob::default()
    }
}

/// Returns the Job that fills the empty database.
#[must_use]
pub fn recovery_job(managed: &Managed, recovery: &Recovery, scope: Scope<'_>) -> Job {
    let labels = scope.names.recovery_labels();
    let work = Work {
        source: recovery.source.clone(),
        script: conf::RESTORE,
        transfer: Transfer::Get,
        name: variable(BACKUP_NAME, recovery.backup.clone()),
        own: Vec::new(),
        labels: &labels,
    };
    Job {
        metadata: ObjectMeta {
            labels: Some(labels.clone()),
            ..scope.metadata(recovery_name(recovery, scope.names))
        },
        spec: Some(job(managed, scope, work)),
        ..Job::default()
    }
}

/// Returns the name of the Job that restores a backup. A Job cannot be changed, so another backup
/// needs another Job.
#[must_use]
pub fn recovery_name(recovery: &Recovery, names: &Names) -> String {
    let mut hash = Sha256::new();
    hash.update(&recovery.backup);
    hash.update([0]);
    match &recovery.source {
        Source::Claim(claim) => hash.update(claim),
        Source::Bucket(bucket) => s3::distinguish(bucket, &mut hash),
    }
    let hash: String = hex::encode(hash.finalize()).chars().take(8).collect();
    format!("{}-{hash}", names.recovery())
}

fn job(managed: &Managed, scope: Scope<'_>, work: Work<'_>) -> JobSpec {
    let Work {
        source,
        script,
        transfer,
        name,
        own,
        labels,
    } = work;
    let volumes = volumes(scope, &source, script);
    let client = client(managed, scope, script, [vec![name.clone()], own].concat());
    // A file on its way to a bucket is made first, one on its way from there fetched first.
    let (first, last) = match (&source, transfer) {
        (Source::Claim(_), _) => (None, client),
        (Source::Bucket(bucket), transfer) => {
            let directory = mount("backups", DIRECTORY, false);
            let transferring =
                s3::container(&managed.transfer_image, bucket, transfer, name, directory);
            match transfer {
                Transfer::Put { .. } => (Some(client), transferring),
                Transfer::Get => (Some(transferring), client),
            }
        }
    };
    let pod = PodSpec {
        init_containers: first.map(|first| vec![first]),
        containers: vec![last],
        volumes: Some(volumes),
        ..parts::pod(managed)
    };
    parts::job(labels, RETRIES, pod)
}

fn client(managed: &Managed, scope: Scope<'_>, script: &str, own: Vec<EnvVar>) -> Container {
    let cluster = variable("CLUSTER_UID", managed.cluster_uid.clone());
    Container {
        command: Some(vec![
            "bash".to_owned(),
            format!("{}/{script}", conf::DIRECTORY),
        ]),
        env: Some([own, vec![cluster], connection(scope)].concat()),
        resources: Some(resources()),
        volume_mounts: Some(vec![
            mount("backups", DIRECTORY, false),
            mount("client", CLIENT_DIRECTORY, true),
            mount("config", conf::DIRECTORY, true),
            mount("tmp", "/tmp", false),
        ]),
        ..container(managed, "postgres")
    }
}

/// Returns the variables with which the servers connect.
pub(super) fn connection(scope: Scope<'_>) -> Vec<EnvVar> {
    let file = |name: &str| format!("{CLIENT_DIRECTORY}/{name}");
    [
        ("PGDATABASE", DATABASE.to_owned()),
        ("PGHOST", scope.names.postgres_host(scope.namespace)),
        ("PGPORT", PORT.to_string()),
        ("PGSSLCERT", file("tls.crt")),
        ("PGSSLKEY", file("tls.key")),
        ("PGSSLMODE", "verify-full".to_owned()),
        ("PGSSLROOTCERT", file("ca.crt")),
        ("PGUSER", ROLE.to_owned()),
    ]
    .map(|(name, value)| variable(name, value))
    .to_vec()
}

fn volumes(scope: Scope<'_>, source: &Source, script: &str) -> Vec<Volume> {
    let (backups, ca) = match source {
        Source::Claim(claim) => (on_claim("backups", claim.clone()), None),
        Source::Bucket(bucket) => (empty("backups"), s3::volume(bucket)),
    };
    let volumes = [
        backups,
        secret("client", scope.names.database_client(), None),
        files("config", scope.names.postgres(), &[script], parts::READABLE),
        empty("tmp"),
    ];
    volumes.into_iter().chain(ca).collect()
}
