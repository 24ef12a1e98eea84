//! The objects of a managed database.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy},
        batch::v1::{CronJob, Job},
        core::v1::{
            ConfigMap, PersistentVolumeClaim, PersistentVolumeClaimSpec, PodTemplateSpec, Secret,
            Service, ServicePort, ServiceSpec, VolumeResourceRequirements,
        },
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference},
        util::intstr::IntOrString,
    },
};
use sha2::{Digest, Sha256};

use super::{
    PASSWORD_KEY, PORT, backup, conf,
    pod::{PORT_NAME, pod},
    settings::Managed,
    upgrade::{self, IMAGE_ANNOTATION},
};
use crate::{certs::Material, names::Names};

/// Annotation of the volume: the major version that its data is of.
pub const VERSION_ANNOTATION: &str = "reports-server.io/postgres-version";
/// Annotation of the volume: whether the backup that it starts with has been restored.
pub const RECOVERY_ANNOTATION: &str = "reports-server.io/recovery";
/// Annotation of the `StatefulSet` while an upgrade has stopped the database. It tells the
/// operator's stop from one by hand.
pub const STOPPED_ANNOTATION: &str = "reports-server.io/stopped-for-upgrade";
/// Annotation of the pods: what they have to be started anew for.
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
    /// Where servers reach the database.
    pub service: Service,
    /// Names the pod; a `StatefulSet` asks for it.
    pub pods: Service,
    /// The database.
    pub stateful_set: StatefulSet,
    /// Brings it to another major version.
    pub upgrade: Option<upgrade::Children>,
    /// Fills the new database from a backup.
    pub recovery: Option<Job>,
    /// The volume for backups.
    pub backups: Option<PersistentVolumeClaim>,
    /// Makes backups.
    pub backup: Option<CronJob>,
}

/// Where the objects belong.
#[derive(Clone, Copy, Debug)]
pub struct Home<'a> {
    /// Names.
    pub names: &'a Names,
    /// The target namespace.
    pub namespace: &'a str,
    /// Makes the objects go with the `ReportsServer`.
    pub owner: Option<&'a OwnerReference>,
    /// Whether the volume stays nevertheless.
    pub retain_data: bool,
}

impl Home<'_> {
    pub(super) fn metadata(&self, name: String) -> ObjectMeta {
        ObjectMeta {
            owner_references: self.owner.map(|owner| vec![owner.clone()]),
            ..self.unowned(name, self.names.postgres_labels())
        }
    }

    /// Of what stays when the `ReportsServer` goes, unless the user has confirmed otherwise.
    pub(super) fn retained(&self, name: String) -> ObjectMeta {
        if self.retain_data {
            return self.unowned(name, self.names.postgres_labels());
        }
        self.metadata(name)
    }

    /// Of what always stays.
    pub(super) fn unowned(&self, name: String, labels: BTreeMap<String, String>) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.namespace.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        }
    }
}

/// Builds all of them.
#[must_use]
pub fn children(managed: &Managed, material: &Material, home: Home<'_>) -> Children {
    let names = home.names;
    let files = conf::files(managed);
    let tls = |name: String, data: BTreeMap<String, ByteString>| Secret {
        metadata: home.metadata(name),
        type_: Some(TLS.to_owned()),
        data: Some(data),
        ..Secret::default()
    };
    Children {
        // It goes with the volume: one without the other is of no use.
        password: Secret {
            metadata: home.retained(names.postgres()),
            data: Some(BTreeMap::from([(
                PASSWORD_KEY.to_owned(),
                ByteString(managed.password.clone().into_bytes()),
            )])),
            ..Secret::default()
        },
        tls: tls(names.postgres_tls(), material.database_server_data()),
        client: tls(names.database_client(), material.database_client_data()),
        stateful_set: stateful_set(managed, &files, home),
        upgrade: managed
            .upgrade
            .as_ref()
            .map(|wanted| upgrade::children(managed, wanted, home)),
        recovery: managed
            .recovering()
            .map(|recovery| backup::recovery_job(managed, recovery, home)),
        backups: managed
            .backup
            .as_ref()
            .and_then(|own| backup::claim(own, home)),
        backup: managed
            .backup
            .as_ref()
            .map(|own| backup::cron_job(managed, own, home)),
        config: ConfigMap {
            metadata: home.metadata(names.postgres()),
            data: Some(files),
            ..ConfigMap::default()
        },
        data: claim(managed, managed.claim(), home),
        service: service(home, names.postgres(), None),
        pods: service(home, names.postgres_pods(), Some("None")),
    }
}

fn stateful_set(
    managed: &Managed,
    files: &BTreeMap<String, String>,
    home: Home<'_>,
) -> StatefulSet {
    let names = home.names;
    let stopped = managed.present.stopped;
    let stopped_note = || BTreeMap::from([(STOPPED_ANNOTATION.to_owned(), "true".to_owned())]);
    StatefulSet {
        metadata: ObjectMeta {
            annotations: stopped.then(stopped_note),
            ..home.metadata(names.postgres())
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

/// A change of these takes effect with a restart only; the others are read again.
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

/// One claim with a name of ours, not one by template: a template's size cannot be changed, and a
/// volume has to be able to grow.
pub(super) fn claim(managed: &Managed, name: String, home: Home<'_>) -> PersistentVolumeClaim {
    let mut metadata = home.retained(name);
    let version = (VERSION_ANNOTATION.to_owned(), managed.version().to_string());
    let image = (IMAGE_ANNOTATION.to_owned(), managed.image());
    let recovery = managed.recovery_note();
    let recovery = recovery.map(|note| (RECOVERY_ANNOTATION.to_owned(), note));
    metadata.annotations = Some([version, image].into_iter().chain(recovery).collect());
    PersistentVolumeClaim {
        metadata,
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: managed.class.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([(
                    "storage".to_owned(),
                    managed.size.clone(),
                )])),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}

fn service(home: Home<'_>, name: String, cluster_ip: Option<&str>) -> Service {
    Service {
        metadata: home.metadata(name),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            cluster_ip: cluster_ip.map(str::to_owned),
            selector: Some(home.names.postgres_selector()),
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
