//! Backups of a managed database, and the way back from one.
//!
//! A `CronJob` dumps the database to a volume of its own or to a bucket; each backup is called as
//! its Job is. A `ReportsServer` that starts with a backup gets a Job that fills the empty database
//! before the first server starts.

use std::{collections::BTreeMap, time::Duration};

use crds::v1alpha1::spec::S3Destination;
use k8s_openapi::{
    api::{
        batch::v1::{CronJob, CronJobSpec, Job, JobSpec, JobTemplateSpec},
        core::v1::{
            Container, EnvVar, EnvVarSource, ObjectFieldSelector, PersistentVolumeClaim,
            PersistentVolumeClaimSpec, PodSpec, ResourceRequirements, Volume,
            VolumeResourceRequirements,
        },
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use sha2::{Digest, Sha256};

use super::{
    DATABASE, PORT, ROLE,
    children::Home,
    conf,
    parts::{self, empty, files, mount, on_claim, secret, variable},
    pod::container,
    s3::{self, Errand},
    settings::Managed,
};
use crate::names::Names;

/// Variable with the name of the backup.
const BACKUP_NAME: &str = "BACKUP_NAME";
/// Where backups are mounted.
const DIRECTORY: &str = "/backups";
pub(super) const CLIENT_DIRECTORY: &str = "/etc/reports-postgres-client";
/// A backup that could not be started this long is left out.
const STARTING_DEADLINE_SECONDS: i64 = 3600;
/// Tries of one Job: the database may be restarting.
const RETRIES: i32 = 3;
/// Label that the Job controller sets on pods; the name of a backup.
const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";

/// Backups as they are wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Backup {
    /// When, as a cron expression.
    pub schedule: String,
    /// How long one is kept.
    pub retention: Duration,
    /// Where they go.
    pub destination: Destination,
}

/// Where backups go.
#[derive(Clone, Debug, PartialEq)]
pub enum Destination {
    /// A volume of their own.
    Volume {
        /// Its size.
        size: Quantity,
        /// `StorageClass`; the cluster's default where absent.
        class: Option<String>,
    },
    /// A bucket.
    Bucket(S3Destination),
}

/// Where a backup is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// On a volume: name of the `PersistentVolumeClaim`.
    Claim(String),
    /// In a bucket.
    Bucket(S3Destination),
}

/// What a Job does.
struct Work<'a> {
    source: Source,
    script: &'static str,
    errand: Errand,
    name: EnvVar,
    own: Vec<EnvVar>,
    labels: &'a BTreeMap<String, String>,
}

/// A backup that the database is to start with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Its name.
    pub backup: String,
    /// Where it is.
    pub source: Source,
}

/// The volume for backups, where they go to one; it always outlives the `ReportsServer`.
#[must_use]
pub fn claim(backup: &Backup, home: Home<'_>) -> Option<PersistentVolumeClaim> {
    let Destination::Volume { size, class } = &backup.destination else {
        return None;
    };
    Some(PersistentVolumeClaim {
        metadata: home.unowned(home.names.backup(), home.names.backup_labels()),
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

/// Makes the backups. `kubectl create job NAME --from=cronjob/...` makes one called `NAME` at once.
#[must_use]
pub fn cron_job(managed: &Managed, backup: &Backup, home: Home<'_>) -> CronJob {
    let retention_minutes = backup.retention.as_secs() / 60;
    let labels = home.names.backup_labels();
    let work = Work {
        source: match &backup.destination {
            Destination::Volume { .. } => Source::Claim(home.names.backup()),
            Destination::Bucket(bucket) => Source::Bucket(bucket.clone()),
        },
        script: conf::BACKUP,
        errand: Errand::Put { retention_minutes },
        name: EnvVar {
            name: BACKUP_NAME.to_owned(),
            value_from: Some(EnvVarSource {
                field_ref: Some(ObjectFieldSelector {
                    field_path: format!("metadata.labels['{JOB_NAME_LABEL}']"),
                    ..ObjectFieldSelector::default()
                }),
                ..EnvVarSource::default()
            }),
            ..EnvVar::default()
        },
        own: vec![variable("RETENTION_MINUTES", retention_minutes.to_string())],
        labels: &labels,
    };
    CronJob {
        metadata: ObjectMeta {
            labels: Some(labels.clone()),
            ..home.metadata(home.names.backup())
        },
        spec: Some(CronJobSpec {
            schedule: backup.schedule.clone(),
            time_zone: Some("Etc/UTC".to_owned()),
            concurrency_policy: Some("Forbid".to_owned()),
            // What is not restored yet is no database to keep, and one that is copied is away.
            suspend: Some(managed.recovering().is_some() || managed.present.stopped),
            starting_deadline_seconds: Some(STARTING_DEADLINE_SECONDS),
            successful_jobs_history_limit: Some(3),
            failed_jobs_history_limit: Some(3),
            job_template: JobTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels.clone()),
                    ..ObjectMeta::default()
                }),
                spec: Some(job(managed, home, work)),
            },
        }),
        ..CronJob::default()
    }
}

