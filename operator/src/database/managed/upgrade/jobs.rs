//! The objects of a major upgrade.

use k8s_openapi::api::batch::v1 as batch;
use k8s_openapi::api::core::v1::{
    Affinity, ConfigMap, Container, EnvVar, PersistentVolumeClaim, PodAffinity, PodAffinityTerm,
    PodSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use sha2::{Digest, Sha256};

use super::super::backup::{self, CLIENT_DIRECTORY};
use super::super::claim::claim;
use super::super::parts::{self, empty, files, mount, on_claim, secret, shared_memory, variable};
use super::super::pod::{VOLUME_DIRECTORY, container, environment};
use super::super::scope::Scope;
use super::super::{Managed, conf};
use super::{PENDING, Stage, UPGRADE_ANNOTATION, Upgrade};
use crate::names::Names;

/// The directory in which the scripts are mounted.
const SCRIPTS_DIRECTORY: &str = "/etc/reports-postgres-upgrade";
/// The directory in which the volume in use is mounted while it is copied.
const OLD_DIRECTORY: &str = "/old";
const CHECK: &str = "upgrade-check.sh";
const DUMP: &str = "upgrade-dump.sh";
const RESTORE: &str = "upgrade-restore.sh";
const SCRIPTS: [(&str, &str); 5] = [
    (CHECK, include_str!("../files/upgrade-check.sh")),
    (
        "upgrade-common.sh",
        include_str!("../files/upgrade-common.sh"),
    ),
    (
        "upgrade-digest.sql",
        include_str!("../files/upgrade-digest.sql"),
    ),
    (DUMP, include_str!("../files/upgrade-dump.sh")),
    (RESTORE, include_str!("../files/upgrade-restore.sh")),
];
/// Tries of the check: the database that it asks may be restarting.
const CHECK_RETRIES: i32 = 3;

/// The objects that an upgrade adds to those of a database, in the order in which they are applied.
#[derive(Clone, Debug)]
pub struct Children {
    /// The new volume.
    pub data: PersistentVolumeClaim,
    /// Scripts, and the settings of the new version.
    pub config: ConfigMap,
    /// The Job of this step.
    pub run: Option<Run>,
    /// Names of the Jobs of all steps, which stay until the end.
    pub jobs: [String; 2],
}

/// The Job of a step.
#[derive(Clone, Debug)]
pub enum Run {
    /// The Job is made now.
    Begin(Box<batch::Job>),
    /// The Job was made; it has this name.
    Follow(String),
}

/// Builds these objects.
#[must_use]
pub fn children(managed: &Managed, upgrade: &Upgrade, scope: Scope<'_>) -> Children {
    let run = upgrade
        .job()
        .map(|name| match (upgrade.begun, upgrade.stage) {
            (true, _) => Run::Follow(name.to_owned()),
            (false, Stage::Checking | Stage::Refused) => {
                Run::Begin(Box::new(check(managed, upgrade, scope)))
            }
            (false, _) => Run::Begin(Box::new(copy(managed, upgrade, scope))),
        });
    let name = scope.names.postgres_data_of(upgrade.target.version());
    let mut data = claim(&upgrade.target, name, scope);
    let notes = data.metadata.annotations.get_or_insert_default();
    notes.insert(UPGRADE_ANNOTATION.to_owned(), PENDING.to_owned());
    let mut files = conf::files(&upgrade.target);
    files.retain(|name, _| [conf::CONF, conf::HBA].contains(&name.as_str()));
    files.extend(SCRIPTS.map(|(name, content)| (name.to_owned(), content.to_owned())));
    Children {
        data,
        config: ConfigMap {
            metadata: ObjectMeta {
                labels: Some(scope.names.upgrade_labels()),
                ..scope.metadata(scope.names.postgres_upgrade())
            },
            data: Some(files),
            ..ConfigMap::default()
        },
        run,
        jobs: [upgrade.check.clone(), upgrade.copy.clone()],
    }
}

/// Returns the names of the two Jobs. Each upgrade whose pods differ in anything has others, since
/// a Job cannot be changed. So a correction is a new try.
pub fn job_names(present: &Managed, target: &Managed) -> (String, String) {
    let both = [present, target].map(|managed| {
        serde_json::json!([
            managed.image(),
            managed.resources,
            managed.size,
            managed.class,
            managed.node_selector,
            managed.tolerations,
            managed.priority_class,
            managed.pull_secrets,
        ])
    });
    let mut hash = Sha256::new();
    hash.update(present.claim());
    for part in both {
        hash.update([0]);
        hash.update(part.to_string());
    }
    let hash: String = hex::encode(hash.finalize()).chars().take(8).collect();
    let base = target.names.upgrade();
    (
        format!("{base}-check-{hash}"),
        format!("{base}-copy-{hash}"),
    )
}

/// Returns the Job that checks whether the new image and the new volume will do. It runs beside the
/// database, so that the new volume is made where the present one is.
fn check(managed: &Managed, upgrade: &Upgrade, scope: Scope<'_>) -> batch::Job {
    let target = &upgrade.target;
    let version = vec![variable("NEW_VERSION", target.version().to_string())];
    let container = Container {
        command: Some(script(CHECK)),
        env: Some([version, backup::connection(scope)].concat()),
        resources: Some(parts::resources()),
        volume_mounts: Some(vec![
            mount("client", CLIENT_DIRECTORY, true),
            mount("config", conf::DIRECTORY, true),
            mount("data", VOLUME_DIRECTORY, false),
            mount("scripts", SCRIPTS_DIRECTORY, true),
            mount("tmp", "/tmp", false),
        ]),
        ..container(target, "check")
    };
    let beside = PodAffinityTerm {
        label_selector: Some(LabelSelector {
            match_labels: Some(scope.names.postgres_selector()),
            ..LabelSelector::default()
        }),
        topology_key: "kubernetes.io/hostname".to_owned(),
        ..PodAffinityTerm::default()
    };
    let pod = PodSpec {
        affinity: Some(Affinity {
            pod_affinity: Some(PodAffinity {
                required_during_scheduling_ignored_during_execution: Some(vec![beside]),
                ..PodAffinity::default()
            }),
            ..Affinity::default()
        }),
        containers: vec![container],
        volumes: Some(vec![
            on_claim("data", scope.names.postgres_data_of(target.version())),
            settings("config", scope.names.postgres_upgrade()),
            scripts(scope.names),
            secret("client", scope.names.database_client(), None),
            empty("tmp"),
        ]),
        ..parts::pod(managed)
    };
    job(upgrade.check.clone(), CHECK_RETRIES, pod, scope)
}

/// Returns the Job that copies and compares, once: a second try could meet the pod of the first.
fn copy(managed: &Managed, upgrade: &Upgrade, scope: Scope<'_>) -> batch::Job {
    let target = &upgrade.target;
    let half =
        |of: &Managed, name: &str, file: &str, config: &str, old: &[VolumeMount]| Container {
            command: Some(script(file)),
            env: Some(data_environment()),
            resources: Some(of.resources.clone()),
            volume_mounts: Some(
                [
                    old,
                    &[
                        mount(config, conf::DIRECTORY, true),
                        mount("data", VOLUME_DIRECTORY, false),
                        mount("run", conf::SOCKET_DIRECTORY, false),
                        mount("scripts", SCRIPTS_DIRECTORY, true),
                        mount("shm", "/dev/shm", false),
                        mount("tmp", "/tmp", false),
                    ],
                ]
                .concat(),
            ),
            ..container(of, name)
        };
    let old = [mount("old", OLD_DIRECTORY, false)];
    let pod = PodSpec {
        init_containers: Some(vec![half(managed, "dump", DUMP, "old-config", &old)]),
        containers: vec![half(target, "restore", RESTORE, "config", &[])],
        volumes: Some(vec![
            on_claim("old", managed.claim()),
            on_claim("data", scope.names.postgres_data_of(target.version())),
            settings("old-config", scope.names.postgres()),
            settings("config", scope.names.postgres_upgrade()),
            scripts(scope.names),
            empty("run"),
            shared_memory("shm"),
            empty("tmp"),
        ]),
        ..parts::pod(managed)
    };
    job(upgrade.copy.clone(), 0, pod, scope)
}

/// Returns `PGDATA` and the variables with which a new database is made, as in the database's own
/// pod.
fn data_environment() -> Vec<EnvVar> {
    let needed =
        |variable: &EnvVar| ["PGDATA", "POSTGRES_INITDB_ARGS"].contains(&variable.name.as_str());
    environment().into_iter().filter(needed).collect()
}

fn job(name: String, retries: i32, pod: PodSpec, scope: Scope<'_>) -> batch::Job {
    let labels = scope.names.upgrade_labels();
    batch::Job {
        spec: Some(parts::job(&labels, retries, pod)),
        metadata: ObjectMeta {
            labels: Some(labels),
            ..scope.metadata(name)
        },
        ..batch::Job::default()
    }
}

fn script(name: &str) -> Vec<String> {
    vec!["bash".to_owned(), format!("{SCRIPTS_DIRECTORY}/{name}")]
}

/// Returns the volume with `postgresql.conf` and `pg_hba.conf`.
fn settings(name: &str, config_map: String) -> Volume {
    let settings = [conf::CONF, conf::HBA];
    files(name, config_map, &settings, parts::READABLE)
}

fn scripts(names: &Names) -> Volume {
    let scripts = SCRIPTS.map(|(name, _)| name);
    files(
        "scripts",
        names.postgres_upgrade(),
        &scripts,
        parts::READABLE,
    )
}
