//! A `ReportsServer` that can be carried out, and the reason why one cannot.

use std::collections::{BTreeMap, BTreeSet};

use crds::v1alpha1::ReportsServerSpec;
use crds::v1alpha1::spec::{ApiSpec, DatabaseMode, LogFormat, LogLevel, PullPolicy};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Affinity, ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value};

use super::between::{Between, Home};
use super::certificates::Origin;
use super::collector::Tracing;
use super::network::Network;
use super::postgres::{Reached, Route};
use super::refusal::Refusal;
use super::scale::Scale;
use crate::controller::found::Inside;
use crate::database::embedded::{self, Embedded};
use crate::database::managed::{Backup, Known, Managed};
use crate::database::moving::Moving;
use crate::database::place::{Database, Postgres, Storage};
use crate::names::Names;
use crate::{cert_manager, certs, migration};

/// The settings of the server's pods.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSettings {
    /// Image reference.
    pub image: String,
    /// The policy by which the image is pulled.
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
    /// The level of the log.
    pub log_level: LogLevel,
    /// The format of a line of the log.
    pub log_format: LogFormat,
    /// True when requests of direct clients are logged.
    pub audit_direct_clients: bool,
    /// A `ServiceAccount` of the user's in place of one of ours.
    pub service_account: Option<String>,
    /// Annotations of ours.
    pub service_account_annotations: Option<BTreeMap<String, String>>,
    /// The template that is merged over the pod template last.
    pub template: Option<Map<String, Value>>,
}

/// The place of the reports that the server serves.
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

/// The progress of a move.
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
    /// The place where the reports are stored.
    pub database: Database,
    /// Backups and the restore of an embedded database; absent where it is none.
    pub embedded: Option<Embedded>,
    /// The reports are in the server's own pod still, and on their way to [`Self::database`].
    pub moving: Option<Moving>,
    /// The move from [`Self::database`] to another PostgreSQL, or to it while old pods are
    /// left.
    pub between: Option<Between>,
    /// The progress of a move.
    pub move_progress: MoveProgress,
    /// The time of the reading that this was decided on.
    pub now: Timestamp,
    /// The history of the PostgreSQL in use; none before the first use.
    pub history: Option<String>,
    /// The history after which the database was begun anew on purpose, the last time.
    pub begun_anew: Option<String>,
    /// The way to the PostgreSQL of [`Self::database`], and the facts about it.
    pub postgres: Option<Reached>,
    /// The number of the pods, and their places.
    pub scale: Scale,
    /// True when the database's volume outlives the `ReportsServer`.
    pub retain_data: bool,
    /// The settings of network policies; absent where there are none.
    pub network: Option<Network>,
    /// The settings of the pods.
    pub pod: PodSettings,
    /// The collector of traces.
    pub tracing: Option<Tracing>,
    /// Lifetimes of certificates.
    pub certs: certs::Policy,
    /// The issuer of the server's certificate.
    pub origin: Origin,
    /// The `Certificate` of cert-manager to make.
    pub certificate: Option<cert_manager::Plan>,
    /// The settings of the groups' migrations.
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

    /// Brings what is wanted of an embedded database together with what the namespace holds of it.
    ///
    /// # Errors
    /// If the two do not fit.
    pub fn embedded_reconciled_with(mut self, known: embedded::Known) -> Result<Self, Refusal> {
        let met = self
            .embedded
            .take()
            .map(|embedded| embedded.reconciled_with(known));
        self.embedded = met.transpose()?;
        Ok(self)
    }

    /// Returns the backups that the operator makes, whatever the database.
    #[must_use]
    pub fn backup(&self) -> Option<&Backup> {
        let managed = self.managed().and_then(|managed| managed.backup.as_ref());
        let embedded = self.embedded.as_ref();
        managed.or_else(|| embedded.and_then(|embedded| embedded.backup.as_ref()))
    }

    /// Returns the same, with the way to its PostgreSQL, which the reports `may_leave`, and what is
    /// known about that.
    #[must_use]
    pub fn reached_by(mut self, route: Route, inside: &Inside, may_leave: bool) -> Self {
        if let Database::Postgres(postgres) = &mut self.database {
            postgres.connection = route.connection.clone();
        }
        self.postgres = Some(route.reached(&self, inside, may_leave));
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

    /// Returns whether the reports are on their way from one database to another.
    #[must_use]
    pub fn moves(&self) -> bool {
        self.moving.is_some() || self.between.is_some()
    }

    /// Returns the volume that its one server has beside PostgreSQL, to move the reports there.
    #[must_use]
    pub fn home(&self) -> Option<&Home> {
        self.between.as_ref()?.home.as_ref()
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
