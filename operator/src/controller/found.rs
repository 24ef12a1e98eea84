//! Everything that a reconciliation decides on, as it was read.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crds::control;
use crds::v1alpha1::{ReportsServer, ReportsServerSpec};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::{Resource, ResourceExt};

use crate::cert_manager;
use crate::certs::given::Values;
use crate::certs::{self, Material};
use crate::database::check::Verdict;
use crate::database::files::Objects;
use crate::database::{between, cloudnativepg, embedded, managed, moving};

/// The state of the target namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamespaceState {
    /// It can be used.
    Active,
    /// It is being deleted.
    Terminating,
    /// There is none.
    #[default]
    Missing,
}

/// The most that a namespace lets pods do, as its label for the Pod Security Standards says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// `restricted`. A namespace without the label counts as this: that Kubernetes enforces nothing
    /// there does not say that it is wanted.
    #[default]
    Restricted,
    /// `baseline`.
    Baseline,
    /// `privileged`: everything.
    Privileged,
}

impl Level {
    /// Returns the level that a value of the label stands for.
    #[must_use]
    pub fn of(label: Option<&str>) -> Self {
        match label {
            Some("privileged") => Self::Privileged,
            Some("baseline") => Self::Baseline,
            _ => Self::Restricted,
        }
    }

    /// Returns the value of the label.
    #[must_use]
    pub fn as_label(self) -> &'static str {
        match self {
            Self::Restricted => "restricted",
            Self::Baseline => "baseline",
            Self::Privileged => "privileged",
        }
    }
}

/// The rights that the labels of the target namespace give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespacePolicy {
    /// True when it may be a target.
    pub is_target: bool,
    /// The level of Pod Security that it allows.
    pub level: Level,
}

/// The groups that a `ReportsServer` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The name of the `ReportsServer`.
    pub name: String,
    /// The time of its creation.
    pub created: Option<Timestamp>,
    /// The groups that it names.
    pub groups: Vec<String>,
}

impl Claim {
    /// Returns what `object` claims.
    #[must_use]
    pub fn of(object: &ReportsServer) -> Self {
        Self {
            name: object.name_any(),
            created: object.meta().creation_timestamp.as_ref().map(|time| time.0),
            groups: object
                .spec
                .apis
                .iter()
                .map(|api| api.group.clone())
                .collect(),
        }
    }
}

/// An APIService that points to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The API group that it registers.
    pub group: String,
    /// The CA bundle in it.
    pub ca_bundle: Vec<u8>,
}

/// Everything that is read before anything is decided.
#[derive(Clone, Debug, Default)]
pub struct Dereferenced {
    /// The time of the reading.
    pub now: Timestamp,
    /// The target namespace.
    pub namespace: NamespaceState,
    /// The rights that the target namespace gives.
    pub policy: NamespacePolicy,
    /// The operator's own namespace.
    pub operator_namespace: String,
    /// True when the specification was carried out before and is kept in place of one that is refused.
    pub kept: bool,
    /// Every `ReportsServer` of the cluster; the object itself may be among them.
    pub claims: Vec<Claim>,
    /// The server's image where the specification names none.
    pub default_image: String,
    /// The image of PostgreSQL where the specification names none.
    pub default_postgres_image: String,
    /// uid of the namespace `kube-system`: what tells one cluster from another.
    pub cluster_uid: String,
    /// Ports on which the kube-apiservers listen; read only where network policies are asked for.
    pub api_server_ports: BTreeSet<i32>,
    /// The APIServices that point to the server.
    pub registered: Vec<Registered>,
    /// Groups that are named no more and not back at their CRDs.
    pub dropped: BTreeSet<String>,
    /// The specification that was carried out last, where there is one that can still be read.
    pub accepted: Option<ReportsServerSpec>,
    /// The move from one PostgreSQL to another.
    pub between: between::Found,
    /// The content of the target namespace; nothing where the specification must not use it.
    pub inside: Inside,
}

impl Dereferenced {
    /// Returns whether the server answers for an API group of reports.
    #[must_use]
    pub fn is_served(&self) -> bool {
        let mut groups = self.registered.iter().map(|registered| &registered.group);
        groups.any(|group| group != control::GROUP)
    }

