//! The way to the PostgreSQL of a `ReportsServer`, and the facts about it.

use std::collections::BTreeSet;

use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::spec::DatabaseMode;

use super::validated::Validated;
use crate::controller::found::Inside;
use crate::controller::watches::Watched;
use crate::database::check::{Target, Verdict};
use crate::database::cloudnativepg::{self, Plan};
use crate::database::files::{self, Objects, Problem};
use crate::database::history::{self, Wanted};
use crate::database::known::Known;
use crate::database::place::{Connection, Source};
use crate::names::Names;

/// The way to a PostgreSQL.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The connection.
    pub connection: Connection,
    /// The instance that takes writes, where somebody names it.
    primary: Option<String>,
    /// The identity of the cluster.
    identity: String,
    /// uid of the cluster's namespace `kube-system`.
    cluster_uid: String,
    /// The history of the cluster in the database in use.
    history: Option<String>,
    /// A problem that whoever runs the database tells of.
    problem: Option<Problem>,
    /// The `Cluster` of `CloudNativePG`, in its mode.
    cluster: Option<Plan>,
}

/// The consequences of the way to a PostgreSQL.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// The facts about it.
    known: Known,
    /// The database to examine; none where nothing can be connected to.
    pub target: Option<Target>,
    /// The objects of others that it depends on.
    pub watched: BTreeSet<Watched>,
    /// The `Cluster` of `CloudNativePG` to make.
    pub cluster: Option<Plan>,
}

impl Reached {
    /// Returns the facts about the database.
    #[must_use]
    pub const fn known(&self) -> &Known {
        &self.known
    }
}

impl Route {
    /// Returns the way to the database of a specification; none where that is not PostgreSQL.
    #[must_use]
    pub fn of(
        object: &ReportsServer,
        spec: &Validated,
        cloud_native_pg: Option<&cloudnativepg::Found>,
    ) -> Option<Self> {
        let postgres = spec.database.postgres()?;
        let Some(plan) = cluster(object, &spec.names) else {
            return Some(Self {
                connection: postgres.connection.clone(),
                primary: None,
                identity: postgres.cluster_identity.clone(),
                cluster_uid: spec.cluster_uid.clone(),
                history: spec.history.clone(),
                problem: None,
                cluster: None,
            });
        };
        let reached = cloudnativepg::reached(&spec.namespace, &plan, cloud_native_pg);
        Some(Self {
            connection: reached.connection,
            primary: reached.primary,
            identity: postgres.cluster_identity.clone(),
            cluster_uid: spec.cluster_uid.clone(),
            history: spec.history.clone(),
            problem: reached.problem,
            cluster: Some(plan),
        })
    }

    /// Returns the database to examine.
    ///
    /// # Errors
    /// [`Problem`] names what the connection lacks.
    pub fn target(&self, namespace: &str, objects: &Objects) -> Result<Target, Problem> {
        Ok(Target {
            parameters: files::parameters(namespace, &self.connection, objects)?,
            primary: self.primary.clone(),
            identity: self.identity.clone(),
            cluster_uid: self.cluster_uid.clone(),
            history: self.history.clone(),
        })
    }

    /// Returns what follows for the database of `spec`, with what was found in its namespace. Reports
    /// that `may_leave` it are not missed there.
    #[must_use]
    pub fn reached(self, spec: &Validated, inside: &Inside, may_leave: bool) -> Reached {
        let watched = self.watched();
        let target = self.target(&spec.namespace, &inside.connection);
        let has_crd = inside
            .cloud_native_pg
            .as_ref()
            .is_some_and(|found| found.crd);
        // While it is away for an upgrade there is nothing to see, and what was seen is of another
        // version.
        let stopped = spec
            .managed()
            .is_some_and(|managed| managed.present.stopped);
        let (known, target) = match target {
            Ok(target) => {
                let verdict = inside.verdict.clone().filter(|_| !stopped);
                let wanted = Wanted {
                    identity: &self.identity,
                    cluster_uid: &self.cluster_uid,
                    history: spec.history.as_deref(),
                    namespace: &spec.namespace,
                    connection: &self.connection,
                };
                // What is known of another database tells nothing about the one in use.
                let mistaken = || history::mistaken(wanted, verdict.as_ref());
                let other = (!may_leave).then(mistaken).flatten().map(Verdict::Unusable);
                let verdict = other.or(verdict);
                let known = Known::found(&target.parameters, verdict, self.primary, self.problem);
                (known, Some(target).filter(|_| !stopped))
            }
            // Secrets come with the database: that it is not there yet says more.
            Err(missing) => {
                let problem = self.problem.unwrap_or(missing);
                (Known::problem(problem, self.primary), None)
            }
        };
        Reached {
            known,
            target,
            watched,
            cluster: self.cluster.filter(|plan| has_crd && plan.create.is_some()),
        }
    }

    /// Returns the objects of others that it depends on.
    #[must_use]
    pub fn watched(&self) -> BTreeSet<Watched> {
        let sources = self.connection.sources.iter().map(|source| match source {
            Source::Secret { name, .. } => Watched::Secret(name.clone()),
            Source::ConfigMap { name, .. } => Watched::ConfigMap(name.clone()),
        });
        let cluster = self.cluster.iter().flat_map(|plan| {
            [
                Watched::Crd(cloudnativepg::CRD.to_owned()),
                Watched::Cluster(plan.name.clone()),
            ]
        });
        sources.chain(cluster).collect()
    }
}

/// Returns what is wanted of `CloudNativePG`, in its mode.
#[must_use]
pub fn cluster(object: &ReportsServer, names: &Names) -> Option<Plan> {
    let database = object.spec.database.as_ref()?;
    let wanted = database.cloud_native_pg.as_ref();
    let wanted = wanted.filter(|_| database.mode == Some(DatabaseMode::CloudNativePg))?;
    Some(Plan::of(wanted, names.postgres_cluster()))
}
