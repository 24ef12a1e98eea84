//! The parts of the pods of a database, of its backups and of its upgrades.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::JobSpec;
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, EnvVar, KeyToPath, LocalObjectReference,
    PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec, PodTemplateSpec,
    ResourceRequirements, SecretVolumeSource, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::wanted::Managed;
use crate::security;

/// Longest Job: a check, a backup, a restore, a copy.
const DEADLINE_SECONDS: i64 = 6 * 3600;
/// User and group of the official image, where it is made from Debian.
const POSTGRES_ID: i64 = 999;
/// Files that only their owner and group read.
pub const READABLE: i32 = 0o440;
/// Scripts that the image starts.
pub const EXECUTABLE: i32 = 0o550;

/// Returns a variable of the environment.
pub fn variable(name: &str, value: String) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value),
        ..EnvVar::default()
    }
}

/// Returns the mount of a volume.
pub fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(read_only),
        ..VolumeMount::default()
    }
}

/// Returns a key as a file of the same name.
pub fn path(key: &str) -> KeyToPath {
    KeyToPath {
        key: key.to_owned(),
        path: key.to_owned(),
        ..KeyToPath::default()
    }
}

/// Returns the volume of a claim.
pub fn on_claim(name: &str, claim: String) -> Volume {
    Volume {
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim,
            ..PersistentVolumeClaimVolumeSource::default()
        }),
        ..named(name)
    }
}

/// Returns the volume with files of a `ConfigMap`.
pub fn files(name: &str, config_map: String, files: &[&str], mode: i32) -> Volume {
    Volume {
        config_map: Some(ConfigMapVolumeSource {
            name: config_map,
            items: Some(files.iter().map(|file| path(file)).collect()),
            default_mode: Some(mode),
            ..ConfigMapVolumeSource::default()
        }),
        ..named(name)
    }
}

/// Returns the volume of a Secret, or of one key of it.
pub fn secret(name: &str, secret: String, key: Option<&str>) -> Volume {
    Volume {
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret),
            items: key.map(|key| vec![path(key)]),
            default_mode: Some(READABLE),
            ..SecretVolumeSource::default()
        }),
        ..named(name)
    }
}

/// Returns the volume of a directory that lives as long as the pod.
pub fn empty(name: &str) -> Volume {
    Volume {
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..named(name)
    }
}

/// Returns the volume of `/dev/shm`. A container has 64 MiB by itself, too little for parallel
/// queries.
pub fn shared_memory(name: &str) -> Volume {
    Volume {
        empty_dir: Some(EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            ..EmptyDirVolumeSource::default()
        }),
        ..named(name)
    }
}

fn named(name: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        ..Volume::default()
    }
}

/// Returns a pod without containers, placed as the user wants the database's pods.
pub fn pod(managed: &Managed) -> PodSpec {
    PodSpec {
        // PostgreSQL has nothing to ask the kube-apiserver for.
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(security_context()),
        image_pull_secrets: pull_secrets(&managed.pull_secrets),
        node_selector: managed.node_selector.clone(),
        tolerations: managed.tolerations.clone(),
        priority_class_name: managed.priority_class.clone(),
        ..PodSpec::default()
    }
}

/// Returns the Secrets of these names with the registry's credentials, as a pod has them.
pub fn pull_secrets(names: &[String]) -> Option<Vec<LocalObjectReference>> {
    let secrets: Vec<LocalObjectReference> = names
        .iter()
        .map(|name| LocalObjectReference { name: name.clone() })
        .collect();
    (!secrets.is_empty()).then_some(secrets)
}

/// Returns a Job whose pods are not restarted, but replaced this many times.
pub fn job(labels: &BTreeMap<String, String>, retries: i32, pod: PodSpec) -> JobSpec {
    JobSpec {
        active_deadline_seconds: Some(DEADLINE_SECONDS),
        backoff_limit: Some(retries),
        template: PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(labels.clone()),
                ..ObjectMeta::default()
            }),
            spec: Some(PodSpec {
                restart_policy: Some("Never".to_owned()),
                ..pod
            }),
        },
        ..JobSpec::default()
    }
}

/// Returns the resources of a container that handles a backup a part at a time.
pub fn resources() -> ResourceRequirements {
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

/// Returns the security context. PostgreSQL takes a key that its own user owns, or root where the
/// group can read it: so a mounted Secret with an `fsGroup` is.
pub fn security_context() -> PodSecurityContext {
    PodSecurityContext {
        run_as_user: Some(POSTGRES_ID),
        run_as_group: Some(POSTGRES_ID),
        fs_group: Some(POSTGRES_ID),
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        ..security::pod()
    }
}
