//! Wires the controller to its triggers.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crds::v1alpha1::ReportsServer;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{
    Controller, Predicate, PredicateConfig, WatchStreamExt, controller, predicates, watcher,
};
use kube::{Api, Client, ResourceExt};
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;
use tracing::warn;

use super::cached::Cached;
use super::watches::{Trigger, Watches};
use super::{Context, ServiceAccountRef, error_policy, reconcile};
use crate::crd_check::{self, Check, Told};
use crate::database::check::Checks;
use crate::events::Publisher;
use crate::metrics::Metrics;
use crate::migration::Supervisor;

/// Changes of children that may wait for a reconciliation.
const TRIGGERS: usize = 64;
/// Progress of a migration is shown this often at most.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// The settings that the controller is started with.
pub struct Settings {
    /// Client of the cluster.
    pub client: Client,
    /// The operator's own `ServiceAccount`.
    pub operator: ServiceAccountRef,
    /// The server's image where a specification names none.
    pub server_image: String,
    /// The image of PostgreSQL where a specification names none.
    pub postgres_image: String,
    /// Publishes events.
    pub publisher: Publisher,
    /// Metrics of the process.
    pub metrics: Metrics,
    /// Runs the migrations.
    pub supervisor: Supervisor,
    /// The addresses of hosts of databases, for an operator outside of the cluster, to which their
    /// names mean nothing.
    pub resolve: BTreeMap<String, SocketAddr>,
}

/// Reconciles until `end` resolves and the reconciliations under way are finished.
pub async fn run(settings: Settings, end: impl Future<Output = ()> + Send + Sync + 'static) {
    let Settings {
        client,
        operator,
        server_image,
        postgres_image,
        publisher,
        metrics,
        supervisor,
        resolve,
    } = settings;
    let (objects, objects_writer) = reflector::store::<DeserializeGuard<ReportsServer>>();
    let (api_services, api_services_writer) = reflector::store::<APIService>();
    let (mut check, installed) = Check::new(metrics.clone());
    let (noted, cached) = watch::channel(Cached::default());
    let (trigger, triggered) = mpsc::channel(TRIGGERS);
    let (examined, examinations) = mpsc::channel(TRIGGERS);
    let context = Arc::new(Context {
        watches: Watches::new(client.clone(), trigger.clone()),
        checks: Checks::new(examined, resolve, Arc::clone(&metrics.database)),
        client: client.clone(),
        operator,
        server_image,
        postgres_image,
        publisher,
        metrics,
        objects: objects.clone(),
        cached,
        api_services,
        installed: installed.clone(),
        crd_told: Told::default(),
        cluster_uid: tokio::sync::OnceCell::new(),
        swept: std::sync::Mutex::default(),
        noted: std::sync::Mutex::default(),
        gone: std::sync::Mutex::default(),
        refusals: std::sync::Mutex::default(),
        supervisor: supervisor.clone(),
    });

    // A status, which is ours, is no reason to look again.
    let relevant = predicates::generation
        .combine(predicates::annotations)
        .combine(predicates::finalizers);
    let changed = watcher(Api::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(objects_writer)
        .inspect(comings_and_goings(context.clone(), trigger))
        .applied_objects()
        .predicate_filter(relevant, PredicateConfig::default());
    let api_services = Api::<APIService>::all(client.clone());
    let changed_api_services = watcher(api_services, watcher::Config::default())
        .default_backoff()
        .reflect(api_services_writer)
        .inspect(move |event| noted.send_modify(|cached| cached.note(event)))
        .touched_objects();
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let changed_crd = watcher(definitions, crd_check::selected())
        .default_backoff()
        .inspect(move |event| check.note(event))
        .touched_objects();
    let namespaces = Api::<PartialObjectMeta<Namespace>>::all(client);
    let changed_namespaces = watcher(namespaces, watcher::Config::default())
        .default_backoff()
        .touched_objects();

    let (for_services, for_namespaces) = (objects.clone(), objects.clone());
    let for_crd = objects.clone();
    Controller::for_stream(changed, objects)
        .watches_stream(changed_api_services, move |_| all(&for_services))
        .watches_stream(changed_crd, move |_| all(&for_crd))
        .watches_stream(changed_namespaces, move |namespace| {
            targeting(&for_namespaces, &namespace)
        })
        .reconcile_on(from_channel(triggered))
        .reconcile_on(from_channel(examinations).map(|name| Trigger::new(&name)))
        .reconcile_on(paced(supervisor.changes()).map(|name| Trigger::new(&name)))
        .graceful_shutdown_on(end)
        .run(reconcile, error_policy, context)
        .for_each(|result| {
            match result {
                // Those are handled by the error policy; these are gone by now.
                Ok(_)
                | Err(
                    controller::Error::ReconcilerFailed(..) | controller::Error::ObjectNotFound(_),
                ) => {}
                Err(error) if installed.borrow().is_absent() => {
                    warn!(%error, "a watch failed; {}", crd_check::absent());
                }
                Err(error) => warn!(%error, "a watch failed; opening it again"),
            }
            ready(())
        })
        .await;
}

type ObjectEvent = watcher::Result<watcher::Event<DeserializeGuard<ReportsServer>>>;

/// Returns when a `ReportsServer` comes or goes, the others look whether they may, or may no
/// longer, claim their groups. What was done on behalf of one that is gone ends. Called after the
/// cache knows.
fn comings_and_goings(
    context: Arc<Context>,
    trigger: mpsc::Sender<Trigger>,
) -> impl FnMut(&ObjectEvent) {
    let mut known = BTreeSet::new();
    move |event| {
        let name = match event {
            Ok(watcher::Event::Apply(object)) => {
                let name = object.name_any();
                if !known.insert(name.clone()) {
                    return;
                }
                name
            }
            Ok(watcher::Event::Delete(object)) => {
                let name = object.name_any();
                known.remove(&name);
                context.forget(&name);
                name
            }
            _ => return,
        };
        for other in all(&context.objects)
            .into_iter()
            .filter(|other| other.name != name)
        {
            // A full channel is as good: so much is being looked at already, and the rest is
            // looked at in time.
            if trigger.try_send(other).is_err() {
                return;
            }
        }
    }
}

/// An APIService changed: there are few `ReportsServer`s, and each may hold or want it.
fn all(store: &Store<DeserializeGuard<ReportsServer>>) -> Vec<Trigger> {
    store
        .state()
        .iter()
        .map(|object| ObjectRef::from_obj(object.as_ref()))
        .collect()
}

/// Returns the `ReportsServer`s whose target namespace it is.
fn targeting(
    store: &Store<DeserializeGuard<ReportsServer>>,
    namespace: &PartialObjectMeta<Namespace>,
) -> Vec<Trigger> {
    let name = namespace.name_any();
    let targets = |object: &DeserializeGuard<ReportsServer>| {
        object
            .0
            .as_ref()
            .is_ok_and(|object| object.spec.target_namespace == name)
    };
    let state = store.state();
    let found = state.iter().filter(|object| targets(object.as_ref()));
    found
        .map(|object| ObjectRef::from_obj(object.as_ref()))
        .collect()
}

fn from_channel<T>(receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> {
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|item| (item, receiver))
    })
}

/// Passes the first item on at once and the others not faster than [`PROGRESS_INTERVAL`].
fn paced<T>(items: impl Stream<Item = T>) -> impl Stream<Item = T> {
    let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let ticks = futures::stream::unfold(ticks, |mut ticks| async move {
        ticks.tick().await;
        Some(((), ticks))
    });
    items.zip(ticks).map(|(item, ())| item)
}
