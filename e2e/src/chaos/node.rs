//! The driver on a cluster with a node: the operator itself, installed as a user does.

use std::time::Duration;

use async_trait::async_trait;
use crds::control::StoredResource;
use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::status::MigrationPhase;
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::wait::await_condition;
use serde::Deserialize;
use serde_json::json;

use super::ledger::Key;
use super::processes::at_cluster;
use super::{ChaosError, Driver, Dropped, Fault, Window};
use crate::takeover::{
    Database, GROUPS, NAME, OPERATOR_NAMESPACE, TARGET_NAMESPACE, Takeover, all_groups, is_ready,
};
use testcluster::{Cluster, Signal};
use testreports::ReportKind;

/// Path of the server's view of the objects that it stores.
const STORED: &str = "/apis/control.reports-server.io/v1alpha1/storedresources";
/// Key of a migration report in its `ConfigMap`.
const REPORT_KEY: &str = "report.json";
/// Longest time without progress in one direction, faults included.
const LIMIT: Duration = Duration::from_mins(6);
/// Label by which pods are told apart.
const COMPONENT: &str = "app.kubernetes.io/component";
/// An `APIService` that is deleted by hand.
const API_SERVICE: &str = "v1alpha2.wgpolicyk8s.io";
/// Longest wait until the server serves the group.
const SERVED_LIMIT: Duration = Duration::from_secs(40);
/// Longest time until a container is there again.
const BACK_LIMIT: Duration = Duration::from_mins(2);
/// Time for which a slow database stands still, then runs for the second, and so on.
const STOPPED: Duration = Duration::from_millis(400);
const RUNNING: Duration = Duration::from_millis(50);
/// Number of times its length that an operator stands still: the Lease is another one's after 15
/// seconds, or after 8 during a hold, and the kubelet ends a container that does not answer after 30.
const PAUSED: u32 = 3;
/// Pause between two looks at it.
const PAUSE: Duration = Duration::from_millis(200);

/// A driver on a node. See the module.
pub struct NodeDriver {
    line: Takeover,
}

impl NodeDriver {
    /// Installs the operator and a server that serves nothing yet.
    ///
    /// # Errors
    /// If that does not come to its end.
    pub async fn start(line: Takeover) -> Result<Self, ChaosError> {
        line.install_operator().await?;
        line.apply_as("CRD").await?;
        let driver = Self { line };
        let phases = [MigrationPhase::RolledBack];
        driver.follow("an idle server", &phases).await?;
        Ok(driver)
    }

    /// Returns the driver of a line whose groups are served already, and whose copies in etcd are
    /// pruned.
    #[must_use]
    pub fn of_pruned(line: Takeover) -> Self {
        Self { line }
    }

    /// Returns the line.
    #[must_use]
    pub fn line(&self) -> &Takeover {
        &self.line
    }

    /// Returns the line and ends the driver.
    #[must_use]
    pub fn into_line(self) -> Takeover {
        self.line
    }

    async fn follow(&self, what: &str, wanted: &[MigrationPhase]) -> Result<(), ChaosError> {
        let reached = self.line.follow(what, LIMIT, |server| {
            is_ready(server) && all_groups(server, |phase| wanted.contains(&phase))
        });
        Ok(reached.await?)
    }

    /// Returns a pod of a component that is not being deleted; of the operators' that of the leader, if
    /// one leads.
    async fn pod(&self, component: &str) -> Result<Option<Container>, ChaosError> {
        let namespace = namespace_of(component);
        let pods: Api<Pod> = Api::namespaced(self.line.client.clone(), namespace);
        let labelled = ListParams::default().labels(&format!("{COMPONENT}={component}"));
        let found = pods.list(&labelled).await.map_err(cluster_error)?;
        let mut living = found.items;
        living.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        let leader = match namespace {
            // Where it cannot be read now, any of them is struck.
            OPERATOR_NAMESPACE => self.line.leader().await.unwrap_or_default(),
            _ => None,
        };
        let leads = |pod: &Pod| leader.is_some() && pod.metadata.name == leader;
        let index = living.iter().position(leads).unwrap_or(0);
        let pod = living.into_iter().nth(index);
        let name = pod.and_then(|pod| pod.metadata.name);
        Ok(name.map(|pod| Container {
            namespace,
            pod,
            name: component.to_owned(),
        }))
    }

    async fn signal(&self, container: &Container, signal: Signal) {
        let cluster = &self.line.cluster;
        let sent =
            cluster.signal_container(container.namespace, &container.pod, &container.name, signal);
        // One that is being started again has no process to signal.
        if let Err(error) = sent.await {
            tracing::info!(%error, pod = %container.pod, "not signalled");
        }
    }

    /// Kills a container of a component, and waits until its pods are ready again.
    async fn kill(&self, component: &str) -> Result<(), ChaosError> {
        if let Some(container) = self.pod(component).await? {
            self.signal(&container, Signal::Kill).await;
        }
        self.ready(component).await
    }

