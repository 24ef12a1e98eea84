//! Status of a `ReportsServer`: what the operator found and did.
//!
//! The contract is the conditions ([`super::conditions`]); everything else explains them. Each
//! field can be read from the cluster and the server again, but for what keeps a database and its
//! rows from being taken for another one: its history, its cluster identity and its claim.

mod migration;

pub use migration::{
    GroupMigrationStatus, MigrationPhase, MigrationReportStatus, MigrationStatus, PlanStatus,
    ResourceMigrationStatus, RestartResult, RestartStatus, RollbackStatus, SideDoor,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::defaults::Effective;
use super::spec::{DatabaseMode, TlsMode};

/// The status of a `ReportsServer`, which the operator writes.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportsServerStatus {
    /// `metadata.generation` of the specification that this status answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions, by type. `Ready` sums up the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// API groups served by the server, of those asked for, such as `2/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub served: Option<String>,
    /// Versions in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<VersionsStatus>,
    /// The APIServices concerned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub apis: Vec<ApiStatus>,
    /// The migrations between etcd and the server's database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<MigrationStatus>,
    /// The database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<DatabaseStatus>,
    /// The certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsStatus>,
    /// The server's pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerStatus>,
    /// Settings in force: those of the specification, and the defaults where it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<Effective>,
    /// The annotation `reports-server.io/request` that was acted on last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub last_handled_request: Option<String>,
}

/// Versions in use.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionsStatus {
    /// The operator's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub operator: Option<String>,
    /// The running server's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub server: Option<String>,
    /// Version of the database's schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub schema: Option<String>,
    /// The running PostgreSQL's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub postgres: Option<String>,
}

/// One `APIService`.
#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiStatus {
    /// Name of the APIService, such as `v1alpha2.wgpolicyk8s.io`.
    #[schemars(length(max = 317))]
    pub name: String,
    /// API group of the APIService.
    #[schemars(length(max = 253))]
    pub group: String,
    /// Version of the API.
    #[schemars(length(max = 63))]
    pub version: String,
    /// The component that answers for it now.
    pub served_by: ServedBy,
    /// The time since which it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// uid of the APIService.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub uid: Option<String>,
    /// Labels and specification before the switch, for people who want to look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::any_object")]
    pub original: Option<Map<String, Value>>,
}

/// The component that answers for an API.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum ServedBy {
    /// Our aggregated API server.
    Server,
    /// The kube-apiserver, from etcd.
    #[serde(rename = "CRD")]
    Crd,
    /// Nobody; there is no APIService and no CRD.
    Absent,
    /// An APIService of somebody else.
    Foreign,
}

/// The database.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseStatus {
    /// Mode in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<DatabaseMode>,
    /// Key of this cluster's reports in it; empty for `Embedded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub cluster_identity: Option<String>,
    /// The history of this cluster there: a random name that goes along with backups, copies and
    /// upgrades. A database without it is not used; empty for `Embedded` and before the first use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36))]
    pub history: Option<String>,
    /// Host name; empty for `Embedded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub host: Option<String>,
    /// True when the database can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Instance that takes writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub primary: Option<String>,
    /// The `PersistentVolumeClaim` of modes `Embedded` and `Managed`; empty where it is ephemeral.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub volume_claim: Option<String>,
    /// Size of the reports in the database, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<i64>,
    /// The last backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_backup: Option<LastBackup>,
    /// Version of the database's schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub schema_version: Option<String>,
    /// The move of the reports to another database, while it lasts.
    #[serde(default, rename = "move", skip_serializing_if = "Option::is_none")]
    pub move_: Option<DatabaseMoveStatus>,
}

/// The progress of the move of the reports to another database.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseMoveStatus {
    /// The present part of the move, such as `Copying` or `Comparing`.
    #[schemars(length(max = 32))]
    pub phase: String,
    /// The destination of the move.
    #[schemars(length(max = 316))]
    pub target: String,
    /// Objects that the first pass has copied.
    pub objects_copied: i64,
    /// Objects that there were when the first pass began.
    pub objects_total: i64,
}

/// The last backup.
#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastBackup {
    /// Name of the backup, by which it can be restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// The time at which it ended.
    pub time: Time,
    /// The result of the backup.
    pub result: BackupResult,
}

/// The result of a backup.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum BackupResult {
    /// It is complete and readable.
    Succeeded,
    /// It is not.
    Failed,
}

/// The certificates.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsStatus {
    /// The issuer of the certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<TlsMode>,
    /// SHA-256 of the certificate authorities in the APIServices' bundle, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 128)))]
    pub ca_fingerprints: Vec<String>,
    /// The time at which the serving certificate expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,
    /// The time at which it is going to be replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_rotation: Option<Time>,
    /// The state of a rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<TlsPhase>,
}

/// The state of the rotation of certificates. The order keeps every client trusting: the new
/// authority is trusted before a leaf of it is shown, and the old one until no leaf of it is shown.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum TlsPhase {
    /// One authority, one leaf.
    #[default]
    Stable,
    /// Old and new authority are trusted, the old one's leaf is in use.
    Overlap,
    /// The new authority's leaf is in use, the old authority is about to go.
    Retiring,
}

/// The server's pods.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    /// Pods that exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Pods that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Label selector of the pods, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub selector: Option<String>,
    /// Image that they run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub image: Option<String>,
}
