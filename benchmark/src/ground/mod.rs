//! The measured systems: a control plane with fsync, and beside the CRD our servers and the null
//! backend, each under an API group of its own, all alive at once.

mod api;
mod pki;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use pgtest::{Postgres, PostgresOptions};
use serde_json::json;
use tempfile::TempDir;

use self::pki::{certificates, credentials};
use super::client::{Endpoint, Request};
use super::names::{NAMESPACES, namespace};
use super::null;
use super::target::{Kind, Target, Way};
use super::usage::{self, Watched};
use testcluster::{Backend, Cluster, ClusterOptions, Component, Process, ProcessSpec, network};
use testreports::Input;

/// Namespace of the reports that are created and deleted in each round.
pub const CREATED: &str = "bench-created";
/// Longest wait for anything that must come.
pub const PATIENCE: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_millis(20);

/// Options of the ground.
#[derive(Clone, Debug)]
pub struct GroundOptions {
    /// The `reports-server` to measure.
    pub server: PathBuf,
    /// This program, which is the null backend as well.
    pub own: PathBuf,
    /// Engines that take part.
    pub engines: Vec<Kind>,
    /// The source of the CRDs.
    pub input: Input,
    /// True when the engines are measured without peers and straight: the kube-apiserver does not
    /// know of them.
    pub alone: bool,
    /// Longest wait for a server to get ready.
    pub patience: Duration,
}

/// All systems that are measured.
pub struct Ground {
    options: GroundOptions,
    cluster: Arc<Cluster>,
    outside: tokio::runtime::Handle,
    files: TempDir,
    ca: String,
    kube: Endpoint,
    postgres: Option<Postgres>,
    running: Vec<Running>,
}

struct Running {
    kind: Kind,
    process: Process,
    pid: u32,
}

impl Ground {
    /// Starts the control plane, outside of its network; [`Ground::prepare`] does the rest, inside.
    ///
    /// # Errors
    /// If a part does not start.
    pub async fn start(options: GroundOptions) -> anyhow::Result<Self> {
        let cluster = Cluster::start(ClusterOptions {
            fsync: true,
            ..ClusterOptions::default()
        })
        .await?;
        for kind in Kind::SERVED {
            let backend = Backend {
                namespace: "default".to_owned(),
                name: kind.name().to_owned(),
                port: 443,
                targets: vec![address(kind)],
            };
            cluster.expose(&backend).await?;
        }
        let files = tempfile::tempdir()?;
        let ca = certificates(files.path())?;
        let pki = cluster.directory().join("pki");
        let admin = credentials(&pki.join("ca.crt"), &pki.join("admin"))?;
        let kube = Endpoint::new(network::apiserver(0), "10.200.0.10", &admin, &[])?;
        Ok(Self {
            options,
            cluster: Arc::new(cluster),
            outside: tokio::runtime::Handle::current(),
            files,
            ca,
            kube,
            postgres: None,
            running: Vec::new(),
        })
    }

    /// Returns the process in whose network everything is.
    #[must_use]
    pub fn founder(&self) -> u32 {
        self.cluster.founder_pid()
    }

    /// Returns PostgreSQL, once it runs.
    #[must_use]
    pub fn postgres(&self) -> Option<&Postgres> {
        self.postgres.as_ref()
    }

    /// Returns a folder for the run's files.
    #[must_use]
    pub fn files(&self) -> &Path {
        self.files.path()
    }

    /// Returns the engines that take part.
    #[must_use]
    pub fn engines(&self) -> Vec<Kind> {
        self.options.engines.clone()
    }

    /// Makes namespaces and CRDs, starts the servers and has them serve.
    ///
    /// # Errors
    /// If a part does not get ready.
    pub async fn prepare(&mut self) -> anyhow::Result<()> {
        let namespaces = (0..NAMESPACES).map(namespace).chain([CREATED.to_owned()]);
        for name in namespaces {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            self.post("/api/v1/namespaces", &body).await?;
        }
        let engines = self.engines();
        for kind in engines.iter().copied() {
            self.install(kind).await?;
        }
        if engines.contains(&Kind::Postgres) {
            self.postgres = Some(Postgres::start(PostgresOptions::default()).await?);
        }
        for kind in engines.iter().copied() {
            self.start_server(kind).await?;
            self.open(kind).await?;
        }
        if self.options.alone {
            return Ok(());
        }
        self.beside(&engines).await
    }

