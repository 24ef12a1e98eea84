//! One of several servers, as far as its store: in a runtime of its own, behind a proxy of its own.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use crds::control::{GateSpec, GateState};
use pgtest::{Params, Postgres, Proxy};
use storage::cache::{Resource, RingLimits};
use storage::model::ObjectKey;
use storage::store::{
    Database, OpenError, PostgresOptions, Store, StoreError, StoreOptions, Write, WriteError,
};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use super::{definition, report, reports, show_logs};

/// So small that watchers read from the database's log as well.
const RING: RingLimits = RingLimits {
    events: 2000,
    bytes: 8 << 20,
};

/// The way of one server to the database. It stays while the servers on it come and go.
pub struct Place {
    pub proxy: Proxy,
    directory: TempDir,
    history: Duration,
}

impl Place {
    /// With a proxy in front of `server`.
    pub fn at(server: &Postgres) -> Self {
        Self::behind(&server.params())
    }

    /// With a proxy in front of what `params` lead to.
    pub fn behind(params: &Params) -> Self {
        let port = params.get("port").unwrap().parse().unwrap();
        let new = Self {
            proxy: Proxy::start(port).unwrap(),
            directory: TempDir::new().unwrap(),
            history: Duration::from_hours(24),
        };
        new.write(params);
        new
    }

    /// Gives the servers in this place other parameters.
    pub fn write(&self, params: &Params) {
        let params = params.clone().at_port(self.proxy.port());
        params.write(self.directory.path()).unwrap();
    }

    /// Takes a parameter away from the servers in this place, until they are given others.
    pub fn lose(&self, key: &str) {
        std::fs::remove_file(self.directory.path().join(key)).unwrap();
    }

    /// With so much history.
    pub fn keeping(mut self, history: Duration) -> Self {
        self.history = history;
        self
    }

    pub fn options(&self) -> StoreOptions {
        let postgres = PostgresOptions::new(self.directory.path(), "a-cluster");
        StoreOptions {
            ring: RING,
            history: self.history,
            history_bytes: 1 << 40,
            ..StoreOptions::on(Database::Postgres(postgres))
        }
    }

    /// Starts a server here.
    pub async fn start(&self) -> Result<Replica, OpenError> {
        show_logs();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let options = self.options();
        let started = runtime.spawn(Store::open(options)).await.unwrap();
        let store = match started {
            Ok(store) => store,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let resource = store.resource(&reports());
        Ok(Replica {
            runtime: Some(runtime),
            store,
            resource,
            killed: CancellationToken::new(),
        })
    }

    /// Starts a server here and has it serve.
    pub async fn serve(&self) -> Result<Replica, Box<dyn Error>> {
        let mut replica = self.start().await?;
        replica.open_gate().await?;
        Ok(replica)
    }
}

/// A server. Dropped it is killed, as by `kill -9`: nothing that runs in it goes on, and its
/// connections are closed.
pub struct Replica {
    runtime: Option<Runtime>,
    pub store: Store,
    resource: Option<Arc<Resource>>,
    /// Ends when the server is killed: clients lose their connections.
    pub killed: CancellationToken,
}

impl Replica {
    /// Stores reports, and takes writes of them.
    pub async fn open_gate(&mut self) -> Result<(), StoreError> {
        let store = self.store.clone();
        let opened = self.run(async move {
            let resource = store.ensure_resource(definition()).await?;
            let gate = GateSpec {
                state: GateState::Open,
                settled: None,
                ..GateSpec::default()
            };
            if resource.record().gate.state != GateState::Open {
                store.set_gate(&reports(), gate, Some("tests")).await?;
            }
            Ok(resource)
        });
        self.resource = Some(opened.await?);
        Ok(())
    }

    pub fn resource(&self) -> Arc<Resource> {
        Arc::clone(self.resource.as_ref().unwrap())
    }

    /// Returns the runtime on which the work of its requests runs.
    pub fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().unwrap()
    }

    /// Runs a request of it.
    pub async fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = T> + Send + 'static,
    ) -> T {
        self.runtime().spawn(request).await.unwrap()
    }

    /// Creates a report; gives its version.
    pub async fn create(&self, name: &str) -> Result<u64, WriteError> {
        let store = self.store.clone();
        let write = Write::Create {
            key: ObjectKey::new("ns", name),
            object: report(name, &format!("u-{name}"), 0),
        };
        let written = self.run(async move { store.write(&reports(), &write).await });
        Ok(written.await?.rv())
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.killed.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
