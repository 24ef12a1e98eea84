//! The specification of a `ReportsServer`, which the user writes.
//!
//! Every optional field is an `Option` and has no default in the schema; what is in force where
//! nothing is given is in [`super::defaults`] and shown in `status.effective`.

mod database;
mod images;
mod migration;
mod monitoring;
mod network;
mod reference;
mod server;
mod tls;
mod tracing;

pub use database::{
    BackupDestination, BackupSpec, BootstrapSpec, CloudNativePgCreate, CloudNativePgSpec,
    DatabaseMode, DatabaseSpec, EmbeddedSpec, EphemeralVolume, ExternalKeys, ExternalSpec,
    ManagedSpec, PersistentVolumeDestination, PoolSpec, RecoverySpec, S3Destination, SslMode,
    StorageSpec,
};
pub use images::{ImageSpec, ImagesSpec, PullPolicy};
pub use migration::{
    Approval, MigrationSpec, OnFailure, RestartSpec, RestartWhen, SourcePolicy, SourceSpec,
    Verification, WorkloadKind,
};
pub use monitoring::MonitoringSpec;
pub use network::NetworkPolicySpec;
pub use reference::LocalReference;
pub use server::{
    AutoscalingSpec, LogFormat, LogLevel, LoggingSpec, PodDisruptionBudgetSpec, ServerSpec,
    ServiceAccountSpec,
};
pub use tls::{
    CertManagerSpec, IssuerReference, OperatorTlsSpec, ProvidedTlsSpec, TlsMode, TlsSpec,
};
pub use tracing::TracingSpec;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules::{Volume, grows, keeps_class};
use super::status::ReportsServerStatus;

