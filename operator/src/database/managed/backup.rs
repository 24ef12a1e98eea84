//! Backups of a managed database, and the way back from one.
//!
//! A `CronJob` dumps the database to a volume of its own; each backup is called as its Job is. A
//! `ReportsServer` that starts with a backup gets a Job that fills the empty database before the
//! first server starts.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::{
        batch::v1::{CronJob, CronJobSpec, Job, JobSpec, JobTemplateSpec},
        core::v1::{
            ConfigMapVolumeSource, Container, EmptyDirVolumeSource, EnvVar, EnvVarSource,
            LocalObjectReference, ObjectFieldSelector, PersistentVolumeClaim,
            PersistentVolumeClaimSpec, PersistentVolumeClaimVolumeSource, PodSpec, PodTemplateSpec,
            ResourceRequirements, SecretVolumeSource, Volume, VolumeMount,
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
    pod::{container, path, security_context},
    settings::Managed,
};
use crate::names::Names;

/// Where backups are mounted.
const DIRECTORY: &str = "/backups";
const CLIENT_DIRECTORY: &str = "/etc/reports-postgres-client";
/// Longest backup or restore.
const DEADLINE_SECONDS: i64 = 6 * 3600;
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
    /// Size of the volume.
    pub size: Quantity,
    /// `StorageClass`; the cluster's default where absent.
    pub class: Option<String>,
}

/// A backup that the database is to start with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Its name.
    pub backup: String,
    /// `PersistentVolumeClaim` that it is on.
    pub claim: String,
}

/// The volume for backups; it always outlives the `ReportsServer`.
#[must_use]
pub fn claim(backup: &Backup, home: Home<'_>) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: home.unowned(home.names.backup(), home.names.backup_labels()),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: backup.class.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([(
                    "storage".to_owned(),
                    backup.size.clone(),
                )])),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}

/// Makes the backups. `kubectl create job NAME --from=cronjob/...` makes one called `NAME` at once.
#[must_use]
pub fn cron_job(managed: &Managed, backup: &Backup, home: Home<'_>) -> CronJob {
    let minutes = backup.retention.as_secs() / 60;
    let own = vec![
        EnvVar {
            name: "BACKUP_NAME".to_owned(),
            value_from: Some(EnvVarSource {
                field_ref: Some(ObjectFieldSelector {
                    field_path: format!("metadata.labels['{JOB_NAME_LABEL}']"),
                    ..ObjectFieldSelector::default()
                }),
                ..EnvVarSource::default()
            }),
            ..EnvVar::default()
        },
        variable("RETENTION_MINUTES", minutes.to_string()),
    ];
    let labels = home.names.backup_labels();
    CronJob {
        metadata: ObjectMeta {
            labels: Some(labels.clone()),
            ..home.metadata(home.names.backup())
        },
        spec: Some(CronJobSpec {
            schedule: backup.schedule.clone(),
            time_zone: Some("Etc/UTC".to_owned()),
            concurrency_policy: Some("Forbid".to_owned()),
            // What is not restored yet is no database to keep.
            suspend: Some(managed.recovering().is_some()),
            starting_deadline_seconds: Some(STARTING_DEADLINE_SECONDS),
            successful_jobs_history_limit: Some(3),
            failed_jobs_history_limit: Some(3),
            job_template: JobTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels.clone()),
                    ..ObjectMeta::default()
                }),
                spec: Some(job(
                    managed,
                    home,
                    &home.names.backup(),
                    conf::BACKUP,
                    own,
                    &labels,
                )),
            },
        }),
        ..CronJob::default()
    }
}

/// Fills the empty database.
#[must_use]
pub fn recovery_job(managed: &Managed, recovery: &Recovery, home: Home<'_>) -> Job {
    let own = vec![variable("BACKUP_NAME", recovery.backup.clone())];
    let labels = home.names.recovery_labels();
    Job {
        metadata: ObjectMeta {
            labels: Some(labels.clone()),
            ..home.metadata(recovery_name(recovery, home.names))
        },
        spec: Some(job(
            managed,
            home,
            &recovery.claim,
            conf::RESTORE,
            own,
            &labels,
        )),
        ..Job::default()
    }
}

/// A Job cannot be changed, so another backup takes another one.
#[must_use]
pub fn recovery_name(recovery: &Recovery, names: &Names) -> String {
    let mut hash = Sha256::new();
    hash.update(&recovery.backup);
    hash.update([0]);
    hash.update(&recovery.claim);
    let hash: String = hex::encode(hash.finalize()).chars().take(8).collect();
    format!("{}-{hash}", names.recovery())
}

fn job(
    managed: &Managed,
    home: Home<'_>,
    claim: &str,
    script: &str,
    own: Vec<EnvVar>,
    labels: &BTreeMap<String, String>,
) -> JobSpec {
    let secrets = managed.pull_secrets.iter();
    let secrets: Vec<LocalObjectReference> = secrets
        .map(|name| LocalObjectReference { name: name.clone() })
        .collect();
    let pod = PodSpec {
        restart_policy: Some("Never".to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(security_context()),
        containers: vec![client(managed, home, script, own)],
        volumes: Some(volumes(home, claim, script)),
        image_pull_secrets: (!secrets.is_empty()).then_some(secrets),
        node_selector: managed.node_selector.clone(),
        tolerations: managed.tolerations.clone(),
        priority_class_name: managed.priority_class.clone(),
        ..PodSpec::default()
    };
    JobSpec {
        active_deadline_seconds: Some(DEADLINE_SECONDS),
        backoff_limit: Some(RETRIES),
        template: PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(labels.clone()),
                ..ObjectMeta::default()
            }),
            spec: Some(pod),
        },
        ..JobSpec::default()
    }
}

fn client(managed: &Managed, home: Home<'_>, script: &str, own: Vec<EnvVar>) -> Container {
    let quantity = |text: &str| Quantity(text.to_owned());
    Container {
        command: Some(vec![
            "bash".to_owned(),
            format!("{}/{script}", conf::DIRECTORY),
        ]),
        env: Some([own, connection(home)].concat()),
        resources: Some(ResourceRequirements {
            requests: Some(BTreeMap::from([
                ("cpu".to_owned(), quantity("50m")),
                ("memory".to_owned(), quantity("64Mi")),
            ])),
            limits: Some(BTreeMap::from([("memory".to_owned(), quantity("512Mi"))])),
            ..ResourceRequirements::default()
        }),
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
fn connection(home: Home<'_>) -> Vec<EnvVar> {
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

fn volumes(home: Home<'_>, claim: &str, script: &str) -> Vec<Volume> {
    let named = |name: &str| Volume {
        name: name.to_owned(),
        ..Volume::default()
    };
    vec![
        Volume {
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.to_owned(),
                ..PersistentVolumeClaimVolumeSource::default()
            }),
            ..named("backups")
        },
        Volume {
            secret: Some(SecretVolumeSource {
                secret_name: Some(home.names.database_client()),
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..named("client")
        },
        Volume {
            config_map: Some(ConfigMapVolumeSource {
                name: home.names.postgres(),
                items: Some(vec![path(script)]),
                default_mode: Some(0o440),
                ..ConfigMapVolumeSource::default()
            }),
            ..named("config")
        },
        Volume {
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..named("tmp")
        },
    ]
}

fn variable(name: &str, value: String) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value),
        ..EnvVar::default()
    }
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(read_only),
        ..VolumeMount::default()
    }
}
