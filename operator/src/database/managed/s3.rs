//! Backups in an S3 bucket. The official image cannot speak S3: the server's image, which has a
//! program for it, carries the file between the bucket and a directory that both containers share.

use crds::v1alpha1::spec::S3Destination;
use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, SecretKeySelector, Volume, VolumeMount,
};
use sha2::{Digest, Sha256};

use super::parts::{mount, resources, secret};
use super::wanted::TransferImage;
use crate::security;

/// The directory in which the CAs of the service's certificate are mounted.
const CA_DIRECTORY: &str = "/etc/reports-s3";
const CA_FILE: &str = "ca.crt";
const CA_VOLUME: &str = "s3-ca";
/// Keys of the Secret with credentials, the variables that they become, and true for those that may
/// be missing.
const CREDENTIALS: [(&str, &str, bool); 3] = [
    ("accessKeyId", "AWS_ACCESS_KEY_ID", false),
    ("secretAccessKey", "AWS_SECRET_ACCESS_KEY", false),
    ("sessionToken", "AWS_SESSION_TOKEN", true),
];

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::database) enum Transfer {
    /// Brings the file to the bucket, and deletes backups that are older than these minutes.
    Put { retention_minutes: u64 },
    /// Brings the file from the bucket.
    Get,
}

/// Returns the container that transfers the backup of the variable `BACKUP_NAME`.
pub(in crate::database) fn container(
    image: &TransferImage,
    bucket: &S3Destination,
    transfer: Transfer,
    name: EnvVar,
    directory: VolumeMount,
) -> Container {
    let ca = bucket.ca_secret_ref.is_some();
    let ca = ca.then(|| mount(CA_VOLUME, CA_DIRECTORY, true));
    let mut variables = vec![name];
    variables.extend(CREDENTIALS.map(|credential| variable(bucket, credential)));
    Container {
        name: "s3".to_owned(),
        image: Some(image.image.clone()),
        image_pull_policy: Some(image.pull_policy.as_str().to_owned()),
        args: Some(args(bucket, transfer, &directory.mount_path)),
        env: Some(variables),
        resources: Some(resources()),
        volume_mounts: Some([directory].into_iter().chain(ca).collect()),
        security_context: Some(security::container()),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

fn args(bucket: &S3Destination, transfer: Transfer, directory: &str) -> Vec<String> {
    let mut args = vec!["backup".to_owned()];
    match transfer {
        Transfer::Put { retention_minutes } => args.extend([
            "put".to_owned(),
            format!("--retention-minutes={retention_minutes}"),
        ]),
        Transfer::Get => args.push("get".to_owned()),
    }
    args.extend([
        "--name=$(BACKUP_NAME)".to_owned(),
        format!("--directory={directory}"),
        format!("--bucket={}", bucket.bucket),
    ]);
    let optional = [
        ("prefix", &bucket.prefix),
        ("endpoint", &bucket.endpoint),
        ("region", &bucket.region),
    ];
    for (option, value) in optional {
        args.extend(value.iter().map(|value| format!("--{option}={value}")));
    }
    let ca = bucket.ca_secret_ref.as_ref();
    args.extend(ca.map(|_| format!("--ca-file={CA_DIRECTORY}/{CA_FILE}")));
    args
}

fn variable(bucket: &S3Destination, (key, name, optional): (&str, &str, bool)) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: bucket.credentials_secret_ref.name.clone(),
                key: key.to_owned(),
                optional: optional.then_some(true),
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

/// Returns the volume with the CAs, where the service has its own.
pub(in crate::database) fn volume(bucket: &S3Destination) -> Option<Volume> {
    let from = bucket.ca_secret_ref.as_ref()?;
    Some(secret(CA_VOLUME, from.name.clone(), Some(CA_FILE)))
}

/// Hashes the parts that tell one place from another, for the name of a Job.
pub(in crate::database) fn distinguish(bucket: &S3Destination, hash: &mut Sha256) {
    let parts = [&bucket.endpoint, &bucket.region, &bucket.prefix];
    let parts = parts.map(|part| part.as_deref().unwrap_or_default());
    for part in [bucket.bucket.as_str()].into_iter().chain(parts) {
        hash.update(part);
        hash.update([0]);
    }
}