    /// Has the kube-apiserver know of the engines, and makes their peers ready.
    async fn beside(&mut self, engines: &[Kind]) -> anyhow::Result<()> {
        self.install(Kind::Crd).await?;
        for kind in engines.iter().copied() {
            self.register(kind).await?;
        }
        if engines.contains(&Kind::Postgres) {
            self.start_server(Kind::Second).await?;
        }
        Ok(())
    }

    /// Starts the null backend with bodies of these bytes (see [`null::FILES`]).
    ///
    /// # Errors
    /// If it does not get ready.
    pub async fn start_null(&mut self, bodies: [&[u8]; null::FILES.len()]) -> anyhow::Result<()> {
        let folder = self.files.path().join("null");
        std::fs::create_dir_all(&folder)?;
        for (name, body) in null::FILES.into_iter().zip(bodies) {
            std::fs::write(folder.join(name), body)?;
        }
        let spec = ProcessSpec::new(Kind::Null.name(), &self.options.own).args([
            "null-backend".to_owned(),
            address(Kind::Null).to_string(),
            self.file("tls.crt"),
            self.file("tls.key"),
            folder.display().to_string(),
        ]);
        self.run(Kind::Null, spec)?;
        self.register(Kind::Null).await
    }

    /// Starts the server of an engine and waits until it is ready; returns the time that took.
    ///
    /// # Errors
    /// If it does not get ready; its log says why.
    pub async fn start_server(&mut self, kind: Kind) -> anyhow::Result<Duration> {
        let mut args = vec![
            format!("--bind-address={}", address(kind)),
            format!("--tls-cert-file={}", self.file("tls.crt")),
            format!("--tls-private-key-file={}", self.file("tls.key")),
            format!("--groups={}", groups(kind)),
            format!("--kubeconfig={}", self.cluster.kubeconfig().display()),
            "--shutdown-delay=0s".to_owned(),
        ];
        args.extend(self.database_args(kind)?);
        let spec = ProcessSpec::new(kind.name(), &self.options.server).args(args);
        let begun = Instant::now();
        self.run(kind, spec)?;
        let target = self.target(kind, Way::Direct)?;
        let deadline = begun + self.options.patience;
        while !ready(&target).await {
            ensure!(
                Instant::now() < deadline && self.runs(kind)?,
                "{} is not ready; its log: {}",
                kind.name(),
                self.log(kind)
            );
            tokio::time::sleep(PAUSE).await;
        }
        Ok(begun.elapsed())
    }

    fn database_args(&self, kind: Kind) -> anyhow::Result<Vec<String>> {
        if kind == Kind::Sqlite {
            return Ok(vec![format!("--database={}", self.file("reports.db"))]);
        }
        let postgres = self.postgres.as_ref().context("PostgreSQL does not run")?;
        Ok(vec![
            format!("--database-dir={}", postgres.params_dir()?.display()),
            "--cluster-identity=bench".to_owned(),
        ])
    }

    /// Kills the server of an engine.
    ///
    /// # Errors
    /// If it does not run.
    pub async fn kill_server(&mut self, kind: Kind) -> anyhow::Result<()> {
        let index = self
            .running
            .iter()
            .position(|running| running.kind == kind)
            .with_context(|| format!("{} does not run", kind.name()))?;
        let running = self.running.swap_remove(index);
        running.process.kill().await?;
        Ok(())
    }

    fn run(&mut self, kind: Kind, spec: ProcessSpec) -> anyhow::Result<()> {
        let process = self.cluster.run(spec)?;
        let inner = process.info()?.pid;
        let pid = usage::outer_pid(self.cluster.founder_pid(), inner)?;
        self.running.push(Running { kind, process, pid });
        Ok(())
    }

    /// Returns whether a server that was started has not ended.
    fn runs(&self, kind: Kind) -> anyhow::Result<bool> {
        let running = self.running.iter().find(|running| running.kind == kind);
        let running = running.with_context(|| format!("{} does not run", kind.name()))?;
        Ok(running.process.info()?.ended.is_none())
    }

    fn log(&self, kind: Kind) -> String {
        let path = self.cluster.logs().join(format!("{}.log", kind.name()));
        std::fs::read_to_string(path).unwrap_or_default()
    }

