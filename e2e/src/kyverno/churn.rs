//! Churn: the actions of a cluster's users on objects that Kyverno reports on.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::KyvernoError;
use super::canary::Canaries;
use crate::request::RequestError;
use testreports::ReportKind;

/// Namespaces of the churn.
pub const NAMESPACES: [&str; 4] = ["churn-0", "churn-1", "churn-2", "churn-3"];
/// Time between two canaries.
const CANARY_PERIOD: Duration = Duration::from_millis(900);
/// Time between two operations on workloads.
const WORKLOAD_PERIOD: Duration = Duration::from_millis(1100);
/// Time between two namespaces, for which the background controller generates something.
const NAMESPACE_PERIOD: Duration = Duration::from_secs(15);
/// Time between two looks at the reports of canaries.
const LOOK_PERIOD: Duration = Duration::from_secs(4);
/// Number of each kind that live at once.
const WORKLOADS: usize = 5;
const SHORT_NAMESPACES: usize = 4;
/// An image that is on every node of the tests.
const IMAGE: &str = "registry.k8s.io/pause:3.10.1";

/// The churn, as long as it is not stopped.
pub struct Churn {
    canaries: Arc<Canaries>,
    operations: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    stop: CancellationToken,
    /// The tasks that go on after the churn.
    look: JoinSet<()>,
    tasks: JoinSet<()>,
}

impl Churn {
    /// Makes the namespaces and begins.
    pub async fn start(client: Client) -> Result<Self, KyvernoError> {
        for name in NAMESPACES {
            make_namespace(&client, name, "objects")
                .await
                .map_err(RequestError::of("make a namespace"))?;
        }
        let mut churn = Self {
            canaries: Arc::default(),
            operations: Arc::default(),
            failed: Arc::default(),
            stop: CancellationToken::new(),
            look: JoinSet::new(),
            tasks: JoinSet::new(),
        };
        let worker = Worker {
            client,
            canaries: Arc::clone(&churn.canaries),
            operations: Arc::clone(&churn.operations),
            failed: Arc::clone(&churn.failed),
            stop: churn.stop.clone(),
        };
        churn.tasks.spawn(worker.clone().canaries());
        churn.tasks.spawn(worker.clone().workloads());
        churn.tasks.spawn(worker.clone().namespaces());
        churn.look.spawn(worker.look());
        Ok(churn)
    }

    /// Ends the churn; canaries are still looked after.
    pub async fn stop(&mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }

    /// Returns the canaries.
    pub fn canaries(&self) -> &Canaries {
        &self.canaries
    }

    /// Returns the number of operations, and of those of them that failed.
    pub fn counts(&self) -> (u64, u64) {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        (count(&self.operations), count(&self.failed))
    }
}

#[derive(Clone)]
struct Worker {
    client: Client,
    canaries: Arc<Canaries>,
    operations: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    stop: CancellationToken,
}

