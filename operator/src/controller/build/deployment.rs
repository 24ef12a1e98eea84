//! The Deployment of the server. Its pods pass the `restricted` Pod Security Standard.

use std::collections::BTreeMap;

use crds::names::ANNOTATION_BEGIN_ANEW;
use crds::v1alpha1::spec::LogFormat;
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EmptyDirVolumeSource, EnvVar, HTTPGetAction, LocalObjectReference,
    PodSecurityContext, PodSpec, PodTemplateSpec, Probe, ResourceRequirements, SecretVolumeSource,
    Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::metadata::namespaced;
use super::{Validated, collector, scale, storage, template};
use crate::controller::validate::Backend;
use crate::database::between::home;
use crate::database::{embedded, moving, place};
use crate::names::{CONTAINER_PORT, PORT_NAME};
use crate::security;

/// Name of the server's container.
pub const CONTAINER: &str = "server";
/// The volume with an embedded database.
pub const DATA_VOLUME: &str = "data";
const MOVE_VOLUME: &str = "move";
const DATABASE_VOLUME: &str = "database";
const CERT_VOLUME: &str = "serving-cert";
const DATA_DIR: &str = embedded::DIRECTORY;
/// The volume in which copies of an embedded database are made. Not that of the database: a copy
/// could fill it.
const COPIES_VOLUME: &str = "copies";
const CERT_DIR: &str = "/etc/reports-server/tls";

pub(super) fn deployment(spec: &Validated) -> Deployment {
    Deployment {
        metadata: namespaced(spec, spec.names.server()),
        spec: Some(DeploymentSpec {
            replicas: scale::replicas(spec),
            strategy: Some(strategy(spec)),
            selector: LabelSelector {
                match_labels: Some(spec.names.selector()),
                ..LabelSelector::default()
            },
            template: held(spec)
                .unwrap_or_else(|| template::merged(template(spec), spec.pod.template.as_ref())),
            revision_history_limit: Some(3),
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

/// Returns the template of a pod that stays as it is until its reports have moved.
fn held(spec: &Validated) -> Option<PodTemplateSpec> {
    let embedded = spec.moving.as_ref().map(|moving| &moving.template);
    let home = spec.home().map(|home| &home.template);
    embedded.or(home)?.clone()
}

fn template(spec: &Validated) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(spec.names.labels()),
            // Pods that hold on to a history that is given up are replaced.
            annotations: spec
                .begun_anew
                .clone()
                .map(|history| [(ANNOTATION_BEGIN_ANEW.to_owned(), history)].into()),
            ..ObjectMeta::default()
        }),
        spec: Some(pod(spec)),
    }
}

/// On PostgreSQL the new pod serves before an old one goes.
fn strategy(spec: &Validated) -> DeploymentStrategy {
    match spec.backend() {
        // Two servers on one SQLite file would not know of each other's changes.
        Backend::Pod(_) => DeploymentStrategy {
            type_: Some("Recreate".to_owned()),
            ..DeploymentStrategy::default()
        },
        Backend::Postgres(_) => DeploymentStrategy {
            type_: Some("RollingUpdate".to_owned()),
            rolling_update: Some(RollingUpdateDeployment {
                max_surge: Some(IntOrString::Int(1)),
                max_unavailable: Some(IntOrString::Int(0)),
            }),
        },
    }
}

fn pod(spec: &Validated) -> PodSpec {
    let pod = &spec.pod;
    let secrets = pod.pull_secrets.iter();
    let secrets: Vec<LocalObjectReference> = secrets
        .map(|name| LocalObjectReference { name: name.clone() })
        .collect();
    PodSpec {
        service_account_name: Some(spec.service_account()),
        automount_service_account_token: Some(true),
        // The environment of every Service of the namespace is of no use to the server.
        enable_service_links: Some(false),
        // Longer than the server's own delay, its drain of requests and its last commit together.
        termination_grace_period_seconds: Some(60),
        security_context: Some(PodSecurityContext {
            // A fresh volume belongs to root; this lets the image's user write to it.
            fs_group: Some(security::NON_ROOT_ID),
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            ..security::pod()
        }),
        containers: vec![container(spec)],
        volumes: Some(volumes(spec)),
        image_pull_secrets: (!secrets.is_empty()).then_some(secrets),
        node_selector: pod.node_selector.clone(),
        tolerations: pod.tolerations.clone(),
        affinity: pod.affinity.clone(),
        topology_spread_constraints: scale::spread(spec),
        priority_class_name: pod.priority_class.clone(),
        ..PodSpec::default()
    }
}

fn volumes(spec: &Validated) -> Vec<Volume> {
    let mut volumes = vec![
        storage::volume(spec, database_mount(spec).0),
        certificate(spec),
        // Mounted from the start: where to move to arrives without a new pod.
        moving::volume(MOVE_VOLUME, spec.names.database_move()),
    ];
    let home = spec.home();
    volumes.extend(home.map(|_| storage::claimed(spec, DATA_VOLUME)));
    volumes.extend(copied(spec).then(copies));
    volumes.extend(collector::volume(spec));
    volumes
}

fn mounts(spec: &Validated) -> Vec<VolumeMount> {
    let mut mounts = vec![
        database(spec),
        mount(CERT_VOLUME, CERT_DIR, true),
        mount(MOVE_VOLUME, moving::DIRECTORY, true),
    ];
    let home = spec.home();
    mounts.extend(home.map(|_| mount(DATA_VOLUME, DATA_DIR, false)));
    mounts.extend(copied(spec).then(|| mount(COPIES_VOLUME, embedded::COPIES, false)));
    let ca = collector::volume(spec);
    mounts.extend(ca.map(|_| mount(collector::CA_VOLUME, collector::CA_DIR, true)));
    mounts
}

