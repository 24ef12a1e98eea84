//! Step 2 of a reconciliation: is what the user asks for possible? No client here.
//!
//! Whatever gets past this step is whole: [`Validated`] is the only input of the build step, with
//! every default resolved.

mod checks;
mod decide;
mod moving;
mod postgres;
mod scale;
mod template;
#[cfg(test)]
mod tests;

pub use decide::{Refused, validate};
pub use postgres::{Reached, Route, cluster};
#[cfg(test)]
pub use scale::Autoscaling;
pub use scale::{Replicas, Scale};

use std::collections::{BTreeMap, BTreeSet};

use crds::names as crd_names;
use crds::v1alpha1::defaults::{self, Effective};
use crds::v1alpha1::spec::{
    ApiSpec, DataDeletionPolicy, DatabaseMode, EmbeddedSpec, LogLevel, MigrationSpec, PullPolicy,
    RestartSpec, RestartWhen, ServerSpec, SourcePolicy,
};
use crds::v1alpha1::{ReportsServer, ReportsServerSpec, reasons};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Affinity, ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use serde_json::{Map, Value};

use super::found::{Dereferenced, Inside};
use crate::database::external;
use crate::database::managed::{self, Known, Managed, SettingsError};
use crate::database::moving::Moving;
use crate::database::place::{Connection, Database, Postgres, Storage};
use crate::names::Names;
use crate::{certs, images, migration};

/// Why nothing is done. Trying again does not help: the user has to change something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason of the conditions; one of [`reasons`].
    pub reason: &'static str,
    /// Field and remedy.
    pub message: String,
}

impl From<SettingsError> for Refusal {
    fn from(error: SettingsError) -> Self {
        let SettingsError { reason, message } = error;
        Self { reason, message }
    }
}

/// How the server's pods run.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSettings {
    /// Image reference.
    pub image: String,
    /// When it is pulled.
    pub pull_policy: PullPolicy,
    /// Secrets with the registry's credentials.
    pub pull_secrets: Vec<String>,
    /// CPU and memory, where the user gives them.
    pub resources: Option<ResourceRequirements>,
    /// Labels a node must have.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints that are tolerated.
    pub tolerations: Option<Vec<Toleration>>,
    /// Which nodes, and beside which pods.
    pub affinity: Option<Affinity>,
    /// `PriorityClass`.
    pub priority_class: Option<String>,
    /// What is logged.
    pub log_level: LogLevel,
    /// A `ServiceAccount` of the user's in place of one of ours.
    pub service_account: Option<String>,
    /// Annotations of ours.
    pub service_account_annotations: Option<BTreeMap<String, String>>,
    /// What is merged over the pod template last.
    pub template: Option<Map<String, Value>>,
}

/// Where the reports are that the server serves.
#[derive(Clone, Copy, Debug)]
pub enum Backend<'a> {
    /// In its own pod.
    Pod(&'a Storage),
    /// In a database that servers share.
    Postgres(&'a Postgres),
}

impl Backend<'_> {
    /// Returns the mode that it is.
    #[must_use]
    pub fn mode(self) -> DatabaseMode {
        match self {
            Self::Pod(_) => DatabaseMode::Embedded,
            Self::Postgres(postgres) => postgres.mode,
        }
    }

    /// Returns whether the reports survive the server's pod. Where they do not, etcd's copies are
    /// the only durable ones.
    #[must_use]
    pub fn is_persistent(self) -> bool {
        !matches!(self, Self::Pod(Storage::EmptyDir { .. }))
    }
}

/// The progress of a move of an embedded database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MoveProgress {
    /// There is no move.
    #[default]
    None,
    /// It is to be looked at again soon.
    UnderWay,
    /// The Secret of the move is of no use any more.
    Over,
}

/// A `ReportsServer` that can be carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Validated {
    /// Name, and the names of the children.
    pub names: Names,
    /// uid of the `ReportsServer`.
    pub uid: String,
    /// Namespace of the children.
    pub namespace: String,
    /// Makes the children go with the `ReportsServer`; absent where they are to stay.
    pub owner: Option<OwnerReference>,
    /// The specification itself, to be carried out again where a later one is refused.
    pub source: ReportsServerSpec,
    /// Groups and their owners, in the user's order.
    pub apis: Vec<ApiSpec>,
    /// Groups that are named no more; they go back to their CRDs.
    pub dropped: BTreeSet<String>,
    /// uid of the namespace `kube-system`.
    pub cluster_uid: String,
    /// Where the reports are stored.
    pub database: Database,
    /// The reports are in the server's own pod still, and on their way to [`Self::database`].
    pub moving: Option<Moving>,
    /// The progress of a move of an embedded database.
    pub move_progress: MoveProgress,
    /// The time of the reading that this was decided on.
    pub now: Timestamp,
    /// How the PostgreSQL of [`Self::database`] is reached, and what is known about it.
    pub postgres: Option<Reached>,
    /// How many pods there are, and where.
    pub scale: Scale,
    /// Whether the database's volume outlives the `ReportsServer`.
    pub retain_data: bool,
    /// How the pods run.
    pub pod: PodSettings,
    /// Lifetimes of certificates.
    pub certs: certs::Policy,
    /// How groups are moved.
    pub migration: migration::Settings,
}