/// The specification of a `ReportsServer`.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "reports-server.io",
    version = "v1alpha1",
    kind = "ReportsServer",
    plural = "reportsservers",
    shortname = "rsrv",
    status = "ReportsServerStatus",
    derive = "PartialEq",
    doc = "ReportsServer takes policy reports out of etcd: it runs an aggregated API server with a database of its own, copies the existing reports into it, lets it answer for the report APIs, and can give them back.",
    validation = Rule::new("self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message("name must be a DNS label that starts with a letter, of at most 40 characters: the children are named after it"),
    // Until the reports are moved, the status says where they are, and the move can be given up.
    validation = Rule::new("!has(oldSelf.spec.database) || !has(oldSelf.spec.database.mode) || oldSelf.spec.database.mode == 'Embedded' || (has(oldSelf.status) && has(oldSelf.status.database) && has(oldSelf.status.database.mode) && oldSelf.status.database.mode == 'Embedded') || (has(self.spec.database) && has(self.spec.database.mode) && (self.spec.database.mode == oldSelf.spec.database.mode || self.spec.database.mode == 'External' || self.spec.database.mode == 'Embedded' || (has(oldSelf.status) && has(oldSelf.status.database) && has(oldSelf.status.database.mode) && self.spec.database.mode == oldSelf.status.database.mode)))")
        .message("database.mode can only be changed from Embedded to another mode, from any mode to External or Embedded, or back while the reports are not moved yet; for any other move create a new ReportsServer and restore a backup"),
    // The identity in force may be one that the specification does not name.
    validation = Rule::new("!has(oldSelf.status) || !has(oldSelf.status.database) || !has(oldSelf.status.database.clusterIdentity) || !has(self.spec.clusterIdentity) || !has(self.spec.clusterIdentity.id) || self.spec.clusterIdentity.id == oldSelf.status.database.clusterIdentity || (has(oldSelf.spec.clusterIdentity) && has(oldSelf.spec.clusterIdentity.id) && self.spec.clusterIdentity.id == oldSelf.spec.clusterIdentity.id)")
        .message("clusterIdentity.id can only be set to status.database.clusterIdentity: the reports in the database belong to that one"),
    validation = grows(Volume::Embedded),
    validation = grows(Volume::Managed),
    validation = grows(Volume::Backups),
    validation = grows(Volume::CloudNativePg),
    validation = keeps_class(Volume::Embedded),
    validation = keeps_class(Volume::Managed),
    validation = keeps_class(Volume::Backups),
    validation = keeps_class(Volume::CloudNativePg),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#, description = "Whether everything that was asked for is done and well"),
    printcolumn(name = "Migration", type_ = "string", json_path = ".status.migration.phase", description = "Where the least advanced API group stands"),
    printcolumn(name = "Progress", type_ = "string", json_path = ".status.migration.progress", description = "Reports that are done in the present step of that group, of all"),
    printcolumn(name = "Database", type_ = "string", json_path = ".status.database.mode", description = "Where reports are stored"),
    printcolumn(name = "Served", type_ = "string", json_path = ".status.served", description = "API groups served by the server, of those asked for"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].message"#, priority = 1, description = "Why Ready is what it is"),
    printcolumn(name = "Server", type_ = "string", json_path = ".status.versions.server", priority = 1, description = "Version of the running server"),
    printcolumn(name = "Primary", type_ = "string", json_path = ".status.database.primary", priority = 1, description = "Instance of PostgreSQL that takes writes"),
    printcolumn(name = "CertExpiry", type_ = "string", json_path = ".status.tls.notAfter", priority = 1, description = "When the serving certificate expires")
)]
#[x_kube(
    validation = Rule::new("!has(oldSelf.clusterIdentity) || !has(oldSelf.clusterIdentity.id) || (has(self.clusterIdentity) && has(self.clusterIdentity.id) && self.clusterIdentity.id == oldSelf.clusterIdentity.id)")
        .message("clusterIdentity.id is immutable once set: stored reports carry it"),
    validation = Rule::new("(has(self.database) && has(self.database.mode) && self.database.mode != 'Embedded') || (has(self.database) && has(self.database.embedded) && has(self.database.embedded.ephemeral)) == (has(oldSelf.database) && has(oldSelf.database.embedded) && has(oldSelf.database.embedded.ephemeral))")
        .message("database.embedded.ephemeral cannot be added or removed: the reports in the present volume would be lost"),
    validation = Rule::new("!(has(self.database) && has(self.database.embedded) && has(self.database.embedded.ephemeral)) || !has(self.migration) || !has(self.migration.source) || !has(self.migration.source.policy) || self.migration.source.policy == 'Keep'")
        .message("migration.source.policy must be Keep while database.embedded.ephemeral is set: etcd holds the only durable copy"),
    validation = Rule::new("!has(oldSelf.apis) || oldSelf.apis.all(o, o.owner != 'Server' || (has(self.apis) && self.apis.exists(n, n.group == o.group)))")
        .message("a group with owner Server cannot be left out of apis: set its owner to CRD first")
)]
#[serde(rename_all = "camelCase")]
pub struct ReportsServerSpec {
    /// Namespace in which server and database run. It must exist with the label
    /// `reports-server.io/target: "true"`, and every referenced Secret must be in it. Immutable.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("targetNamespace is immutable: create another ReportsServer to move"))]
    pub target_namespace: String,

    /// True when everything is left as it is: children are kept and not changed, nothing new of a
    /// migration is begun, status is still written. A switch or a way back that is under way is
    /// brought to its end first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// API groups and the owner of each. Changing an owner to `Server` starts the migration of that
    /// group, changing it to `CRD` its way back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["group".into()]))]
    pub apis: Vec<ApiSpec>,

    /// The migration of reports between etcd and the server's database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<MigrationSpec>,

    /// The database in which the server stores reports. Default: `Embedded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<DatabaseSpec>,

    /// Name of this cluster in a database that several clusters share; not with mode `Embedded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_identity: Option<ClusterIdentitySpec>,

    /// The server's pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerSpec>,

    /// Images and their registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<ImagesSpec>,

    /// Certificates between the kube-apiserver, the server and the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,

    /// Network policies around server, managed database and its Jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicySpec>,

    /// Objects for a monitoring stack, each made only where its kind is installed; and traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<MonitoringSpec>,

    /// The policy for the deletion of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicySpec>,
}

