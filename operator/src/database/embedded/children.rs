//! The objects that make backups of an embedded database, and restore one.

use k8s_openapi::api::batch::v1::{CronJob, Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Container, EnvVar, PersistentVolumeClaim, PodSecurityContext, PodSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::constants::{DIRECTORY as DATA, file};
use super::wanted::Embedded;
use crate::certs::CA_CRT;
use crate::database::managed::backup::{self, BACKUP_NAME, DIRECTORY, RETRIES};
use crate::database::managed::parts::{self, empty, mount, on_claim, resources, secret, variable};
use crate::database::managed::s3::{self, Transfer};
use crate::database::managed::{Backup, Destination, Recovery, Scope, Source};
use crate::security;

const BACKUPS_VOLUME: &str = "backups";
const CA_VOLUME: &str = "server-ca";
/// The directory in which the CAs of the server's certificate are mounted.
const CA_DIRECTORY: &str = "/etc/reports-server-ca";
const DATA_VOLUME: &str = "data";

/// The objects, in the order in which they are applied.
#[derive(Clone, Debug)]
pub struct Children {
    /// The Job that fills the new volume from a backup.
    pub recovery: Option<Job>,
    /// The volume for backups.
    pub backups: Option<PersistentVolumeClaim>,
    /// The `CronJob` that makes backups.
    pub backup: Option<CronJob>,
}

/// Builds all of these objects. `account` is the server's, which may get a copy of the database.
#[must_use]
pub fn children(embedded: &Embedded, account: &str, scope: Scope<'_>) -> Children {
    let backup = embedded.backup.as_ref();
    let recovering = embedded.recovering();
    Children {
        recovery: recovering.and_then(|recovery| {
            let name = embedded.job_name(scope.names)?;
            Some(recovery_job(embedded, recovery, name, scope))
        }),
        backups: backup.and_then(|own| backup::claim(own, scope)),
        backup: backup.map(|own| {
            let job = backup_job(embedded, own, account, scope);
            backup::on_schedule(own, recovering.is_some(), job, scope)
        }),
    }
}

/// Returns the Job of a backup: the server's image fetches a copy from the server into a file; into a
/// bucket, a second container carries the file.
fn backup_job(embedded: &Embedded, own: &Backup, account: &str, scope: Scope<'_>) -> JobSpec {
    let retention_minutes = own.retention.as_secs() / 60;
    let host = scope.names.dns_names(scope.namespace).swap_remove(0);
    let mut args = vec![
        "make".to_owned(),
        format!("--server=https://{host}"),
        format!("--ca-file={CA_DIRECTORY}/{CA_CRT}"),
    ];
    let ca = secret(CA_VOLUME, scope.names.serving_cert(), Some(CA_CRT));
    let mut volumes = vec![ca];
    let ca = mount(CA_VOLUME, CA_DIRECTORY, true);
    let name = backup::name_of_job();
    let (init, last) = match &own.destination {
        Destination::Volume { .. } => {
            volumes.push(on_claim(BACKUPS_VOLUME, scope.names.backup()));
            args.push(format!("--retention-minutes={retention_minutes}"));
            (None, container(embedded, "copy", args, vec![name], ca))
        }
        Destination::Bucket(bucket) => {
            volumes.push(empty(BACKUPS_VOLUME));
            volumes.extend(s3::volume(bucket));
            let put = Transfer::Put { retention_minutes };
            let directory = mount(BACKUPS_VOLUME, DIRECTORY, false);
            let put = s3::container(&embedded.image, bucket, put, name.clone(), directory);
            let copy = container(embedded, "copy", args, vec![name], ca);
            (Some(copy), put)
        }
    };
    let pod = PodSpec {
        service_account_name: Some(account.to_owned()),
        // The server asks whose token it is.
        automount_service_account_token: Some(true),
        ..pod(embedded, init, last, volumes)
    };
    parts::job(&scope.names.backup_labels(), RETRIES, pod)
}

/// Returns the Job that makes a database of a backup on the new volume.
fn recovery_job(
    embedded: &Embedded,
    recovery: &Recovery,
    job_name: String,
    scope: Scope<'_>,
) -> Job {
    let labels = scope.names.recovery_labels();
    let args = vec!["restore".to_owned(), format!("--database={}", file())];
    let name = variable(BACKUP_NAME, recovery.backup.clone());
    // The root file system is read-only, and SQLite sorts large indexes in temporary files.
    let own = vec![name.clone(), variable("SQLITE_TMPDIR", DATA.to_owned())];
    let data = mount(DATA_VOLUME, DATA, false);
    let restore = container(embedded, "restore", args, own, data);
    let mut volumes = vec![on_claim(DATA_VOLUME, scope.names.data())];
    let init = match &recovery.source {
        Source::Claim(claim) => {
            volumes.push(on_claim(BACKUPS_VOLUME, claim.clone()));
            None
        }
        Source::Bucket(bucket) => {
            volumes.push(empty(BACKUPS_VOLUME));
            volumes.extend(s3::volume(bucket));
            let directory = mount(BACKUPS_VOLUME, DIRECTORY, false);
            let get = Transfer::Get;
            Some(s3::container(&embedded.image, bucket, get, name, directory))
        }
    };
    let pod = pod(embedded, init, restore, volumes);
    Job {
        metadata: ObjectMeta {
            labels: Some(labels.clone()),
            ..scope.metadata(job_name)
        },
        spec: Some(parts::job(&labels, RETRIES, pod)),
        ..Job::default()
    }
}

/// Returns a container of the server's image that works on the backup of the variable
/// [`BACKUP_NAME`]. `more` is what is mounted beside the backups.
fn container(
    embedded: &Embedded,
    name: &str,
    own: Vec<String>,
    env: Vec<EnvVar>,
    more: VolumeMount,
) -> Container {
    let of_all = [
        "--name=$(BACKUP_NAME)".to_owned(),
        format!("--directory={DIRECTORY}"),
        format!("--cluster-uid={}", embedded.cluster_uid),
    ];
    let args = [vec!["backup".to_owned()], own, of_all.to_vec()].concat();
    Container {
        name: name.to_owned(),
        image: Some(embedded.image.image.clone()),
        image_pull_policy: Some(embedded.image.pull_policy.as_str().to_owned()),
        args: Some(args),
        env: Some(env),
        resources: Some(resources()),
        volume_mounts: Some(vec![mount(BACKUPS_VOLUME, DIRECTORY, false), more]),
        security_context: Some(security::container()),
        // So that a condition can quote why it ended.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

/// Returns a pod that is placed as the user wants the server's.
fn pod(
    embedded: &Embedded,
    init: Option<Container>,
    last: Container,
    volumes: Vec<Volume>,
) -> PodSpec {
    PodSpec {
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(PodSecurityContext {
            // Volumes are the server's, or fresh ones, which belong to root.
            fs_group: Some(security::NON_ROOT_ID),
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            ..security::pod()
        }),
        init_containers: init.map(|init| vec![init]),
        containers: vec![last],
        volumes: Some(volumes),
        image_pull_secrets: parts::pull_secrets(&embedded.pull_secrets),
        node_selector: embedded.node_selector.clone(),
        tolerations: embedded.tolerations.clone(),
        priority_class_name: embedded.priority_class.clone(),
        ..PodSpec::default()
    }
}
