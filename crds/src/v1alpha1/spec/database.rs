//! `spec.database`: the database in which the server stores reports.

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LocalReference;
use crate::v1alpha1::schema;

/// The database in which the server stores reports. Only the member that belongs to `mode` may be
/// set.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!has(self.embedded) || !has(self.mode) || self.mode == 'Embedded'")
        .message("embedded can only be set with mode Embedded"),
    validation = Rule::new("!has(self.managed) || (has(self.mode) && self.mode == 'Managed')")
        .message("managed can only be set with mode Managed"),
    validation = Rule::new("(has(self.mode) && self.mode == 'External') == has(self.external)")
        .message("external must be set with mode External, and only then"),
    validation = Rule::new("(has(self.mode) && self.mode == 'CloudNativePG') == has(self.cloudNativePG)")
        .message("cloudNativePG must be set with mode CloudNativePG, and only then")
)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseSpec {
    /// The kind of database: `Embedded` (SQLite on a volume, one replica), `Managed` (PostgreSQL
    /// run by the operator), `External` (a PostgreSQL of yours) or `CloudNativePG`. Default:
    /// `Embedded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<DatabaseMode>,
    /// Details of mode `Embedded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedded: Option<EmbeddedSpec>,
    /// Details of mode `Managed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<ManagedSpec>,
    /// Details of mode `External`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalSpec>,
    /// Details of mode `CloudNativePG`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "cloudNativePG"
    )]
    pub cloud_native_pg: Option<CloudNativePgSpec>,
    /// Backups made by the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupSpec>,
    /// The server's connections to the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolSpec>,
}

/// The kind of database in which the server stores reports.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum DatabaseMode {
    /// SQLite on a volume of the server's pod; one replica.
    #[default]
    Embedded,
    /// PostgreSQL run by the operator.
    Managed,
    /// A PostgreSQL that somebody else runs.
    External,
    /// PostgreSQL by the `CloudNativePG` operator.
    #[serde(rename = "CloudNativePG")]
    CloudNativePg,
}

/// SQLite on a volume of the server's pod.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!has(self.ephemeral) || !has(self.storage) || !has(self.storage.storageClassName)")
        .message("storage.storageClassName cannot be set with ephemeral")
)]
#[serde(rename_all = "camelCase")]
pub struct EmbeddedSpec {
    /// The volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageSpec>,
    /// A volume that is gone with the pod, instead of a `PersistentVolumeClaim`. For trials:
    /// nothing is then ever pruned from etcd. Immutable while the mode is `Embedded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<EphemeralVolume>,
    /// The initial content of the database. Not with `ephemeral`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapSpec>,
}

/// A volume that is gone with the pod.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum EphemeralVolume {
    /// An `emptyDir` on the node's disk, limited to `storage.size`.
    EmptyDir,
}

/// A `PersistentVolumeClaim`.
// That it keeps its class and is not made smaller are rules of the whole object: `rules.rs`.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageSpec {
    /// Size of the volume, such as `10Gi`. It can grow where the storage class allows it. Default:
    /// `10Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub size: Option<Quantity>,
    /// `StorageClass` of the volume. Default: the cluster's default class. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
}

/// PostgreSQL run by the operator.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedSpec {
    /// Major version of PostgreSQL, from `14`. Default: that of the volume, else `17`. A newer
    /// one upgrades the database, which is away meanwhile; an older one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), regex(pattern = r"^[0-9]{2}$"))]
    pub version: Option<String>,
    /// The volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageSpec>,
    /// CPU and memory of the PostgreSQL container; its settings follow from the memory. Default:
    /// 250m and 512Mi requested, 1Gi at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// The initial content of the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapSpec>,
}

/// The initial content of a database.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapSpec {
    /// The backup whose content the database starts with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoverySpec>,
}

/// A backup to start with. It has an effect only on a database that does not exist yet.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!has(self.volumeClaimRef) || !has(self.s3)")
        .message("at most one of volumeClaimRef and s3 may be set")
)]
#[serde(rename_all = "camelCase")]
pub struct RecoverySpec {
    /// Name of the backup: its file's name without `.dump`.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
    )]
    pub backup_name: String,
    /// The `PersistentVolumeClaim` that holds the backup. Default: the place to which the backups
    /// of this `ReportsServer` go, be it a bucket or the claim that has outlived one of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_claim_ref: Option<LocalReference>,
    /// The S3 bucket that holds the backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Destination>,
}

/// A PostgreSQL that somebody else runs.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSpec {
    /// Secret with the connection's parameters: `uri`, or `host`, `port`, `dbname`, `username` and
    /// `password`; also `sslmode`, `target_session_attrs`, `ca.crt`, `tls.crt` and `tls.key` where
    /// nothing else says them.
    pub connection_secret_ref: LocalReference,
    /// Keys of that Secret, where they differ from the usual ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<ExternalKeys>,
    /// The check of the server's certificate. Default: `sslmode` of the Secret or its URI, else
    /// `verify-full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssl_mode: Option<SslMode>,
    /// Secret with the certificate authority in `ca.crt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<LocalReference>,
    /// Secret of type `kubernetes.io/tls` with the client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert_secret_ref: Option<LocalReference>,
}

