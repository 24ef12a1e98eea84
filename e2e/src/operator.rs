//! The operator inside of a test's process, with the administrator's rights or those of a user: for
//! tests on a control plane without nodes, and with databases that only the test can reach.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use kube::runtime::events::Reporter;
use kube::{Client, Config};
use reports_server_operator::controller::{self, ServiceAccountRef};
use reports_server_operator::events::Publisher;
use reports_server_operator::leader::Term;
use reports_server_operator::metrics::Metrics;
use reports_server_operator::migration::{Deps, HoldLock, Supervisor};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use testcluster::{Cluster, Error};

/// An operator at work; dropping it ends it.
pub struct Operator {
    metrics: Metrics,
    end: CancellationToken,
    task: JoinHandle<()>,
}

impl Operator {
    /// Starts it. `resolve` returns the addresses of databases whose host names mean nothing here.
    ///
    /// # Errors
    /// If no client of the cluster is available.
    pub async fn start(
        cluster: &Cluster,
        resolve: BTreeMap<String, SocketAddr>,
    ) -> Result<Self, Error> {
        Self::with(cluster.config(0).await?, resolve)
    }

    /// Starts it with the rights of a user.
    ///
    /// # Errors
    /// If no client of the cluster is available.
    pub async fn start_as(cluster: &Cluster, user: &str) -> Result<Self, Error> {
        let mut config = cluster.config(0).await?;
        config.auth_info.impersonate = Some(user.to_owned());
        Self::with(config, BTreeMap::new())
    }

    fn with(config: Config, resolve: BTreeMap<String, SocketAddr>) -> Result<Self, Error> {
        let client = Client::try_from(config.clone())?;
        let reporter = Reporter::from("operator-in-test");
        let publisher = Publisher::new(client.clone(), reporter.clone());
        let metrics = Metrics::new();
        let supervisor = Supervisor::new(Deps {
            client: client.clone(),
            config,
            // It takes part in no election.
            term: Term::endless(),
            reporter,
            metrics: metrics.migration.clone(),
            hold_lock: HoldLock::default(),
            namespace: "default".to_owned(),
            resolve: resolve.clone(),
        });
        let settings = controller::Settings {
            client,
            operator: ServiceAccountRef {
                namespace: "default".to_owned(),
                name: "operator".to_owned(),
            },
            server_image: "registry.example/reports-server:test".to_owned(),
            postgres_image: "registry.example/postgres:17".to_owned(),
            publisher,
            metrics: metrics.clone(),
            supervisor,
            resolve,
        };
        let end = CancellationToken::new();
        let task = tokio::spawn(controller::run(settings, end.clone().cancelled_owned()));
        Ok(Self { metrics, end, task })
    }

    /// Returns the text that it would show at `/metrics`.
    ///
    /// # Errors
    /// If a value cannot be formatted.
    pub fn metrics(&self) -> Result<String, std::fmt::Error> {
        self.metrics.encode()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.end.cancel();
        self.task.abort();
    }
}
