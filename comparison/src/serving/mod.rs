//! Report APIs on a control plane: first served from their CRDs, then by `reports-server` processes
//! behind the aggregator.

mod certificates;
mod database;
mod error;
mod install;
pub mod request;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use pgtest::Postgres;
use tempfile::TempDir;

pub use error::ServingError;

use self::database::Database;
use self::request::{Answer, Outgoing};
use testcluster::{Cluster, ClusterOptions, Process, ProcessSpec, network};

/// Namespace of the Service in front of the servers.
const NAMESPACE: &str = "default";
/// Name of the Service and of the processes.
const SERVICE: &str = "reports-server";
/// Port of every server; they differ by address.
pub const PORT: u16 = 8443;
/// Longest wait for anything that must come.
const PATIENCE: Duration = Duration::from_mins(1);
/// Most servers: the node's address and those that further kube-apiservers would have.
const MAX_SERVERS: usize = network::MAX_APISERVERS;

/// The storage of the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// A file; for one server.
    #[default]
    Sqlite,
    /// A PostgreSQL of their own.
    Postgres,
}

/// Options of report APIs and of their servers.
#[derive(Clone, Debug)]
pub struct ServingOptions {
    /// The control plane; with fewer kube-apiservers than five minus the servers.
    pub cluster: ClusterOptions,
    /// CRDs that are installed first, and whose groups the servers take over.
    pub crds: Vec<CustomResourceDefinition>,
    /// The storage of the reports.
    pub storage: Storage,
    /// Number of servers, 1 to 4; more than one need PostgreSQL.
    pub servers: usize,
    /// More flags of every server.
    pub args: Vec<String>,
    /// Environment of every server.
    pub env: Vec<(String, String)>,
}

impl ServingOptions {
    /// Returns options with these CRDs, and one server on SQLite.
    #[must_use]
    pub fn new(crds: Vec<CustomResourceDefinition>) -> Self {
        Self {
            cluster: ClusterOptions::default(),
            crds,
            storage: Storage::default(),
            servers: 1,
            args: Vec::new(),
            env: Vec::new(),
        }
    }
}

/// A control plane with report APIs.
pub struct Serving {
    /// The options; flags may be changed before a start of a server.
    pub options: ServingOptions,
    /// The control plane.
    pub cluster: Cluster,
    /// The administrator's client.
    pub client: Client,
    files: TempDir,
    database: Option<Database>,
    servers: Vec<Process>,
}

impl Serving {
    /// Starts a control plane whose kube-apiserver serves the reports from the CRDs.
    ///
    /// # Errors
    /// If a part does not get ready.
    pub async fn start(options: ServingOptions) -> Result<Self, ServingError> {
        let cluster = Cluster::start(options.cluster.clone()).await?;
        let client = cluster.client().await?;
        let files = tempfile::tempdir().map_err(|source| ServingError::File {
            path: std::env::temp_dir(),
            source,
        })?;
        let serving = Self {
            options,
            cluster,
            client,
            files,
            database: None,
            servers: Vec::new(),
        };
        for crd in &serving.options.crds {
            serving.install(crd).await?;
        }
        Ok(serving)
    }

    /// Starts the servers and has them serve the reports in place of the CRDs.
    ///
    /// # Errors
    /// If a part does not get ready.
    pub async fn switch(&mut self) -> Result<(), ServingError> {
        let ca = certificates::write(self.files.path(), &format!("{SERVICE}.{NAMESPACE}.svc"))?;
        if self.options.storage == Storage::Postgres {
            self.database = Some(Database::start(&self.cluster, self.files.path()).await?);
        }
        self.run_servers()?;
        self.take_over(&ca).await
    }

    /// Starts the servers, or starts them again after they were killed.
    ///
    /// # Errors
    /// If a process cannot be started.
    pub fn run_servers(&mut self) -> Result<(), ServingError> {
        // A process is ended by its name when its value is dropped: first the old ones.
        self.servers.clear();
        for index in 0..self.options.servers.clamp(1, MAX_SERVERS - 1) {
            let spec = self.server_spec(index)?;
            self.servers.push(self.cluster.run(spec)?);
        }
        Ok(())
    }