/// Keys of a connection Secret: either `uri`, or the others.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!has(self.uri) || !(has(self.host) || has(self.port) || has(self.dbname) || has(self.username) || has(self.password))")
        .message("uri cannot be combined with host, port, dbname, username or password")
)]
#[serde(rename_all = "camelCase")]
pub struct ExternalKeys {
    /// Key of a whole connection URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub uri: Option<String>,
    /// Key of the host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub host: Option<String>,
    /// Key of the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub port: Option<String>,
    /// Key of the database's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub dbname: Option<String>,
    /// Key of the user's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub username: Option<String>,
    /// Key of the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub password: Option<String>,
}

/// The check of a PostgreSQL server's certificate; the names are libpq's.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
#[serde(rename_all = "kebab-case")]
pub enum SslMode {
    /// No TLS.
    Disable,
    /// TLS, nothing checked.
    Require,
    /// TLS, certificate checked.
    VerifyCa,
    /// TLS, certificate and host name checked.
    #[default]
    VerifyFull,
}

/// PostgreSQL by the `CloudNativePG` operator.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("has(self.clusterRef) != has(self.create)")
        .message("exactly one of clusterRef and create must be set")
)]
#[serde(rename_all = "camelCase")]
pub struct CloudNativePgSpec {
    /// An existing `Cluster` in `targetNamespace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<LocalReference>,
    /// A `Cluster` to be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<CloudNativePgCreate>,
}

/// A `CloudNativePG` `Cluster` to be made.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudNativePgCreate {
    /// Number of PostgreSQL instances. Default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 9))]
    pub instances: Option<i32>,
    /// The volume of each instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageSpec>,
    /// Catalog with the image of PostgreSQL. Default: the image that `CloudNativePG` brings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_catalog_ref: Option<ImageCatalogReference>,
    /// The `backup` section of the `Cluster`, handed on as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_object")]
    pub backup: Option<serde_json::Map<String, serde_json::Value>>,
}

/// An image of a catalog of `CloudNativePG`.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageCatalogReference {
    /// Name of the catalog.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Kind of the catalog: `ImageCatalog` (in `targetNamespace`) or `ClusterImageCatalog`.
    /// Default: `ImageCatalog`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ImageCatalogKind>,
    /// Major version of PostgreSQL, such as `17`.
    #[schemars(range(min = 14, max = 99))]
    pub major: i32,
}

/// Kind of a catalog of images.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum ImageCatalogKind {
    /// In one namespace.
    #[default]
    ImageCatalog,
    /// For the whole cluster.
    ClusterImageCatalog,
}

/// Backups made by the operator; with mode `Embedded` or `Managed`.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupSpec {
    /// The times of backups, as a cron expression of five fields, UTC. Default: `0 3 * * *`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 9, max = 64))]
    pub schedule: Option<String>,
    /// The time for which backups are kept, such as `168h`; the newest is always kept. Default:
    /// `720h` (30 days).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub retention: Option<kube::core::Duration>,
    /// The destination of backups. Default: a volume of 10Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<BackupDestination>,
}

/// The destination of backups: exactly one member.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("has(self.pvc) != has(self.s3)")
        .message("exactly one of pvc and s3 must be set")
)]
#[serde(rename_all = "camelCase")]
pub struct BackupDestination {
    /// A volume in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pvc: Option<PersistentVolumeDestination>,
    /// An S3 bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Destination>,
}

/// Backups on a volume.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PersistentVolumeDestination {
    /// The volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageSpec>,
}

/// Backups in an S3 bucket.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct S3Destination {
    /// Name of the bucket.
    #[schemars(length(min = 3, max = 63))]
    pub bucket: String,
    /// Prefix of every key in the bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub prefix: Option<String>,
    /// URL of the service, where it is not AWS, such as `https://minio.example:9000`; buckets are
    /// then addressed by path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), regex(pattern = r"^https?://[^/]+"))]
    pub endpoint: Option<String>,
    /// Region of the bucket. Default: `us-east-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub region: Option<String>,
    /// Secret with `accessKeyId`, `secretAccessKey` and, for temporary credentials, `sessionToken`.
    pub credentials_secret_ref: LocalReference,
    /// Secret with the CAs of the service's certificate in the key `ca.crt`. Default: the public
    /// CAs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<LocalReference>,
}

/// The server's connections to the database.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolSpec {
    /// Most connections of one server pod. Default: 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 200))]
    pub max_connections: Option<i32>,
}
