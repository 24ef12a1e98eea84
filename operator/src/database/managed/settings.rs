//! The wanted managed database, as the specification asks for it.

use crds::v1alpha1::defaults::{BACKUP_RETENTION, BACKUP_SCHEDULE, Effective, STORAGE_SIZE};
use crds::v1alpha1::spec::{BackupSpec, ImageSpec, RecoverySpec};
use crds::v1alpha1::{ReportsServerSpec, reasons};
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::version::{self, SUPPORTED, major};
use super::wanted::{Backup, Destination, Managed, Present, Recovery, Source, TransferImage};
use crate::images;
use crate::names::Names;

/// Memory where the user gives none.
const MEMORY: (&str, &str) = ("512Mi", "1Gi");
/// CPU that is asked for where the user gives none.
const CPU: &str = "250m";

/// The reason why a specification cannot be carried out: reason of the conditions, and field and
/// remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// One of [`reasons`].
    pub reason: &'static str,
    /// Field and remedy.
    pub message: String,
}

/// The facts that a managed database depends on besides its own part of the specification.
#[derive(Clone, Debug)]
pub struct Surroundings<'a> {
    /// Image of PostgreSQL where the specification names none.
    pub default_image: &'a str,
    /// The image that transfers backups to a bucket and back.
    pub transfer_image: TransferImage,
    /// uid of the namespace `kube-system`: it stands for the etcd that reports are imported from.
    pub cluster_uid: &'a str,
    /// Most servers that there can be.
    pub servers: i32,
}

/// Reads the specification of the `ReportsServer` called `name`.
///
/// # Errors
/// If it contradicts itself.
pub fn settings(
    name: &str,
    spec: &ReportsServerSpec,
    effective: &Effective,
    surroundings: Surroundings<'_>,
) -> Result<Managed, SettingsError> {
    let Surroundings {
        default_image,
        transfer_image,
        cluster_uid,
        servers,
    } = surroundings;
    let database = spec.database.clone().unwrap_or_default();
    let managed = database.managed.unwrap_or_default();
    let images = spec.images.clone().unwrap_or_default();
    let image = images.postgres.unwrap_or_default();
    let server = spec.server.clone().unwrap_or_default();
    let wanted = managed.bootstrap.and_then(|bootstrap| bootstrap.recovery);
    let recovery = wanted.map(|wanted| recovery(name, wanted, database.backup.as_ref()));
    let (version, explicit) = wanted_version(managed.version.as_deref(), &image, default_image)?;
    Ok(Managed {
        version,
        explicit,
        default_image: default_image.to_owned(),
        registry: images.registry,
        image,
        size: Quantity(effective.storage_size.clone()),
        class: managed
            .storage
            .and_then(|storage| storage.storage_class_name),
        resources: resources(managed.resources),
        node_selector: server.node_selector,
        tolerations: server.tolerations,
        priority_class: server.priority_class_name,
        pull_secrets: images
            .pull_secrets
            .into_iter()
            .flatten()
            .map(|reference| reference.name)
            .collect(),
        servers: u64::try_from(servers).unwrap_or(1),
        connections: effective.max_connections.unwrap_or(1).into(),
        backup: database.backup.map(backup),
        transfer_image,
        cluster_uid: cluster_uid.to_owned(),
        recovery,
        names: Names::new(name),
        pinned: None,
        stays: false,
        password: String::new(),
        present: Present::default(),
        upgrade: None,
    })
}

/// Returns the version of the field, else that of the user's tag, else that of the release, and
/// whether the user has named it.
///
/// # Errors
/// If the field and the tag differ, or an image does not say its version.
fn wanted_version(
    field: Option<&str>,
    image: &ImageSpec,
    default_image: &str,
) -> Result<(u32, bool), SettingsError> {
    let invalid = |message: String| SettingsError {
        reason: reasons::INVALID_SPEC,
        message,
    };
    let by_field = field.and_then(|field| field.parse::<u32>().ok());
    let by_tag = image.tag.as_deref().and_then(major);
    if let (Some(field), Some(tag), None) = (by_field, by_tag, &image.digest)
        && field != tag
    {
        return Err(invalid(format!(
            "spec.database.managed.version: is {field}, but spec.images.postgres.tag is of \
             version {tag}; make them agree"
        )));
    }
    let explicit = by_field.or(by_tag);
    let unknown = |image: &str, remedy: &str| {
        invalid(format!(
            "{image} does not say which major version of PostgreSQL it is of: {remedy}"
        ))
    };
    // A wrong guess would start one version on the files of another.
    let version = if image.tag.is_some() || image.digest.is_some() {
        let remedy = "set spec.database.managed.version to it";
        explicit.ok_or_else(|| unknown("spec.images.postgres", remedy))?
    } else {
        let own = format!("the operator's image {default_image}");
        let remedy = "have RELATED_IMAGE_POSTGRES of the operator name the tag before the digest, \
                      as in repository:17.11-bookworm@sha256:...";
        let default = major(images::version(default_image));
        explicit.unwrap_or(default.ok_or_else(|| unknown(&own, remedy))?)
    };
    if version::tag(version).is_none() {
        let known: Vec<String> = SUPPORTED.iter().map(|(v, _)| v.to_string()).collect();
        return Err(invalid(format!(
            "spec.database.managed.version: {version} is not one of {}",
            known.join(", ")
        )));
    }
    Ok((version, explicit.is_some()))
}

