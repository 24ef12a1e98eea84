//! Wires the controller to its triggers.

use std::{future::Future, sync::Arc, time::Duration};

use crds::v1alpha1::ReportsServer;
use futures::{Stream, StreamExt};
use k8s_openapi::{
    api::core::v1::Namespace, kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client, ResourceExt,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::{
        Controller, WatchStreamExt,
        events::Recorder,
        reflector::{self, ObjectRef, Store},
        watcher,
    },
};
use tokio::{sync::mpsc, time::MissedTickBehavior};
use tracing::debug;

use super::{
    Context, ServiceAccountRef, error_policy, reconcile,
    watches::{Trigger, Watches},
};
use crate::{metrics::Metrics, migration::Supervisor};

/// Changes of children that may wait for a reconciliation.
const TRIGGERS: usize = 64;
/// Progress of a migration is shown this often at most.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// What the controller is started with.
pub struct Settings {
    /// Client of the cluster.
    pub client: Client,
    /// The operator's own `ServiceAccount`.
    pub operator: ServiceAccountRef,
    /// The server's image where a specification names none.
    pub server_image: String,
    /// Publishes events.
    pub recorder: Recorder,
    /// Metrics of the process.
    pub metrics: Metrics,
    /// Runs the migrations.
    pub supervisor: Supervisor,
}

/// Reconciles until `end` resolves and the reconciliations under way are finished.
pub async fn run(settings: Settings, end: impl Future<Output = ()> + Send + Sync + 'static) {
    let Settings {
        client,
        operator,
        server_image,
        recorder,
        metrics,
        supervisor,
    } = settings;
    let objects = Api::<DeserializeGuard<ReportsServer>>::all(client.clone());
    let controller = Controller::new(objects, watcher::Config::default());
    let store = controller.store();

    let (api_services, writer) = reflector::store::<APIService>();
    let changed_api_services = watcher(
        Api::<APIService>::all(client.clone()),
        watcher::Config::default(),
    )
    .default_backoff()
    .reflect(writer)
    .touched_objects();
    let namespaces = watcher(
        Api::<PartialObjectMeta<Namespace>>::all(client.clone()),
        watcher::Config::default(),
    )
    .default_backoff()
    .touched_objects();

    let (trigger, triggered) = mpsc::channel(TRIGGERS);
    let context = Arc::new(Context {
        watches: Watches::new(client.clone(), trigger),
        client,
        operator,
        server_image,
        recorder,
        metrics,
        objects: store.clone(),
        api_services: api_services.clone(),
        swept: std::sync::Mutex::default(),
        supervisor: supervisor.clone(),
    });
    let (for_services, for_namespaces) = (store.clone(), store);
    controller
        .watches_stream(changed_api_services, move |_| all(&for_services))
        .watches_stream(namespaces, move |namespace| {
            targeting(&for_namespaces, &namespace)
        })
        .reconcile_on(tokio_stream(triggered))
        .reconcile_on(paced(supervisor.changes()).map(|name| Trigger::new(&name)))
        .graceful_shutdown_on(end)
        .run(reconcile, error_policy, context)
        .for_each(|result| async {
            // Errors of reconciliations are handled by the error policy; what is left are
            // requests for objects that are gone by now.
            if let Err(error) = result {
                debug!(%error, "controller");
            }
        })
        .await;
}

/// An APIService changed: there are few `ReportsServer`s, and each may hold or want it.
fn all(store: &Store<DeserializeGuard<ReportsServer>>) -> Vec<Trigger> {
    store
        .state()
        .iter()
        .map(|object| ObjectRef::from_obj(object.as_ref()))
        .collect()
}

/// The `ReportsServer`s whose target namespace it is.
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

fn tokio_stream(receiver: mpsc::Receiver<Trigger>) -> impl Stream<Item = Trigger> {
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|trigger| (trigger, receiver))
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