    /// Has the operator that leads stand still, so long that another one may lead before it goes on.
    async fn pause_operator(&self, length: Duration) -> Result<(), ChaosError> {
        let Some(container) = self.pod("operator").await? else {
            return Ok(());
        };
        self.signal(&container, Signal::Stop).await;
        tokio::time::sleep(length * PAUSED).await;
        self.signal(&container, Signal::Cont).await;
        Ok(())
    }

    /// Stops every process of a PostgreSQL, or lets it go on.
    async fn pause_database(&self, paused: bool) -> Result<(), ChaosError> {
        let signal = if paused { Signal::Stop } else { Signal::Cont };
        let cluster = &self.line.cluster;
        // Where none runs there is none to pause.
        cluster.signal_program("postgres", signal).await?;
        Ok(())
    }

    /// Waits until the pods of a component are ready, after one was killed or deleted.
    async fn ready(&self, component: &str) -> Result<(), ChaosError> {
        let deadline = tokio::time::Instant::now() + BACK_LIMIT;
        while tokio::time::Instant::now() < deadline {
            // The kubelet needs a moment to see that a container has ended.
            tokio::time::sleep(PAUSE * 10).await;
            if self.all_ready(component).await? {
                return Ok(());
            }
        }
        Err(ChaosError::NotReached {
            what: format!("the {component}"),
            limit: BACK_LIMIT,
            last: "a pod is not ready".to_owned(),
        })
    }

