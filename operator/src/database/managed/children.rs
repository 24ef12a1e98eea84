//! The objects of a managed database.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, PodTemplateSpec, Secret, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sha2::{Digest, Sha256};

use super::claim::claim;
use super::pod::{PORT_NAME, pod};
use super::scope::Scope;
use super::wanted::Managed;
use super::{PASSWORD_KEY, PORT, backup, conf, upgrade};
use crate::certs::Material;

/// Annotation of the `StatefulSet` while an upgrade has stopped the database. It tells the
/// operator's stop from one by hand.
pub const STOPPED_ANNOTATION: &str = "reports-server.io/stopped-for-upgrade";
/// Annotation of the pods: the hash of the configuration that needs a restart.
const CONFIG_ANNOTATION: &str = "reports-server.io/config";
const TLS: &str = "kubernetes.io/tls";

/// Everything that a managed database is made of, in the order in which it is applied.
#[derive(Clone, Debug)]
pub struct Children {
    /// The superuser's password.
    pub password: Secret,
    /// The database's certificate.
    pub tls: Secret,
    /// The certificate by which servers are let in.
    pub client: Secret,
    /// Configuration and scripts.
    pub config: ConfigMap,
    /// The volume.
    pub data: PersistentVolumeClaim,
    /// The Service by which servers reach the database.
    pub service: Service,
    /// The Service that names the pod; a `StatefulSet` asks for it.
    pub pods: Service,
    /// The database.
    pub stateful_set: StatefulSet,
    /// The objects that bring it to another major version.
    pub upgrade: Option<upgrade::Children>,
    /// The Job that fills the new database from a backup.
    pub recovery: Option<Job>,
    /// The volume for backups.
    pub backups: Option<PersistentVolumeClaim>,
    /// The `CronJob` that makes backups.
    pub backup: Option<CronJob>,
}

/// Builds all of these objects.
#[must_use]
pub fn children(managed: &Managed, material: &Material, scope: Scope<'_>) -> Children {
    let names = scope.names;
    let files = conf::files(managed);
    let tls = |name: String, data: BTreeMap<String, ByteString>| Secret {
        metadata: scope.metadata(name),
        type_: Some(TLS.to_owned()),
        data: Some(data),
        ..Secret::default()
    };
    Children {
        // It goes with the volume: one without the other is of no use.
        password: Secret {
            metadata: scope.retained(names.postgres()),
            data: Some(BTreeMap::from([(
                PASSWORD_KEY.to_owned(),
                ByteString(managed.password.clone().into_bytes()),
            )])),
            ..Secret::default()
        },
        tls: tls(names.postgres_tls(), material.database_server_data()),
        client: tls(names.database_client(), material.database_client_data()),
        stateful_set: stateful_set(managed, &files, scope),
        upgrade: managed
            .upgrade
            .as_ref()
            .map(|wanted| upgrade::children(managed, wanted, scope)),
        recovery: managed
            .recovering()
            .map(|recovery| backup::recovery_job(managed, recovery, scope)),
        backups: managed
            .backup
            .as_ref()
            .and_then(|own| backup::claim(own, scope)),
        backup: managed
            .backup
            .as_ref()
            .map(|own| backup::cron_job(managed, own, scope)),
        config: ConfigMap {
            metadata: scope.metadata(names.postgres()),
            data: Some(files),
            ..ConfigMap::default()
        },
        data: claim(managed, managed.claim(), scope),
        service: service(scope, names.postgres(), None),
        pods: service(scope, names.postgres_pods(), Some("None")),
    }
}

fn stateful_set(
    managed: &Managed,
    files: &BTreeMap<String, String>,
    scope: Scope<'_>,
) -> StatefulSet {
    let names = scope.names;
    let stopped = managed.present.stopped;
    let stopped_note = || BTreeMap::from([(STOPPED_ANNOTATION.to_owned(), "true".to_owned())]);
    StatefulSet {
        metadata: ObjectMeta {
            annotations: stopped.then(stopped_note),
            ..scope.metadata(names.postgres())
        },
        spec: Some(StatefulSetSpec {
            replicas: Some(i32::from(!stopped)),
            service_name: Some(names.postgres_pods()),
            selector: LabelSelector {
                match_labels: Some(names.postgres_selector()),
                ..LabelSelector::default()
            },
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("RollingUpdate".to_owned()),
                ..StatefulSetUpdateStrategy::default()
            }),
            revision_history_limit: Some(3),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(names.postgres_labels()),
                    annotations: Some(BTreeMap::from([(
                        CONFIG_ANNOTATION.to_owned(),
                        restart_key(files),
                    )])),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(managed, names)),
            },
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

/// Returns the hash of the configuration that takes effect only with a restart; the rest is read
/// again.
fn restart_key(files: &BTreeMap<String, String>) -> String {
    let text = |name: &str| files.get(name).map_or("", String::as_str);
    let reloaded = |line: &&str| {
        let setting = line.split_once(" = ").map(|(setting, _)| setting);
        setting.is_some_and(|setting| conf::RELOADED.contains(&setting))
    };
    let mut hash = Sha256::new();
    for line in text(conf::CONF).lines().filter(|line| !reloaded(line)) {
        hash.update(line);
        hash.update([b'\n']);
    }
    for script in [conf::START, conf::RELOAD] {
        hash.update(text(script));
        hash.update([0]);
    }
    let hash = hex::encode(hash.finalize());
    hash.chars().take(16).collect()
}

fn service(scope: Scope<'_>, name: String, cluster_ip: Option<&str>) -> Service {
    Service {
        metadata: scope.metadata(name),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            cluster_ip: cluster_ip.map(str::to_owned),
            selector: Some(scope.names.postgres_selector()),
            ports: Some(vec![ServicePort {
                name: Some(PORT_NAME.to_owned()),
                port: PORT,
                protocol: Some("TCP".to_owned()),
                target_port: Some(IntOrString::String(PORT_NAME.to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}