/// One API group and its owner.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiSpec {
    /// API group, such as `wgpolicyk8s.io`. All its served versions move together.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$")
    )]
    pub group: String,
    /// The owner of the group, which answers its requests: `Server` (our aggregated API server) or
    /// `CRD` (the kube-apiserver, from etcd).
    pub owner: ApiOwner,
    /// The present place of the group's reports, if they are not in etcd. It has a meaning until
    /// the group is taken over, and may stay afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ApiSourceSpec>,
}

/// The place of an API group's reports before the group is taken over.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("has(self.server) != has(self.database)")
        .message("exactly one of server and database must be set")
)]
#[serde(rename_all = "camelCase")]
pub struct ApiSourceSpec {
    /// Another aggregated API server that serves the group, such as kyverno/reports-server. While
    /// an APIService of the group points to its Service, reports are copied from there, through the
    /// kube-apiserver, and nothing of it is changed or removed. Its versions are not ours: every
    /// watch gets 410 once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<PredecessorSpec>,
    /// The PostgreSQL of a kyverno/reports-server that is gone already. The group is taken over as
    /// without it; when it is served, the reports that only this database has are imported once.
    /// Nothing is written there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<PredecessorDatabaseSpec>,
}

/// The PostgreSQL database of a kyverno/reports-server.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PredecessorDatabaseSpec {
    /// Secret with the connection's parameters, with the keys of
    /// `database.external.connectionSecretRef`. Its user needs no right but `SELECT`.
    pub connection_secret_ref: LocalReference,
    /// The cluster whose reports are imported, where several clusters share the database:
    /// `cluster_id` of the tables, a UUID. Default: uid of the namespace `kube-system`, as
    /// kyverno/reports-server has it.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "clusterID")]
    #[schemars(
        length(min = 36, max = 36),
        regex(
            pattern = r"^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"
        )
    )]
    pub cluster_id: Option<String>,
}

/// An aggregated API server that a group is taken over from.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PredecessorSpec {
    /// Namespace of the server's Service.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub namespace: String,
    /// Name of the server's Service.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// Name of the `ServiceAccount` of the server's pods, in the same namespace. From the switch on
    /// this account can neither change the group's APIServices nor write its reports:
    /// kyverno/reports-server would take the first back every ten seconds, and delete the second
    /// when it starts. Default: the name of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub service_account: Option<String>,
}

impl PredecessorSpec {
    /// Returns the user name that the kube-apiserver knows it by.
    #[must_use]
    pub fn user(&self) -> String {
        let account = self.service_account.as_ref().unwrap_or(&self.name);
        format!("system:serviceaccount:{}:{account}", self.namespace)
    }
}

/// The component that answers requests of an API group.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum ApiOwner {
    /// Our aggregated API server.
    Server,
    /// The kube-apiserver, from etcd, by the group's CRDs.
    #[serde(rename = "CRD")]
    Crd,
}

/// Name of a cluster in a shared database.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterIdentitySpec {
    /// Key of this cluster's reports. Default: uid of the namespace `kube-system`. Immutable once
    /// set, and once reports are stored in PostgreSQL. `status.database.clusterIdentity` shows the
    /// key in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
    )]
    pub id: Option<String>,
    /// Name for people, in dashboards and queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub display_name: Option<String>,
}

/// The policy for the deletion of the `ReportsServer`.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionPolicySpec {
    /// The policy for the APIs: `Restore` writes the reports back and gives the APIs to the CRDs
    /// before anything is removed; `Orphan` leaves the APIServices as they are. Default: `Restore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apis: Option<ApiDeletionPolicy>,
    /// The policy for the data: `Retain` keeps the database's volume; `Delete` removes it, and
    /// needs the annotation `reports-server.io/confirm-data-deletion` with the object's name.
    /// Default: `Retain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataDeletionPolicy>,
}

/// The policy for the APIs when the `ReportsServer` is deleted.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum ApiDeletionPolicy {
    /// Reports are written back and the CRDs answer again.
    #[default]
    Restore,
    /// The APIServices stay as they are.
    Orphan,
}

/// The policy for the data when the `ReportsServer` is deleted.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum DataDeletionPolicy {
    /// The database's volume is kept.
    #[default]
    Retain,
    /// The database's volume is deleted.
    Delete,
}
