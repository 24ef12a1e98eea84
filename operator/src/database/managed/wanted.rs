//! The database as it is wanted.

use std::collections::BTreeMap;
use std::time::Duration;

use crds::v1alpha1::spec::{ImageSpec, PullPolicy, S3Destination};
use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::quantity;
use super::tuning::Room;
use super::upgrade::{Upgrade, Volume, Volumes};
use super::version::{self, major};
use crate::images;
use crate::names::Names;

/// The size that the settings assume where a quantity cannot be read.
const GIB: u64 = 1 << 30;

/// A managed database as it is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Managed {
    pub(super) version: u32,
    /// True when the user names the version; else the one of the volume counts.
    pub(super) explicit: bool,
    pub(super) default_image: String,
    pub(super) registry: Option<String>,
    pub(super) image: ImageSpec,
    /// Size of the volume.
    pub size: Quantity,
    /// `StorageClass`; the cluster's default where absent.
    pub class: Option<String>,
    /// CPU and memory, with defaults.
    pub resources: ResourceRequirements,
    /// Labels that a node must have.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints that are tolerated.
    pub tolerations: Option<Vec<Toleration>>,
    /// `PriorityClass`.
    pub priority_class: Option<String>,
    /// Secrets with the registry's credentials.
    pub pull_secrets: Vec<String>,
    pub(super) servers: u64,
    pub(super) connections: u64,
    /// Backups, where they are asked for.
    pub backup: Option<Backup>,
    /// The image that transfers backups to a bucket and back.
    pub transfer_image: TransferImage,
    /// uid of the namespace `kube-system`.
    pub cluster_uid: String,
    pub(super) recovery: Option<Recovery>,
    pub(super) names: Names,
    /// The image that stays in use, whatever the specification says of others.
    pub(super) pinned: Option<String>,
    /// The superuser's password; made once, and kept.
    pub password: String,
    /// True when the major version is not changed, whatever is asked for.
    pub(super) stays: bool,
    /// The parts that there are already.
    pub present: Present,
    /// The major upgrade that is wanted.
    pub upgrade: Option<Upgrade>,
}

impl Managed {
    /// Returns the major version.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the image.
    #[must_use]
    pub fn image(&self) -> String {
        if let Some(pinned) = &self.pinned {
            return pinned.clone();
        }
        let tag = match version::tag(self.version) {
            Some(tag) if self.image.tag.is_none() && !self.default_fits() => Some(tag.to_owned()),
            _ => self.image.tag.clone(),
        };
        let image = ImageSpec {
            tag,
            ..self.image.clone()
        };
        images::resolve(&self.default_image, self.registry.as_deref(), &image)
    }

    /// Returns whether the release's image is of the wanted version. One that does not say it is
    /// not used.
    fn default_fits(&self) -> bool {
        let tag = images::version(&self.default_image);
        major(tag) == Some(self.version)
    }

    /// Returns the pull policy of the image.
    #[must_use]
    pub fn pull_policy(&self) -> PullPolicy {
        self.image.pull_policy.unwrap_or_default()
    }

    /// Returns the basis of the settings of PostgreSQL.
    #[must_use]
    pub fn room(&self) -> Room {
        let memory = |of: &Option<BTreeMap<String, Quantity>>| {
            let quantity = of.as_ref().and_then(|of| of.get("memory"));
            quantity.and_then(quantity::bytes)
        };
        let limits = memory(&self.resources.limits);
        Room {
            memory: limits
                .or_else(|| memory(&self.resources.requests))
                .unwrap_or(GIB),
            volume: quantity::bytes(&self.size).unwrap_or(10 * GIB),
            servers: self.servers,
            connections: self.connections,
        }
    }
}
/// Backups as they are wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Backup {
    /// The times, as a cron expression.
    pub schedule: String,
    /// The time for which a backup is kept.
    pub retention: Duration,
    /// The destination of the backups.
    pub destination: Destination,
}

/// The destination of backups.
#[derive(Clone, Debug, PartialEq)]
pub enum Destination {
    /// A volume of their own.
    Volume {
        /// Size of the volume.
        size: Quantity,
        /// `StorageClass`; the cluster's default where absent.
        class: Option<String>,
    },
    /// A bucket.
    Bucket(S3Destination),
}

/// The place of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// On a volume: name of the `PersistentVolumeClaim`.
    Claim(String),
    /// In a bucket.
    Bucket(S3Destination),
}

/// A backup with which the database starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Name of the backup.
    pub backup: String,
    /// Place of the backup.
    pub source: Source,
}

/// The image that transfers backups: the server's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferImage {
    /// Reference of the image.
    pub image: String,
    /// The pull policy of the image.
    pub pull_policy: PullPolicy,
}

/// The parts of a managed database that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// Volumes of the database.
    pub volumes: Volumes,
    /// True when the Job that restores the backup has succeeded.
    pub restored: bool,
    /// True when the database must not run now.
    pub stopped: bool,
    /// True when Jobs of upgrades have to be deleted.
    pub clear: bool,
}

impl Present {
    pub(super) fn volume(&self) -> Option<&Volume> {
        self.volumes.present.as_ref()
    }

    pub(super) fn recovery(&self) -> Option<&str> {
        self.volume()?.recovery.as_deref()
    }
}