    /// Kills the server with this index (`SIGKILL`) and starts it again.
    ///
    /// # Errors
    /// If a process cannot be started.
    pub async fn replace_server(&mut self, index: usize) -> Result<(), ServingError> {
        let old = self.servers.remove(index);
        old.kill().await?;
        // When its value is dropped, a process is ended by its name, which the new one has, too.
        drop(old);
        let new = self.cluster.run(self.server_spec(index)?)?;
        self.servers.insert(index, new);
        Ok(())
    }

    fn server_spec(&self, index: usize) -> Result<ProcessSpec, ServingError> {
        let mut args = vec![
            format!("--bind-address={}", address(index)),
            format!("--tls-cert-file={}", self.file("tls.crt")),
            format!("--tls-private-key-file={}", self.file("tls.key")),
            format!("--groups={}", self.groups().join(",")),
            format!("--kubeconfig={}", self.cluster.kubeconfig().display()),
            "--shutdown-delay=0s".to_owned(),
        ];
        match &self.database {
            None => args.push(format!("--database={}", self.file("reports.db"))),
            Some(database) => {
                args.push(format!("--database-dir={}", database.params().display()));
                args.push("--cluster-identity=serving".to_owned());
            }
        }
        args.extend(self.options.args.iter().cloned());
        let mut spec = ProcessSpec::new(format!("{SERVICE}-{index}"), program()?).args(args);
        spec.env.extend(self.options.env.iter().cloned());
        Ok(spec)
    }

    fn file(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    /// Returns the servers' processes.
    #[must_use]
    pub fn servers(&self) -> &[Process] {
        &self.servers
    }

    /// Returns the PostgreSQL of the servers, where they have one.
    #[must_use]
    pub fn postgres(&self) -> Option<&Postgres> {
        self.database.as_ref().map(Database::postgres)
    }

    /// Returns the groups of the CRDs, each once.
    #[must_use]
    pub fn groups(&self) -> Vec<String> {
        let mut groups: Vec<_> = self
            .options
            .crds
            .iter()
            .map(|c| c.spec.group.clone())
            .collect();
        groups.sort();
        groups.dedup();
        groups
    }

    /// Sends a request through the kube-apiserver.
    ///
    /// # Errors
    /// See [`request::send`].
    pub async fn send(&self, request: &Outgoing) -> Result<Answer, ServingError> {
        request::send(&self.client, request).await
    }

    /// Waits until `condition` holds.
    ///
    /// # Errors
    /// If it does not within a minute.
    pub async fn until(
        &self,
        what: &str,
        condition: impl AsyncFn() -> bool,
    ) -> Result<(), ServingError> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !condition().await {
            if tokio::time::Instant::now() > deadline {
                return Err(ServingError::NotYet {
                    what: what.to_owned(),
                    patience: PATIENCE,
                    last: format!("the logs are in {}", self.cluster.logs().display()),
                });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}

/// Returns the address where the server with this index listens.
fn address(index: usize) -> SocketAddr {
    let ip: Ipv4Addr = match index {
        0 => network::NODE_IP,
        index => network::apiserver_ip(MAX_SERVERS - index),
    };
    (ip, PORT).into()
}

/// Returns the server's binary, which cargo builds beside this program, or beside the folder of the
/// tests.
fn program() -> Result<PathBuf, ServingError> {
    let own = std::env::current_exe().unwrap_or_default();
    let mut folders = own.ancestors().skip(1).take(2);
    let found = folders
        .by_ref()
        .map(|folder| folder.join("reports-server"))
        .find(|path| path.is_file());
    found.ok_or_else(|| {
        let beside = own.parent().unwrap_or(Path::new("."));
        ServingError::Program(beside.join("reports-server"))
    })
}
