//! A line whose groups are moved, and what is there while something is deleted that the server needs.

use std::time::Duration;

use crate::common::{options, say};
use crds::v1alpha1::ReportsServer;
use e2e::takeover::{NAME, TARGET_NAMESPACE, Takeover};
use e2e::witness::State;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::wait::{await_condition, conditions as reached};
use testreports::Input;

/// Longest time of a step.
pub const LIMIT: Duration = Duration::from_mins(5);
/// The pause between two looks.
pub const PAUSE: Duration = Duration::from_millis(500);
const REPORTS: usize = 100;

/// The line.
pub struct Ground {
    /// The cluster with operator and `ReportsServer`.
    pub line: Takeover,
}

impl Ground {
    /// Moves the groups to the server.
    pub async fn prepare(seed: u64) -> Self {
        let input = Input::Generated { seed };
        let line = Takeover::prepare(options(input, REPORTS), say)
            .await
            .unwrap();
        line.install_operator().await.unwrap();
        line.apply().await.unwrap();
        line.follow_to_ready(LIMIT).await.unwrap();
        Self { line }
    }

    pub fn servers(&self) -> Api<ReportsServer> {
        Api::all(self.line.client.clone())
    }

    /// Deletes the `ReportsServer`, and waits until it is gone.
    pub async fn delete_server(&self) {
        let servers = self.servers();
        let uid = servers.get(NAME).await.unwrap().metadata.uid.unwrap();
        let params = DeleteParams::default();
        servers.delete(NAME, &params).await.unwrap();
        self.server_gone(&uid).await;
    }

    /// Waits until the `ReportsServer` with this uid is gone.
    pub async fn server_gone(&self, uid: &str) {
        let gone = await_condition(self.servers(), NAME, reached::is_deleted(uid));
        let gone = tokio::time::timeout(LIMIT, gone).await;
        gone.expect("the finalizer is removed").unwrap();
    }

    /// Returns whether no APIService leads to the server.
    pub async fn is_served_by_crds(&self) -> bool {
        let services: Api<APIService> = Api::all(self.line.client.clone());
        let services = services.list(&ListParams::default()).await.unwrap();
        let mut targets = services
            .items
            .into_iter()
            .filter_map(|service| service.spec?.service?.namespace);
        targets.all(|namespace| namespace != TARGET_NAMESPACE)
    }

    /// The contents of all reports, without what etcd gives anew to an object that it had no more;
    /// nothing while they cannot be listed.
    pub async fn contents(&self) -> Option<Vec<String>> {
        let state = State::read(&self.line.client).await.ok()?;
        let objects = state.0.iter();
        let contents = objects.map(|(key, object)| format!("{key:?} {}", object.content));
        Some(contents.collect())
    }

    /// Waits until clients are shown these contents.
    pub async fn shows(&self, contents: &[String]) {
        let shown = async {
            while self.contents().await.as_deref() != Some(contents) {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(LIMIT, shown).await.unwrap();
    }
}