impl Validated {
    /// Brings what is wanted of a managed database together with what the namespace holds of it.
    ///
    /// # Errors
    /// If the two do not fit.
    pub fn reconciled_with(mut self, known: Known) -> Result<Self, Refusal> {
        if let Database::Postgres(postgres) = &mut self.database {
            let met = postgres
                .managed
                .take()
                .map(|managed| managed.reconciled_with(known));
            postgres.managed = met.transpose()?;
        }
        Ok(self)
    }

    /// Returns the same, with the way to its PostgreSQL and what is known about that.
    #[must_use]
    pub fn reached_by(mut self, route: Route, inside: &Inside) -> Self {
        if let Database::Postgres(postgres) = &mut self.database {
            postgres.connection = route.connection.clone();
        }
        self.postgres = Some(route.reached(&self, inside));
        self
    }

    /// Returns the same with a managed database of the major version that it has, whatever is asked
    /// for.
    #[must_use]
    pub fn staying(mut self) -> Self {
        if let Database::Postgres(postgres) = &mut self.database {
            postgres.managed = postgres.managed.take().map(Managed::staying);
        }
        self
    }

    /// Returns where the reports are that the server serves: while they are moved, where they were.
    #[must_use]
    pub fn backend(&self) -> Backend<'_> {
        match (&self.moving, &self.database) {
            (Some(moving), _) => Backend::Pod(&moving.storage),
            (None, Database::Embedded(storage)) => Backend::Pod(storage),
            (None, Database::Postgres(postgres)) => Backend::Postgres(postgres),
        }
    }

    /// Returns the PostgreSQL that the operator runs for it.
    #[must_use]
    pub fn managed(&self) -> Option<&Managed> {
        self.database.postgres()?.managed.as_ref()
    }

    /// Name of the `ServiceAccount` of the server's pods.
    #[must_use]
    pub fn service_account(&self) -> String {
        let own = self.pod.service_account.clone();
        own.unwrap_or_else(|| self.names.server())
    }

    /// Returns whether the operator runs a PostgreSQL for it.
    #[must_use]
    pub fn is_managed(&self) -> bool {
        self.managed().is_some()
    }
}

/// Checks `object` against itself and the cluster and resolves every default.
///
/// # Errors
/// The first kind of [`Refusal`] that applies, with everything of that kind in its message.
pub fn specification(object: &ReportsServer, found: &Dereferenced) -> Result<Validated, Refusal> {
    let spec = &object.spec;
    let (Some(name), Some(uid)) = (object.meta().name.clone(), object.meta().uid.clone()) else {
        return refuse(
            reasons::INVALID_SPEC,
            "metadata: name and uid are missing".to_owned(),
        );
    };
    let effective = Effective::of(spec);
    checks::name(&name)?;
    checks::supported(spec)?;
    checks::groups(spec)?;
    checks::lifetimes(&effective)?;
    checks::drain_window(&effective)?;
    checks::claims(&name, object, &found.claims)?;
    checks::namespace(&spec.target_namespace, found.namespace)?;

    let names = Names::new(&name);
    checks::sources(spec, &names)?;
    checks::pods(spec, &names)?;
    let confirmed = object
        .annotations()
        .get(crd_names::ANNOTATION_CONFIRM_DATA_DELETION);
    let scale = scale::of(spec, &effective)?;
    let database = database(spec, &effective, found, &names, &scale)?;
    checks::identity(object, &database)?;
    let certified = database_names(&database, &names, &spec.target_namespace);
    let delete_data = effective.deletion_data == DataDeletionPolicy::Delete;
    Ok(Validated {
        uid,
        owner: object.controller_owner_ref(&()),
        namespace: spec.target_namespace.clone(),
        source: spec.clone(),
        apis: spec.apis.clone(),
        dropped: found.dropped.clone(),
        cluster_uid: found.cluster_uid.clone(),
        database,
        postgres: None,
        moving: None,
        move_progress: MoveProgress::None,
        now: found.now,
        scale,
        retain_data: !(delete_data && confirmed == Some(&name)),
        pod: pod_settings(spec, &effective, &found.default_image),
        certs: certs::Policy {
            ca_validity: effective.ca_validity,
            cert_validity: effective.cert_validity,
            renew_before: effective.renew_before,
            dns_names: names.dns_names(&spec.target_namespace),
            database: certified,
        },
        migration: migration_settings(spec, &effective),
        names,
    })
}

fn refuse<T>(reason: &'static str, message: String) -> Result<T, Refusal> {
    Err(Refusal { reason, message })
}

