//! The state that reconciliations share.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crds::v1alpha1::{ReportsServer, ReportsServerSpec};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::Store;
use kube::{Client, Resource, ResourceExt};
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;

use super::build::{ServiceAccountRef, control_api_name};
use super::cached::Cached;
use super::validate::Validated;
use super::watches::{Watched, Watches};
use crate::crd_check::{Installed, Told};
use crate::database::check::Checks;
use crate::events;
use crate::metrics::Metrics;
use crate::migration::{Owner, Supervisor};
use crate::refusals::{Meaning, Refusals};

/// A complete look even when nothing seems to have changed.
pub(super) const RESYNC: Duration = Duration::from_mins(5);

/// The state that reconciliations share.
pub struct Context {
    pub(super) client: Client,
    pub(super) operator: ServiceAccountRef,
    pub(super) server_image: String,
    pub(super) postgres_image: String,
    pub(super) publisher: events::Publisher,
    pub(super) metrics: Metrics,
    pub(super) supervisor: Supervisor,
    pub(super) objects: Store<DeserializeGuard<ReportsServer>>,
    pub(super) api_services: Store<APIService>,
    /// The state of `api_services`.
    pub(super) cached: watch::Receiver<Cached>,
    /// The CRD in the cluster.
    pub(super) installed: watch::Receiver<Arc<Installed>>,
    /// The events about that CRD.
    pub(super) crd_told: Told,
    pub(super) watches: Watches,
    pub(super) checks: Checks,
    /// uid of the namespace `kube-system`, once it is known: it never changes.
    pub(super) cluster_uid: OnceCell<String>,
    /// Generation, and the specification that was carried out for it, by uid, for which leftovers
    /// were removed.
    pub(super) swept: Mutex<HashMap<String, (Option<i64>, ReportsServerSpec)>>,
    /// The specification that was noted last, by name.
    pub(super) noted: Mutex<HashMap<String, ReportsServerSpec>>,
    /// uid of the last `ReportsServer` that this process has let go, by name.
    pub(super) gone: Mutex<HashMap<String, String>>,
    /// Reconciliations that the kube-apiserver refused, by name.
    pub(super) refusals: Mutex<HashMap<String, Refusals>>,
}

impl Context {
    /// Stops everything that is done on behalf of a `ReportsServer`.
    pub(super) fn forget(&self, name: &str) {
        self.supervisor.forget(name);
        self.watches.forget(name);
        self.forget_database(name);
        self.metrics.forget(name);
        self.crd_told.forget(name);
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.remove(name);
        drop(noted);
        self.ended(name);
    }

    /// Notes that nothing is left to do for an object that is being deleted.
    pub(super) fn note_end(&self, object: &ReportsServer) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.insert(object.name_any(), object.uid().unwrap_or_default());
    }

    /// Returns whether nothing is left to do for it. The cache may show it as it was before: whatever
    /// was made for that would belong to an object that is gone, or to the next one of its name.
    pub(super) fn is_gone(&self, object: &ReportsServer) -> bool {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.get(&object.name_any()) == object.uid().as_ref()
    }

    /// Notes that a reconciliation was refused, and returns the meaning of that.
    pub(super) fn refused(&self, name: &str) -> Meaning {
        let mut all = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let refusals = all.entry(name.to_owned()).or_default();
        refusals.refused(Instant::now())
    }

    /// Notes that a reconciliation was not refused.
    pub(super) fn ended(&self, name: &str) {
        let mut all = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(name);
    }

    /// Returns the pause after a refusal that may pass.
    pub(super) fn pause(&self, name: &str) -> Option<Duration> {
        let all = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(name).and_then(Refusals::pause)
    }

    /// Watches what a specification depends on, and has its PostgreSQL examined, and the one to which
    /// its reports are to move. Where they are not to move, another one that is examined stays so, see
    /// [`Self::forget_destination`].
    pub(super) fn follow(&self, spec: &Validated) {
        let name = spec.names.instance();
        if self.watch(spec).is_empty() {
            self.watches.leave(name);
        }
        if let Some(between) = &spec.between {
            let destination = between.target.as_ref();
            self.checks.ensure_destination(name, destination);
        }
        let Some(reached) = &spec.postgres else {
            self.checks.forget(name);
            self.metrics.database.forget(name);
            return;
        };
        match &reached.target {
            Some(target) => self.checks.ensure(name, target),
            None => self.checks.forget(name),
        }
        self.metrics.database.observe(name, reached.known());
    }

    /// Watches the children of a specification, and the objects of others that it depends on.
    /// Returns the latter.
    fn watch(&self, spec: &Validated) -> BTreeSet<Watched> {
        self.watches.ensure(&spec.names, &spec.namespace);
        let mut watched: BTreeSet<Watched> = spec.origin.watched();
        let of_database = spec.postgres.iter().flat_map(|reached| &reached.watched);
        watched.extend(of_database.cloned());
        let of_destination = spec.between.iter().flat_map(|between| &between.watched);
        watched.extend(of_destination.cloned());
        if !watched.is_empty() {
            let (names, namespace) = (&spec.names, &spec.namespace);
            self.watches.follow(names, namespace, watched.clone());
        }
        watched
    }

    /// Ends the examination of a database to which reports were to move, where `spec` does not move
    /// them any more.
    pub(super) fn forget_destination(&self, spec: &Validated) {
        if spec.between.is_none() {
            let name = spec.names.instance();
            self.checks.ensure_destination(name, None);
        }
    }

    /// Stops looking after the PostgreSQL of a `ReportsServer`.
    fn forget_database(&self, name: &str) {
        self.checks.forget(name);
        self.checks.ensure_destination(name, None);
        self.watches.leave(name);
        self.metrics.database.forget(name);
    }
}

/// Returns whether the kube-apiserver reaches the server's control API.
pub(super) fn is_control_available(ctx: &Context) -> bool {
    let found = ctx
        .api_services
        .find(|object| object.name_any() == control_api_name());
    found.is_some_and(|object| crate::apiservice::is_available(&object))
}

/// Returns the `ReportsServer` as the owner of a migration.
pub(super) fn owner(object: &ReportsServer) -> Owner {
    Owner {
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        api_version: ReportsServer::api_version(&()).into_owned(),
        kind: ReportsServer::kind(&()).into_owned(),
    }
}