impl Worker {
    async fn every(&self, interval: &mut tokio::time::Interval) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => false,
            _ = interval.tick() => true,
        }
    }

    fn note<T>(&self, what: &str, result: kube::Result<T>) -> Option<T> {
        self.operations.fetch_add(1, Ordering::Relaxed);
        result
            .inspect_err(|error| {
                self.failed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%error, what, "an operation of the churn failed");
            })
            .ok()
    }

    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn create<K>(&self, namespace: &str, object: Value) -> Option<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let object = serde_json::from_value(object).ok()?;
        let api = self.api::<K>(namespace);
        self.note("create", api.create(&PostParams::default(), &object).await)
    }

    async fn change<K>(&self, namespace: &str, name: &str, patch: Value)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api = self.api::<K>(namespace);
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.note("change", api.patch(name, &params, &patch).await);
    }

    async fn delete<K>(&self, namespace: &str, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api = self.api::<K>(namespace);
        self.note(
            "delete",
            api.delete(name, &DeleteParams::background()).await,
        );
    }

    /// Creates canaries; now and then one is changed, or deleted.
    async fn canaries(self) {
        let mut interval = interval(CANARY_PERIOD);
        let mut number = 0;
        while self.every(&mut interval).await {
            number += 1;
            let namespace = namespace(number);
            let name = format!("canary-{number}");
            let object = json!({
                "metadata": {"name": name, "labels": {"churn": "canary"}},
                "data": {"number": number.to_string()},
            });
            if let Some(made) = self.create::<ConfigMap>(namespace, object).await {
                let uid = made.uid().unwrap_or_default();
                self.canaries.made(uid, namespace.to_owned(), name);
            }
            if number % 3 == 0
                && let Some((namespace, name)) = self.canaries.some(number)
            {
                let patch = json!({"data": {"number": format!("changed {number}")}});
                self.change::<ConfigMap>(&namespace, &name, patch).await;
            }
            if number % 2 == 0
                && number > 60
                && let Some((namespace, name)) = self.canaries.take()
            {
                self.delete::<ConfigMap>(&namespace, &name).await;
            }
        }
    }

    /// Creates, changes and deletes Deployments and Pods.
    async fn workloads(self) {
        let mut interval = interval(WORKLOAD_PERIOD);
        let (mut deployments, mut pods) = (VecDeque::new(), VecDeque::new());
        let mut number = 0;
        while self.every(&mut interval).await {
            number += 1;
            let label = json!({"metadata": {"labels": {"changed": number.to_string()}}});
            let namespace = namespace(number / 8);
            match number % 8 {
                1 => {
                    let name = format!("deployment-{number}");
                    let object = deployment(&name);
                    if self.create::<Deployment>(namespace, object).await.is_some() {
                        deployments.push_back((namespace, name));
                    }
                }
                2 | 5 => {
                    let name = format!("pod-{number}");
                    if self.create::<Pod>(namespace, pod(&name)).await.is_some() {
                        pods.push_back((namespace, name));
                    }
                }
                3 | 7 => {
                    if let Some((namespace, name)) = pods.back() {
                        self.change::<Pod>(namespace, name, label).await;
                    }
                }
                4 => {
                    if let Some((namespace, name)) = deployments.back() {
                        self.change::<Deployment>(namespace, name, label).await;
                    }
                }
                6 if deployments.len() > WORKLOADS => {
                    if let Some((namespace, name)) = deployments.pop_front() {
                        self.delete::<Deployment>(namespace, &name).await;
                    }
                }
                _ => {}
            }
            if pods.len() > WORKLOADS
                && let Some((namespace, name)) = pods.pop_front()
            {
                self.delete::<Pod>(namespace, &name).await;
            }
        }
    }

    /// Creates namespaces, and deletes them some time after.
    async fn namespaces(self) {
        let mut interval = interval(NAMESPACE_PERIOD);
        let mut living = VecDeque::new();
        let mut number = 0;
        while self.every(&mut interval).await {
            number += 1;
            let name = format!("short-{number}");
            let made = make_namespace(&self.client, &name, "generate").await;
            if self.note("create", made).is_some() {
                living.push_back(name);
            }
            if living.len() > SHORT_NAMESPACES
                && let Some(name) = living.pop_front()
            {
                let api: Api<Namespace> = Api::all(self.client.clone());
                let deleted = api.delete(&name, &DeleteParams::default()).await;
                self.note("delete", deleted);
            }
        }
    }

    /// Looks for the reports of canaries, until this value is dropped.
    async fn look(self) {
        let mut interval = interval(LOOK_PERIOD);
        loop {
            interval.tick().await;
            match report_names(&self.client).await {
                Ok(names) => {
                    for late in self.canaries.seen(&names) {
                        tracing::warn!(late, "a canary has no report");
                        println!("  a canary has no report after a minute: {late}");
                    }
                }
                Err(error) => tracing::warn!(%error, "the reports cannot be listed"),
            }
        }
    }
}

/// Returns the names of all reports, which are the uids of their objects.
async fn report_names(client: &Client) -> kube::Result<HashSet<String>> {
    let resource = ReportKind::PolicyReport.api_resource();
    let reports: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let list = reports.list_metadata(&ListParams::default()).await?;
    Ok(list.items.iter().map(kube::ResourceExt::name_any).collect())
}

fn interval(period: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

fn namespace(number: u64) -> &'static str {
    let place = usize::try_from(number).unwrap_or_default();
    NAMESPACES[place % NAMESPACES.len()]
}

async fn make_namespace(client: &Client, name: &str, churn: &str) -> kube::Result<Namespace> {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    namespace.metadata.labels = Some([("churn".to_owned(), churn.to_owned())].into());
    let api: Api<Namespace> = Api::all(client.clone());
    api.create(&PostParams::default(), &namespace).await
}

fn deployment(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "pause", "image": IMAGE}]},
            },
        },
    })
}

/// Returns a pod that no scheduler takes: it is there for Kyverno only.
fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "pause", "image": IMAGE}]},
    })
}