fn database(
    spec: &ReportsServerSpec,
    effective: &Effective,
    found: &Dereferenced,
    names: &Names,
    scale: &Scale,
) -> Result<Database, Refusal> {
    if effective.database_mode == DatabaseMode::Embedded {
        return Ok(Database::Embedded(storage(spec, effective)));
    }
    let identity = spec.cluster_identity.clone().unwrap_or_default();
    let managed = (effective.database_mode == DatabaseMode::Managed).then(|| {
        let server = pod_settings(spec, effective, &found.default_image);
        let transfer_image = managed::TransferImage {
            image: server.image,
            pull_policy: server.pull_policy,
        };
        let surroundings = managed::Surroundings {
            default_image: &found.default_postgres_image,
            transfer_image,
            cluster_uid: &found.cluster_uid,
            servers: scale.replicas.most(),
        };
        managed::settings(names.instance(), spec, effective, surroundings)
    });
    let managed = managed.transpose()?;
    Ok(Database::Postgres(Box::new(Postgres {
        mode: effective.database_mode,
        cluster_identity: identity.id.unwrap_or_else(|| found.cluster_uid.clone()),
        cluster_name: identity.display_name,
        max_connections: effective
            .max_connections
            .unwrap_or(defaults::MAX_CONNECTIONS),
        connection: match effective.database_mode {
            DatabaseMode::Managed => Connection::managed(names, &spec.target_namespace),
            mode => connection(spec, mode),
        },
        managed,
    })))
}

/// Whom certificates are issued for: both ends of a database that the operator runs.
fn database_names(
    database: &Database,
    names: &Names,
    namespace: &str,
) -> Option<certs::DatabaseNames> {
    database.postgres()?.managed.as_ref()?;
    let host = names.postgres_host(namespace);
    Some(certs::DatabaseNames {
        server: vec![host.clone(), format!("{host}.cluster.local")],
        role: managed::ROLE.to_owned(),
    })
}

/// Returns how the database is reached, as far as the specification says it.
fn connection(spec: &ReportsServerSpec, mode: DatabaseMode) -> Connection {
    let database = spec.database.as_ref();
    let external = database.and_then(|database| database.external.as_ref());
    let external = external.filter(|_| mode == DatabaseMode::External);
    external.map(external::connection).unwrap_or_default()
}

fn storage(spec: &ReportsServerSpec, effective: &Effective) -> Storage {
    let size = Quantity(effective.storage_size.clone());
    if effective.ephemeral.is_some() {
        return Storage::EmptyDir { size };
    }
    let embedded: Option<&EmbeddedSpec> = spec.database.as_ref().and_then(|d| d.embedded.as_ref());
    let storage = embedded.and_then(|embedded| embedded.storage.as_ref());
    Storage::Claim {
        size,
        class: storage.and_then(|s| s.storage_class_name.clone()),
    }
}

fn pod_settings(spec: &ReportsServerSpec, effective: &Effective, default: &str) -> PodSettings {
    let server: ServerSpec = spec.server.clone().unwrap_or_default();
    let images = spec.images.clone().unwrap_or_default();
    let own = images.server.unwrap_or_default();
    let account = server.service_account.unwrap_or_default();
    PodSettings {
        image: images::resolve(default, images.registry.as_deref(), &own),
        pull_policy: own.pull_policy.unwrap_or_default(),
        pull_secrets: images
            .pull_secrets
            .unwrap_or_default()
            .into_iter()
            .map(|r| r.name)
            .collect(),
        resources: server.resources,
        node_selector: server.node_selector,
        tolerations: server.tolerations,
        affinity: server.affinity,
        priority_class: server.priority_class_name,
        log_level: effective.log_level,
        service_account: account.name,
        service_account_annotations: account.annotations,
        template: server.pod_template,
    }
}

fn migration_settings(spec: &ReportsServerSpec, effective: &Effective) -> migration::Settings {
    let migration = spec.migration.as_ref();
    migration::Settings {
        page_size: effective.page_size,
        max_requests_per_second: Some(effective.max_requests_per_second),
        concurrency: effective.concurrency,
        approval: effective.approval,
        dry_run: migration.is_some_and(|m| m.dry_run == Some(true)),
        approved_plan: migration.and_then(|m| m.approved_plan.clone()),
        soak: effective.soak,
        on_failure: effective.on_failure,
        prune_after: match effective.source_policy {
            SourcePolicy::Keep => None,
            SourcePolicy::Prune => Some(effective.source_after),
        },
        verification: effective.verification,
        drain_window: effective.drain_window,
        restart: migration.map(workloads).unwrap_or_default(),
    }
}

/// Returns what is restarted where it is needed, which is all that can be asked for.
fn workloads(migration: &MigrationSpec) -> Vec<migration::Workload> {
    let all = migration.restart.iter().flatten();
    let workloads = all.map(|restart| {
        let RestartSpec {
            kind,
            namespace,
            name,
            when: None | Some(RestartWhen::IfNeeded),
        } = restart;
        migration::Workload {
            kind: *kind,
            namespace: namespace.clone(),
            name: name.clone(),
        }
    });
    workloads.collect()
}