    /// Returns `object` with the specification that is to be carried out: while reports move from
    /// one PostgreSQL to another, not the one that is asked for.
    #[must_use]
    pub fn in_force<'a>(&self, object: &'a ReportsServer) -> Cow<'a, ReportsServer> {
        match self.between.in_force.clone() {
            Some(spec) => Cow::Owned(ReportsServer {
                spec,
                ..object.clone()
            }),
            None => Cow::Borrowed(object),
        }
    }
}

/// The sources of a certificate that the operator does not issue.
#[derive(Clone, Debug, Default)]
pub struct ServingFound {
    /// The Secret with the certificate and its key.
    pub certificate: Option<Values>,
    /// The Secret with the authorities, where that is another one.
    pub ca: Option<Values>,
    /// cert-manager, where it is to issue it.
    pub cert_manager: Option<cert_manager::Found>,
}

/// The content of the target namespace.
#[derive(Clone, Debug, Default)]
pub struct Inside {
    /// The certificates.
    pub material: Material,
    /// The annotations of the `ServiceAccount` that the specification names; nothing where it is
    /// missing, or where none is named.
    pub account: Option<BTreeMap<String, String>>,
    /// The sources of the server's certificate, where the operator does not issue it.
    pub serving: ServingFound,
    /// The server.
    pub deployment: Option<Deployment>,
    /// A PostgreSQL that the operator runs.
    pub stateful_set: Option<StatefulSet>,
    /// The volumes of such a PostgreSQL, and what was begun of an upgrade.
    pub managed: Option<managed::Known>,
    /// The volume of an embedded database, read where it starts with a backup.
    pub embedded: Option<embedded::Known>,
    /// A PostgreSQL that `CloudNativePG` runs.
    pub cloud_native_pg: Option<cloudnativepg::Found>,
    /// The Secrets and `ConfigMap`s that the connection to PostgreSQL is made of.
    pub connection: Objects,
    /// The outcome of the last examination of PostgreSQL.
    pub verdict: Option<Verdict>,
    /// True where the way to PostgreSQL could not be read, and was not needed.
    pub is_way_unread: bool,
    /// The history that the server tells of the database that it has opened, read while the status
    /// names none.
    pub history: Option<String>,
    /// The move of an embedded database.
    pub moving: moving::Seen,
}

impl Inside {
    /// Returns whether an upgrade has stopped the database, which nobody but the operator starts
    /// again then.
    #[must_use]
    pub fn has_stopped_database(&self) -> bool {
        let set = self.stateful_set.as_ref();
        set.is_some_and(|set| set.annotations().contains_key(managed::STOPPED_ANNOTATION))
    }
}

/// A part of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The Secrets with the certificates.
    Certificates,
    /// The rights, the Service, the registration of the control API, and the order by which the
    /// reports have moved.
    Server,
}

/// A child that clients depend on and that could not be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unkept {
    /// The part that it belongs to.
    pub part: Part,
    /// True where an object of somebody else has its name.
    pub foreign: bool,
    /// The error, in one sentence.
    pub message: String,
}

/// The children as they stand in the cluster.
#[derive(Debug)]
pub struct Found {
    /// The server, where it is there.
    pub deployment: Option<Deployment>,
    /// The server's pods, read only while the server is not ready.
    pub pods: Vec<Pod>,
    /// A PostgreSQL that the operator runs, where it is there.
    pub stateful_set: Option<StatefulSet>,
    /// The Jobs that made backups, or are about to.
    pub backup_jobs: Vec<Job>,
    /// The control API.
    pub control_api: APIService,
    /// The certificates, as they are stored.
    pub certs: certs::Outcome,
    /// The children that could not be applied.
    pub unkept: Vec<Unkept>,
}

impl Found {
    /// Returns the first child of a part that could not be applied.
    #[must_use]
    pub fn unkept(&self, part: Part) -> Option<&Unkept> {
        self.unkept.iter().find(|unkept| unkept.part == part)
    }
}