fn container(spec: &Validated) -> Container {
    Container {
        name: CONTAINER.to_owned(),
        image: Some(spec.pod.image.clone()),
        image_pull_policy: Some(spec.pod.pull_policy.as_str().to_owned()),
        args: Some(args(spec)),
        env: Some(environment(spec)),
        ports: Some(vec![ContainerPort {
            name: Some(PORT_NAME.to_owned()),
            container_port: CONTAINER_PORT,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        // Opening a large database may take a while; liveness counts only after that.
        startup_probe: Some(Probe {
            period_seconds: Some(1),
            failure_threshold: Some(120),
            ..probe("/livez")
        }),
        liveness_probe: Some(Probe {
            period_seconds: Some(10),
            failure_threshold: Some(6),
            ..probe("/livez")
        }),
        readiness_probe: Some(Probe {
            period_seconds: Some(2),
            failure_threshold: Some(2),
            ..probe("/readyz")
        }),
        resources: Some(spec.pod.resources.clone().unwrap_or_else(resources)),
        security_context: Some(security::container()),
        // So that a condition can quote why the server ended.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts(spec)),
        ..Container::default()
    }
}

fn args(spec: &Validated) -> Vec<String> {
    let mut args = vec![
        format!("--bind-address=0.0.0.0:{CONTAINER_PORT}"),
        format!("--config-map={}/{}", spec.namespace, spec.names.config()),
    ];
    args.extend(database_args(spec));
    if spec.pod.log_format != LogFormat::default() {
        args.push(format!("--log-format={}", spec.pod.log_format.as_flag()));
    }
    if matches!(spec.backend(), Backend::Pod(_)) {
        // The delay lets clients move to another replica; with one, it would only prolong the gap.
        args.push("--shutdown-delay=0s".to_owned());
    }
    args.extend([
        format!("--tls-cert-file={CERT_DIR}/tls.crt"),
        format!("--tls-private-key-file={CERT_DIR}/tls.key"),
    ]);
    args.extend(collector::args(spec));
    args
}

fn database_args(spec: &Validated) -> Vec<String> {
    let Backend::Postgres(postgres) = spec.backend() else {
        let mut args = vec![
            format!("--database={}", embedded::file()),
            format!("{}{}", moving::FLAG, moving::DIRECTORY),
        ];
        args.extend(copied(spec).then(|| format!("--copy-dir={}", embedded::COPIES)));
        return args;
    };
    let mut args = vec![
        format!("--cluster-identity={}", postgres.cluster_identity),
        format!("--cluster-uid={}", spec.cluster_uid),
        format!("--database-dir={}", place::DIRECTORY),
        format!("--database-max-connections={}", postgres.max_connections),
    ];
    let name = postgres.cluster_name.iter();
    args.extend(name.map(|name| format!("--cluster-name={name}")));
    args
}

fn copies() -> Volume {
    Volume {
        name: COPIES_VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    }
}

/// Returns whether the server makes copies of its database, for backups.
fn copied(spec: &Validated) -> bool {
    let embedded = spec.embedded.as_ref();
    embedded.is_some_and(|embedded| embedded.backup.is_some())
}

/// The root file system is read-only, and SQLite puts the journals of large statements into
/// temporary files: without a place for them it fails with "disk I/O error" (6410).
fn environment(spec: &Validated) -> Vec<EnvVar> {
    let journals = || variable("SQLITE_TMPDIR", DATA_DIR);
    match spec.backend() {
        Backend::Pod(_) => vec![journals()],
        Backend::Postgres(_) => {
            let mut variables = vec![variable(moving::VARIABLE, moving::DIRECTORY)];
            if spec.home().is_some() {
                variables.extend([variable(home::VARIABLE, &embedded::file()), journals()]);
            }
            variables
        }
    }
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..EnvVar::default()
    }
}

/// Returns the volume with the database, or with what leads to it: name, path, whether it is only read.
fn database_mount(spec: &Validated) -> (&'static str, &'static str, bool) {
    match spec.backend() {
        Backend::Pod(_) => (DATA_VOLUME, DATA_DIR, false),
        Backend::Postgres(_) => (DATABASE_VOLUME, place::DIRECTORY, true),
    }
}

fn database(spec: &Validated) -> VolumeMount {
    let (name, path, read_only) = database_mount(spec);
    mount(name, path, read_only)
}

fn probe(path: &str) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(PORT_NAME.to_owned()),
            scheme: Some("HTTPS".to_owned()),
            ..HTTPGetAction::default()
        }),
        timeout_seconds: Some(5),
        ..Probe::default()
    }
}

/// Room for some ten thousand reports. No limit on CPU: throttling would delay every client.
fn resources() -> ResourceRequirements {
    let quantities = |pairs: &[(&str, &str)]| -> BTreeMap<String, Quantity> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), Quantity((*v).to_owned())))
            .collect()
    };
    ResourceRequirements {
        requests: Some(quantities(&[("cpu", "100m"), ("memory", "256Mi")])),
        limits: Some(quantities(&[("memory", "1Gi")])),
        ..ResourceRequirements::default()
    }
}

/// Mounted whole, not by `subPath`: only so the kubelet brings a renewed certificate in.
fn certificate(spec: &Validated) -> Volume {
    Volume {
        name: CERT_VOLUME.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(spec.names.serving_cert()),
            default_mode: Some(0o440),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
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
