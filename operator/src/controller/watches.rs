//! Watches on the children, so that drift is repaired when it happens.
//!
//! Those in target namespaces are opened namespace by namespace, because the operator has rights on
//! Secrets and the like only in the namespaces concerned; one watch over the whole cluster would need
//! them everywhere. What binds the server's account elsewhere is watched where it is.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use crds::v1alpha1::ReportsServer;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject};
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use crate::cert_manager;
use crate::database::cloudnativepg;
use crate::names::{KUBE_SYSTEM, Names};

/// The objects that a watch asks to be reconciled.
pub type Trigger = ObjectRef<DeserializeGuard<ReportsServer>>;

/// An object of somebody else, by its name, that a database or a certificate depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// A Secret in the target namespace.
    Secret(String),
    /// A `ConfigMap` in the target namespace.
    ConfigMap(String),
    /// A CRD, which may come or go.
    Crd(String),
    /// A `Cluster` of `CloudNativePG` in the target namespace. It is watched again and again until
    /// its CRD is there.
    Cluster(String),
    /// A `Certificate` of cert-manager in the target namespace. It is watched again and again until
    /// its CRD is there.
    Certificate(String),
}

type Following = (String, BTreeSet<Watched>, AbortOnDropHandle<()>);

/// The watches of all `ReportsServer`s.
pub struct Watches {
    client: Client,
    trigger: mpsc::Sender<Trigger>,
    running: Mutex<HashMap<String, (String, AbortOnDropHandle<()>)>>,
    following: Mutex<HashMap<String, Following>>,
}

impl Watches {
    /// No watches yet. Every change of a child is told to `trigger`.
    #[must_use]
    pub fn new(client: Client, trigger: mpsc::Sender<Trigger>) -> Self {
        Self {
            client,
            trigger,
            running: Mutex::default(),
            following: Mutex::default(),
        }
    }

    /// Watches exactly these objects of others for an instance, one by one: their labels are not
    /// ours, and all others of the namespace do not concern us.
    pub fn follow(&self, names: &Names, namespace: &str, watched: BTreeSet<Watched>) {
        let mut following = self
            .following
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let present = following.get(names.instance());
        if present.is_some_and(|(at, present, task)| {
            at == namespace && *present == watched && !task.is_finished()
        }) {
            return;
        }
        let changes = watched
            .iter()
            .map(|watched| changes_of(&self.client, namespace, watched));
        let changes = futures::stream::select_all(changes.collect::<Vec<_>>()).boxed();
        let task = self.tell(names.instance(), changes);
        let entry = (namespace.to_owned(), watched, task);
        following.insert(names.instance().to_owned(), entry);
    }

    /// Ends what [`Self::follow`] began.
    pub fn leave(&self, name: &str) {
        self.following
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    /// Asks for a reconciliation at each change.
    fn tell(&self, name: &str, mut changes: BoxStream<'static, ()>) -> AbortOnDropHandle<()> {
        let (name, trigger) = (name.to_owned(), self.trigger.clone());
        AbortOnDropHandle::new(tokio::spawn(async move {
            while changes.next().await.is_some() {
                if trigger.send(Trigger::new(&name)).await.is_err() {
                    return;
                }
            }
        }))
    }

    /// Watches the children of an instance in `namespace`, once.
    pub fn ensure(&self, names: &Names, namespace: &str) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let present = running.get(names.instance());
        if present.is_some_and(|(at, task)| at == namespace && !task.is_finished()) {
            return;
        }
        let changes = children(&self.client, namespace, &names.label_selector());
        let task = self.tell(names.instance(), changes);
        running.insert(names.instance().to_owned(), (namespace.to_owned(), task));
    }

    /// Ends the watches of an instance.
    pub fn forget(&self, name: &str) {
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }
}

/// One item for each change of a child.
fn children(client: &Client, namespace: &str, selector: &str) -> BoxStream<'static, ()> {
    futures::stream::select_all([
        changes::<Deployment>(client, namespace, selector),
        changes::<StatefulSet>(client, namespace, selector),
        changes::<CronJob>(client, namespace, selector),
        changes::<Job>(client, namespace, selector),
        changes::<Service>(client, namespace, selector),
        changes::<ConfigMap>(client, namespace, selector),
        changes::<Secret>(client, namespace, selector),
        changes::<PersistentVolumeClaim>(client, namespace, selector),
        changes::<ServiceAccount>(client, namespace, selector),
        changes::<Role>(client, namespace, selector),
        changes::<RoleBinding>(client, namespace, selector),
        changes::<RoleBinding>(client, KUBE_SYSTEM, selector),
        labelled::<ClusterRoleBinding>(Api::all(client.clone()), selector),
        changes::<PodDisruptionBudget>(client, namespace, selector),
        changes::<HorizontalPodAutoscaler>(client, namespace, selector),
        changes::<NetworkPolicy>(client, namespace, selector),
    ])
    .boxed()
}

fn changes<K>(client: &Client, namespace: &str, selector: &str) -> BoxStream<'static, ()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + DeserializeOwned
        + Clone
        + Debug
        + Send
        + 'static,
{
    labelled::<K>(Api::namespaced(client.clone(), namespace), selector)
}

/// One item for each change of an object with our labels.
fn labelled<K>(api: Api<PartialObjectMeta<K>>, selector: &str) -> BoxStream<'static, ()>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + 'static,
{
    let config = watcher::Config::default().labels(selector);
    told(watcher(api, config), K::kind(&()).into_owned())
}

/// One item for each change of one object.
fn changes_of(client: &Client, namespace: &str, watched: &Watched) -> BoxStream<'static, ()> {
    let of = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
    match watched {
        Watched::Secret(name) => {
            let api = Api::<PartialObjectMeta<Secret>>::namespaced(client.clone(), namespace);
            told(watcher(api, of(name)), "Secret".to_owned())
        }
        Watched::ConfigMap(name) => {
            let api = Api::<PartialObjectMeta<ConfigMap>>::namespaced(client.clone(), namespace);
            told(watcher(api, of(name)), "ConfigMap".to_owned())
        }
        Watched::Crd(name) => {
            let api = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client.clone());
            told(
                watcher(api, of(name)),
                "CustomResourceDefinition".to_owned(),
            )
        }
        Watched::Cluster(name) => untyped(client, namespace, cloudnativepg::resource(), of(name)),
        Watched::Certificate(name) => {
            untyped(client, namespace, cert_manager::resource(), of(name))
        }
    }
}

/// One item for each change of one object of a kind that others define.
fn untyped(
    client: &Client,
    namespace: &str,
    resource: ApiResource,
    config: watcher::Config,
) -> BoxStream<'static, ()> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    told(watcher(api, config), resource.kind)
}

/// One item for each change, and none for a watch that breaks off: it is opened again, less and
/// less often while that does not help.
fn told<K>(
    changes: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
    kind: String,
) -> BoxStream<'static, ()>
where
    K: Send + 'static,
{
    changes
        .default_backoff()
        .touched_objects()
        .filter_map(move |change| {
            let told = match change {
                Ok(_) => Some(()),
                Err(error) => {
                    debug!(%error, kind, "watch failed; opening it again");
                    None
                }
            };
            std::future::ready(told)
        })
        .boxed()
}
