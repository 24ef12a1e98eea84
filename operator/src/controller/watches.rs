//! Watches on the children in a target namespace, so that drift is repaired when it happens.
//!
//! They are opened namespace by namespace, because the operator has rights on Secrets and the like
//! only in the namespaces concerned; one watch over the whole cluster would need them everywhere.

use std::{
    collections::HashMap,
    fmt::Debug,
    sync::{Mutex, PoisonError},
};

use crds::v1alpha1::ReportsServer;
use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount},
        policy::v1::PodDisruptionBudget,
        rbac::v1::{Role, RoleBinding},
    },
};
use kube::{
    Api, Client, Resource,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::{WatchStreamExt, reflector::ObjectRef, watcher},
};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use crate::names::Names;

/// What a watch asks to be reconciled.
pub type Trigger = ObjectRef<DeserializeGuard<ReportsServer>>;

/// The watches of all `ReportsServer`s.
pub struct Watches {
    client: Client,
    trigger: mpsc::Sender<Trigger>,
    running: Mutex<HashMap<String, (String, AbortOnDropHandle<()>)>>,
}

impl Watches {
    /// No watches yet. Every change of a child is told to `trigger`.
    #[must_use]
    pub fn new(client: Client, trigger: mpsc::Sender<Trigger>) -> Self {
        Self {
            client,
            trigger,
            running: Mutex::default(),
        }
    }

    /// Watches the children of an instance in `namespace`, once.
    pub fn ensure(&self, names: &Names, namespace: &str) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let present = running.get(names.instance());
        if present.is_some_and(|(at, task)| at == namespace && !task.is_finished()) {
            return;
        }
        let changes = children(&self.client, namespace, &names.label_selector());
        let (name, trigger) = (names.instance().to_owned(), self.trigger.clone());
        let task = tokio::spawn(async move {
            futures::pin_mut!(changes);
            while changes.next().await.is_some() {
                if trigger.send(Trigger::new(&name)).await.is_err() {
                    return;
                }
            }
        });
        let task = AbortOnDropHandle::new(task);
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
        changes::<Service>(client, namespace, selector),
        changes::<ConfigMap>(client, namespace, selector),
        changes::<Secret>(client, namespace, selector),
        changes::<PersistentVolumeClaim>(client, namespace, selector),
        changes::<ServiceAccount>(client, namespace, selector),
        changes::<Role>(client, namespace, selector),
        changes::<RoleBinding>(client, namespace, selector),
        changes::<PodDisruptionBudget>(client, namespace, selector),
        changes::<HorizontalPodAutoscaler>(client, namespace, selector),
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
    let api = Api::<PartialObjectMeta<K>>::namespaced(client.clone(), namespace);
    let config = watcher::Config::default().labels(selector);
    watcher(api, config)
        .default_backoff()
        .touched_objects()
        .filter_map(|change| async {
            match change {
                Ok(_) => Some(()),
                Err(error) => {
                    debug!(%error, kind = %K::kind(&()), "watch broke off; it is opened again");
                    None
                }
            }
        })
        .boxed()
}