    async fn all_ready(&self, component: &str) -> Result<bool, ChaosError> {
        let namespace = namespace_of(component);
        let pods: Api<Pod> = Api::namespaced(self.line.client.clone(), namespace);
        let labelled = ListParams::default().labels(&format!("{COMPONENT}={component}"));
        let found = pods.list(&labelled).await.map_err(cluster_error)?;
        let is_living = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
        let is_ready = |pod: &Pod| {
            let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|c| c.type_ == "Ready" && c.status == "True")
        };
        Ok(found.items.iter().any(is_living) && found.items.iter().all(is_ready))
    }

    async fn delete_server(&self) -> Result<(), ChaosError> {
        if let Some(Container { namespace, pod, .. }) = self.pod("server").await? {
            let pods: Api<Pod> = Api::namespaced(self.line.client.clone(), namespace);
            let deleted = pods.delete(&pod, &DeleteParams::default()).await;
            deleted.map_err(cluster_error)?;
        }
        self.ready("server").await
    }

    /// Deletes the APIService, but only while the server serves, which is waited for: without the
    /// CRD's own the cluster has no such API.
    async fn delete_api_service(&self) -> Result<Option<Window>, ChaosError> {
        if !self.leads_to_us().await {
            return Ok(None);
        }
        let services: Api<APIService> = Api::all(self.line.client.clone());
        let from = tokio::time::Instant::now();
        let deleted = services.delete(API_SERVICE, &DeleteParams::default()).await;
        deleted.map_err(cluster_error)?;
        self.leads_to_us().await;
        self.merged().await?;
        let to = tokio::time::Instant::now();
        Ok(Some(Window { from, to }))
    }

    /// Waits until the writes to etcd in the meantime are at the server, for some time.
    async fn merged(&self) -> Result<(), ChaosError> {
        let (group, deadline) = (GROUPS[0], tokio::time::Instant::now() + SERVED_LIMIT);
        while tokio::time::Instant::now() < deadline {
            let request = Request::get(STORED).body(Vec::new());
            let request = request.map_err(|e| ChaosError::Request(e.to_string()))?;
            let stored = self.line.client.request::<Stored>(request);
            // Behind a server that is being started it is asked again.
            if let Ok(stored) = stored.await {
                let of_group = |one: &&StoredResource| one.status.group == group;
                if stored
                    .items
                    .iter()
                    .filter(of_group)
                    .all(|one| one.status.settled)
                {
                    break;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Returns the objects that a migration report names as dropped.
    async fn named_in(&self, report: &str) -> Result<Vec<Key>, ChaosError> {
        let maps: Api<ConfigMap> = Api::namespaced(self.line.client.clone(), TARGET_NAMESPACE);
        let map = maps.get(report).await.map_err(cluster_error)?;
        let mut data = map.data.unwrap_or_default();
        let text = data.remove(REPORT_KEY).unwrap_or_default();
        let report: Report =
            serde_json::from_str(&text).map_err(|e| ChaosError::Request(e.to_string()))?;
        Ok(report
            .dropped
            .iter()
            .filter_map(|name| named(name))
            .collect())
    }

    /// Waits until the APIService leads to the server, for some time.
    async fn leads_to_us(&self) -> bool {
        let services: Api<APIService> = Api::all(self.line.client.clone());
        let ours = |found: Option<&APIService>| {
            let spec = found.and_then(|service| service.spec.as_ref());
            spec.is_some_and(|spec| spec.service.is_some())
        };
        let ours = await_condition(services, API_SERVICE, ours);
        let ours = tokio::time::timeout(SERVED_LIMIT, ours).await;
        matches!(ours, Ok(Ok(Some(_))))
    }
}

/// A container that a fault strikes.
struct Container {
    namespace: &'static str,
    pod: String,
    name: String,
}

/// Returns the namespace of the pods of a component.
fn namespace_of(component: &str) -> &'static str {
    match component {
        "operator" => OPERATOR_NAMESPACE,
        _ => TARGET_NAMESPACE,
    }
}

/// A list at [`STORED`].
#[derive(Deserialize)]
struct Stored {
    items: Vec<StoredResource>,
}

/// The part of a migration report that explains flaws.
#[derive(Deserialize)]
struct Report {
    dropped: Vec<String>,
}

/// Returns the object that the report names as `policyreports/NAMESPACE/NAME`.
fn named(name: &str) -> Option<Key> {
    let (plural, rest) = name.split_once('/')?;
    let kind = ReportKind::ALL
        .into_iter()
        .find(|kind| kind.plural() == plural)?;
    let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
    Some(Key {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

fn cluster_error(error: kube::Error) -> ChaosError {
    testcluster::Error::from(error).into()
}

#[async_trait]
impl Driver for NodeDriver {
    fn cluster(&self) -> &Cluster {
        &self.line.cluster
    }

    async fn forward(&self, prune: bool) -> Result<(), ChaosError> {
        let after = if prune { "0s" } else { "24h" };
        let source = json!({"policy": "Prune", "after": after});
        self.line
            .patch_spec(json!({"migration": {"source": source}}))
            .await?;
        self.line.set_owner("Server").await?;
        let wanted = if prune {
            MigrationPhase::Completed
        } else {
            MigrationPhase::Retaining
        };
        self.follow("the way to the server", &[wanted]).await
    }

    async fn back(&self) -> Result<(), ChaosError> {
        self.line.set_owner("CRD").await?;
        self.follow("the way back", &[MigrationPhase::RolledBack])
            .await
    }

    fn faults(&self) -> Vec<Fault> {
        let last = self.line.cluster.apiservers().saturating_sub(1);
        let mut faults = vec![
            Fault::OperatorKilled,
            Fault::OperatorPaused,
            Fault::ServerKilled,
            Fault::ServerPodDeleted,
            Fault::ApiServerFrozen(0),
            Fault::ApiServerFrozen(last),
            Fault::ApiServerRestarted(last),
            Fault::ApiServiceDeleted,
            Fault::CrdTouched,
            Fault::Suspended,
        ];
        if matches!(self.line.database(), Database::Managed) {
            faults.extend([Fault::DatabasePaused, Fault::DatabaseSlow]);
        }
        faults
    }

    fn usual(&self) -> Duration {
        Duration::from_secs(25)
    }

    async fn strike(&self, fault: Fault, length: Duration) -> Result<Option<Window>, ChaosError> {
        let struck = match fault {
            Fault::OperatorKilled => self.kill("operator").await,
            Fault::OperatorPaused => self.pause_operator(length).await,
            Fault::ServerKilled => self.kill("server").await,
            Fault::ServerPodDeleted => self.delete_server().await,
            Fault::ApiServiceDeleted => return self.delete_api_service().await,
            Fault::Suspended => {
                self.line.patch_spec(json!({"suspend": true})).await?;
                tokio::time::sleep(length).await;
                Ok(self.line.patch_spec(json!({"suspend": null})).await?)
            }
            Fault::DatabasePaused => {
                self.pause_database(true).await?;
                tokio::time::sleep(length).await;
                self.pause_database(false).await
            }
            Fault::DatabaseSlow => {
                let end = tokio::time::Instant::now() + length;
                while tokio::time::Instant::now() < end {
                    self.pause_database(true).await?;
                    tokio::time::sleep(STOPPED).await;
                    self.pause_database(false).await?;
                    tokio::time::sleep(RUNNING).await;
                }
                Ok(())
            }
            fault => at_cluster(&self.line.cluster, fault, length).await,
        };
        struck.map(|()| None)
    }

    async fn dropped(&self) -> Result<Dropped, ChaosError> {
        let servers: Api<ReportsServer> = Api::all(self.line.client.clone());
        let server = servers.get(NAME).await.map_err(cluster_error)?;
        let migration = server.status.and_then(|status| status.migration);
        let mut dropped = Dropped::default();
        for group in migration.into_iter().flat_map(|migration| migration.groups) {
            dropped.count += group.dropped_writes.unwrap_or_default();
            if let Some(report) = group.report {
                let names = self.named_in(&report.config_map).await?;
                dropped.named.extend(names);
            }
        }
        Ok(dropped)
    }
}