/// Returns the backups that are asked for, with defaults.
pub(in crate::database) fn backup(spec: BackupSpec) -> Backup {
    let BackupSpec {
        schedule,
        retention,
        destination,
    } = spec;
    let destination = destination.unwrap_or_default();
    let storage = destination.pvc.and_then(|volume| volume.storage);
    let storage = storage.unwrap_or_default();
    Backup {
        schedule: schedule.unwrap_or_else(|| BACKUP_SCHEDULE.to_owned()),
        retention: retention.map_or(BACKUP_RETENTION, Into::into),
        destination: match destination.s3 {
            Some(bucket) => Destination::Bucket(bucket),
            None => Destination::Volume {
                size: storage
                    .size
                    .unwrap_or_else(|| Quantity(STORAGE_SIZE.to_owned())),
                class: storage.storage_class_name,
            },
        },
    }
}

/// Returns the backup with which the database of the `ReportsServer` called `name` starts.
pub(in crate::database) fn recovery(
    name: &str,
    spec: RecoverySpec,
    backups: Option<&BackupSpec>,
) -> Recovery {
    Recovery {
        // People copy the name of the file.
        backup: spec.backup_name.trim_end_matches(".dump").to_owned(),
        source: source(name, spec, backups),
    }
}

/// Returns the place of a backup to start with: the one of the specification, else the one to which
/// the backups of a `ReportsServer` of this name go.
fn source(name: &str, recovery: RecoverySpec, backups: Option<&BackupSpec>) -> Source {
    let destination = backups.and_then(|backup| backup.destination.as_ref());
    let bucket = destination.and_then(|destination| destination.s3.clone());
    match (recovery.volume_claim_ref, recovery.s3.or(bucket)) {
        (Some(claim), _) => Source::Claim(claim.name),
        (None, Some(bucket)) => Source::Bucket(bucket),
        (None, None) => Source::Claim(Names::new(name).backup()),
    }
}

/// Returns the resources of the database. They always have a limit of memory, because the settings
/// are made for it.
fn resources(own: Option<ResourceRequirements>) -> ResourceRequirements {
    let Some(own) = own else {
        let quantity = |text: &str| Quantity(text.to_owned());
        let (request, limit) = MEMORY;
        return ResourceRequirements {
            requests: Some(
                [
                    ("cpu".to_owned(), quantity(CPU)),
                    ("memory".to_owned(), quantity(request)),
                ]
                .into(),
            ),
            limits: Some([("memory".to_owned(), quantity(limit))].into()),
            ..ResourceRequirements::default()
        };
    };
    own
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const DEFAULT: &str = "docker.io/library/postgres:17.11-bookworm";

    #[rstest]
    #[case::of_the_release(DEFAULT, None, None, None, Ok((17, false)))]
    #[case::beside_a_digest("r.example/postgres:17.11@sha256:ab", None, None, None, Ok((17, false)))]
    #[case::by_the_field(DEFAULT, Some("16"), None, None, Ok((16, true)))]
    #[case::by_the_tag(DEFAULT, None, Some("15.1"), None, Ok((15, true)))]
    #[case::by_the_tag_of_a_digest(DEFAULT, None, Some("15.1"), Some("sha256:ab"), Ok((15, true)))]
    #[case::field_for_a_digest(DEFAULT, Some("16"), None, Some("sha256:ab"), Ok((16, true)))]
    #[case::digest(DEFAULT, None, None, Some("sha256:ab"), Err("managed.version"))]
    #[case::word(DEFAULT, None, Some("latest"), None, Err("managed.version"))]
    #[case::release_by_digest(
        "r.example/p@sha256:ab",
        Some("16"),
        None,
        None,
        Err("RELATED_IMAGE")
    )]
    #[case::other_image("r.example/p@sha256:ab", None, Some("16.2"), None, Ok((16, true)))]
    fn a_version_is_never_guessed(
        #[case] default: &str,
        #[case] field: Option<&str>,
        #[case] tag: Option<&str>,
        #[case] digest: Option<&str>,
        #[case] expected: Result<(u32, bool), &str>,
    ) {
        let image = ImageSpec {
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
            ..ImageSpec::default()
        };
        match (wanted_version(field, &image, default), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(words)) => assert!(error.message.contains(words), "{error:?}"),
            other => panic!("{other:?}"),
        }
    }
}