/// Fills the empty database.
#[must_use]
pub fn recovery_job(managed: &Managed, recovery: &Recovery, home: Home<'_>) -> Job {
    let labels = home.names.recovery_labels();
    let work = Work {
        source: recovery.source.clone(),
        script: conf::RESTORE,
        errand: Errand::Get,
        name: variable(BACKUP_NAME, recovery.backup.clone()),
        own: Vec::new(),
        labels: &labels,
    };
    Job {
        metadata: ObjectMeta {
            labels: Some(labels.clone()),
            ..home.metadata(recovery_name(recovery, home.names))
        },
        spec: Some(job(managed, home, work)),
        ..Job::default()
    }
}

/// A Job cannot be changed, so another backup takes another one.
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

fn job(managed: &Managed, home: Home<'_>, work: Work<'_>) -> JobSpec {
    let Work {
        source,
        script,
        errand,
        name,
        own,
        labels,
    } = work;
    let volumes = volumes(home, &source, script);
    let client = client(managed, home, script, [vec![name.clone()], own].concat());
    // A file on its way to a bucket is made first, one on its way from there fetched first.
    let (first, last) = match (&source, errand) {
        (Source::Claim(_), _) => (None, client),
        (Source::Bucket(bucket), errand) => {
            let directory = mount("backups", DIRECTORY, false);
            let carrier = s3::container(&managed.carrier, bucket, errand, name, directory);
            match errand {
                Errand::Put { .. } => (Some(client), carrier),
                Errand::Get => (Some(carrier), client),
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

/// What a container needs that handles a backup a part at a time.
pub(super) fn resources() -> ResourceRequirements {
    let quantity = |text: &str| Quantity(text.to_owned());
    ResourceRequirements {
        requests: Some(BTreeMap::from([
            ("cpu".to_owned(), quantity("50m")),
            ("memory".to_owned(), quantity("64Mi")),
        ])),
        limits: Some(BTreeMap::from([("memory".to_owned(), quantity("512Mi"))])),
        ..ResourceRequirements::default()
    }
}

fn client(managed: &Managed, home: Home<'_>, script: &str, own: Vec<EnvVar>) -> Container {
    let cluster = variable("CLUSTER_UID", managed.cluster_uid.clone());
    Container {
        command: Some(vec![
            "bash".to_owned(),
            format!("{}/{script}", conf::DIRECTORY),
        ]),
        env: Some([own, vec![cluster], connection(home)].concat()),
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

/// As the servers connect.
pub(super) fn connection(home: Home<'_>) -> Vec<EnvVar> {
    let file = |name: &str| format!("{CLIENT_DIRECTORY}/{name}");
    [
        ("PGDATABASE", DATABASE.to_owned()),
        ("PGHOST", home.names.postgres_host(home.namespace)),
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

fn volumes(home: Home<'_>, source: &Source, script: &str) -> Vec<Volume> {
    let (backups, ca) = match source {
        Source::Claim(claim) => (on_claim("backups", claim.clone()), None),
        Source::Bucket(bucket) => (empty("backups"), s3::volume(bucket)),
    };
    let volumes = [
        backups,
        secret("client", home.names.database_client(), None),
        files("config", home.names.postgres(), &[script], parts::READABLE),
        empty("tmp"),
    ];
    volumes.into_iter().chain(ca).collect()
}