    fn file(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    /// Returns the endpoint of a system, and the processes that work for it.
    ///
    /// # Errors
    /// If one of them does not run.
    pub fn target(&self, kind: Kind, way: Way) -> anyhow::Result<Target> {
        let endpoint = match way {
            Way::Aggregated => self.kube.clone(),
            Way::Direct => self.direct(kind)?,
        };
        let mut processes = Vec::new();
        if way == Way::Aggregated {
            processes.push(self.component("kube-apiserver", Component::ApiServer(0))?);
            let manager = Component::ControllerManager;
            processes.push(self.component("kube-controller-manager", manager)?);
        }
        match kind {
            Kind::Crd => processes.push(self.component("etcd", Component::Etcd)?),
            kind => processes.push(self.server(kind)?),
        }
        if kind.on_postgres() {
            processes.push(self.database()?);
        }
        Ok(Target::new(kind, way, endpoint, processes))
    }

    /// Returns the process of a server of ours, or of the null backend.
    ///
    /// # Errors
    /// If it does not run.
    pub fn server(&self, kind: Kind) -> anyhow::Result<Watched> {
        let running = self.running.iter().find(|running| running.kind == kind);
        let running = running.with_context(|| format!("{} does not run", kind.name()))?;
        let name = if kind == Kind::Null {
            "null-backend"
        } else {
            "reports-server"
        };
        Ok(Watched {
            name: name.to_owned(),
            pid: running.pid,
        })
    }

    /// Returns a component of the control plane.
    ///
    /// # Errors
    /// If it does not run.
    pub fn component(&self, name: &str, component: Component) -> anyhow::Result<Watched> {
        let inner = self.cluster.info(component)?.pid;
        Ok(Watched {
            name: name.to_owned(),
            pid: usage::outer_pid(self.cluster.founder_pid(), inner)?,
        })
    }

    fn database(&self) -> anyhow::Result<Watched> {
        postmaster(self.postgres.as_ref().context("PostgreSQL does not run")?)
    }

    /// Returns an endpoint straight at a server, in the role of the kube-apiserver.
    fn direct(&self, kind: Kind) -> anyhow::Result<Endpoint> {
        let pki = self.cluster.directory().join("pki");
        let mut proxy = credentials(&pki.join("ca.crt"), &pki.join("front-proxy-client"))?;
        proxy.ca.clone_from(&self.ca);
        let headers = [
            ("x-remote-user", "kubernetes-admin"),
            ("x-remote-group", "system:masters"),
        ];
        Endpoint::new(address(kind), SERVER_NAME, &proxy, &headers)
    }

    /// Returns the bytes that hold data in etcd, without history when it is compacted first.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub async fn etcd_bytes(&self, compact: bool) -> anyhow::Result<u64> {
        let cluster = Arc::clone(&self.cluster);
        // The way to etcd is a loopback port of this process, outside of the network.
        let task = self.outside.spawn(async move {
            if compact {
                cluster.etcd_compact().await?;
            }
            anyhow::Ok(cluster.etcd_status().await?.used_bytes)
        });
        task.await?
    }
}

/// Returns PostgreSQL's first process.
///
/// # Errors
/// If it does not run.
pub fn postmaster(postgres: &Postgres) -> anyhow::Result<Watched> {
    let path = postgres.data().join("postmaster.pid");
    let text = std::fs::read_to_string(&path)?;
    let pid = text
        .lines()
        .next()
        .and_then(|line| line.trim().parse().ok());
    Ok(Watched {
        name: "postgres".to_owned(),
        pid: pid.with_context(|| format!("{} names no process", path.display()))?,
    })
}

async fn ready(target: &Target) -> bool {
    match target.endpoint.once(&Request::get("/readyz")).await {
        Ok(reply) => reply.status == 200,
        Err(_) => false,
    }
}

/// Returns the groups that a server serves, separated by commas.
fn groups(kind: Kind) -> String {
    let groups = kind.served().into_iter().map(|served| served.group);
    groups.collect::<Vec<_>>().join(",")
}

/// Returns the address where a server listens.
fn address(kind: Kind) -> SocketAddr {
    (network::NODE_IP, kind.port()).into()
}

/// A further name of all servers.
const SERVER_NAME: &str = "bench.default.svc";
