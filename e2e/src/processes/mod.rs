//! Server and migration as processes on a control plane with two kube-apiservers, so that a death
//! costs seconds.

mod error;
mod faketime;
mod migration;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

pub use error::ProcessesError;
pub use migration::{Ended, LIMIT, Migration, PEAK_MEMORY};

use crate::takeover::{GROUPS, load};
use testcluster::network::NODE_IP;
use testcluster::{Backend, Cluster, ClusterOptions, Process, ProcessSpec, Signal};
use testreports::{Corpus, Input};

/// Name of the Service, and of its namespace; the incumbent has other ones.
pub const SERVICE: &str = "policy-reports";
const PORT: u16 = 8443;
/// The file with the time of the clock.
const CLOCK: &str = "clock";

/// Options of the processes.
#[derive(Clone, Copy, Debug)]
pub struct ProcessesOptions {
    /// The groups that are moved.
    pub groups: &'static [&'static str],
    /// True when the report CRDs are installed.
    pub crds: bool,
    /// Reports that are loaded; without CRDs there can be none.
    pub reports: usize,
    /// True when the control plane outlives this process.
    pub detached: bool,
}

impl Default for ProcessesOptions {
    /// Returns options with both groups and their CRDs, and no reports.
    fn default() -> Self {
        Self {
            groups: &GROUPS,
            crds: true,
            reports: 0,
            detached: false,
        }
    }
}

/// A control plane, as a rule with reports in etcd.
pub struct Processes {
    /// The control plane.
    pub cluster: Cluster,
    /// The groups that are moved.
    pub groups: &'static [&'static str],
    /// The source of the reports.
    pub corpus: Arc<Corpus>,
    files: tempfile::TempDir,
}

impl Processes {
    /// Starts the control plane, `detached` or not, installs the report CRDs, and loads reports.
    ///
    /// # Errors
    /// If one of these fails.
    pub async fn start(
        groups: &'static [&'static str],
        reports: usize,
        detached: bool,
    ) -> Result<Self, ProcessesError> {
        Self::with(ProcessesOptions {
            groups,
            reports,
            detached,
            ..ProcessesOptions::default()
        })
        .await
    }

    /// Starts them as [`Processes::start`] does, with further options.
    ///
    /// # Errors
    /// As [`Processes::start`].
    pub async fn with(options: ProcessesOptions) -> Result<Self, ProcessesError> {
        let cluster = Cluster::start(ClusterOptions {
            apiservers: 2,
            detached: options.detached,
            ..ClusterOptions::default()
        })
        .await?;
        let client = cluster.client().await?;
        let input = Input::detect();
        let corpus = Arc::new(input.corpus()?);
        if options.crds {
            load::install_crds(&client, input.crds(&GROUPS)?).await?;
        }
        let owners = load::namespaces(&client, "team", 3).await?;
        load::load(&client, &corpus, &owners, options.reports, &|_| {}).await?;
        let files = tempfile::tempdir().map_err(|source| ProcessesError::File {
            path: std::env::temp_dir(),
            source,
        })?;
        certificates(files.path())?;
        Ok(Self {
            cluster,
            groups: options.groups,
            corpus,
            files,
        })
    }

    /// Returns the path of a file of the server.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    /// Starts the server.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn serve(&self) -> Result<Process, ProcessesError> {
        self.serve_refusing("")
    }

    /// Starts the server, which refuses the writes of these users, separated by commas.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn serve_refusing(&self, users: &str) -> Result<Process, ProcessesError> {
        self.serve_with(users, &self.file("reports.db"))
    }

    /// Starts the server as [`Processes::serve_refusing`] does, with the database in the file
    /// `database`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn serve_with(&self, users: &str, database: &str) -> Result<Process, ProcessesError> {
        let groups = self.groups.join(",");
        let kubeconfig = self.cluster.kubeconfig().display().to_string();
        let spec = ProcessSpec::new("serve", program("serve")?).args([
            "--bind-address".to_owned(),
            format!("{NODE_IP}:{PORT}"),
            "--groups".to_owned(),
            groups,
            "--kubeconfig".to_owned(),
            kubeconfig,
            "--tls-cert-file".to_owned(),
            self.file("tls.crt"),
            "--tls-private-key-file".to_owned(),
            self.file("tls.key"),
            "--database".to_owned(),
            database.to_owned(),
            "--refused-writers".to_owned(),
            users.to_owned(),
        ]);
        Ok(self.cluster.run(self.with_clock(spec)?)?)
    }

    /// Sets the clock of servers and migrations this many seconds from the real time, within a
    /// second. Those that were started without a clock of their own keep the real one; with `None`,
    /// processes that are started from now on do, too.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn set_clock(&self, seconds: Option<i64>) -> Result<(), ProcessesError> {
        let path = PathBuf::from(self.file(CLOCK));
        let done = match seconds {
            Some(seconds) => std::fs::write(&path, format!("{seconds:+}")),
            None => std::fs::remove_file(&path),
        };
        done.map_err(|source| ProcessesError::File { path, source })
    }

    /// Returns whether processes that are started get a clock of their own.
    #[must_use]
    pub fn has_clock(&self) -> bool {
        Path::new(&self.file(CLOCK)).exists()
    }

    fn with_clock(&self, spec: ProcessSpec) -> Result<ProcessSpec, ProcessesError> {
        if !self.has_clock() {
            return Ok(spec);
        }
        let library = faketime::library().ok_or(ProcessesError::NoFaketime)?;
        Ok(spec
            .env("LD_PRELOAD", library.display().to_string())
            .env("FAKETIME_TIMESTAMP_FILE", self.file(CLOCK))
            .env("FAKETIME_CACHE_DURATION", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1"))
    }

    /// Creates the Service, and registers the control API; waits until that is Available.
    ///
    /// # Errors
    /// If the kube-apiserver refuses, or it does not become Available.
    pub async fn register(&self) -> Result<(), ProcessesError> {
        let namespace = ["create", "namespace", SERVICE];
        self.cluster.kubectl(namespace).await?;
        let backend = Backend {
            namespace: SERVICE.to_owned(),
            name: SERVICE.to_owned(),
            port: 443,
            targets: vec![(NODE_IP, PORT).into()],
        };
        self.cluster.expose(&backend).await?;
        let path = PathBuf::from(self.file("ca.crt"));
        let bundle =
            std::fs::read(&path).map_err(|source| ProcessesError::File { path, source })?;
        let control = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1alpha1.control.reports-server.io"},
            "spec": {"group": "control.reports-server.io", "version": "v1alpha1",
                "groupPriorityMinimum": 1000, "versionPriority": 100,
                "service": {"namespace": SERVICE, "name": SERVICE, "port": 443},
                "caBundle": k8s_openapi::ByteString(bundle)}});
        let apply = ["apply", "-f", "-"];
        self.cluster
            .kubectl_with_input(apply, &control.to_string())
            .await?;
        let name = "apiservice/v1alpha1.control.reports-server.io";
        let wait = ["wait", "--for=condition=Available", "--timeout=60s", name];
        self.cluster.kubectl(wait).await?;
        Ok(())
    }

    /// Starts a migration of all groups, with more flags, and a fault point where one is given.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn migrate(
        &self,
        name: &str,
        fault: Option<&str>,
        more: &[&str],
    ) -> Result<Migration, ProcessesError> {
        let mut args = ["--namespace", SERVICE, "--service", SERVICE, "--ca"]
            .map(str::to_owned)
            .to_vec();
        args.push(self.file("ca.crt"));
        args.extend(
            self.groups
                .iter()
                .flat_map(|g| ["--group".to_owned(), (*g).to_owned()]),
        );
        args.extend(more.iter().map(|a| (*a).to_owned()));
        let mut spec = ProcessSpec::new(name, program("migrate")?).args(args);
        if let Some(fault) = fault {
            spec = spec.env("REPORTS_SERVER_OPERATOR_FAULT", fault);
        }
        Ok(Migration {
            name: name.to_owned(),
            process: Arc::new(self.cluster.run(self.with_clock(spec)?)?),
        })
    }
}

/// Ends the server in order, so that its database is one file.
///
/// # Errors
/// If the cluster has ended.
pub async fn stop(server: Process) -> Result<(), ProcessesError> {
    server.signal(Signal::Term)?;
    server.wait().await?;
    Ok(())
}

/// Returns a program of this workspace, which cargo builds beside this one, or beside the folder of
/// the tests.
fn program(name: &'static str) -> Result<PathBuf, ProcessesError> {
    let own = std::env::current_exe().unwrap_or_default();
    let mut folders = own.ancestors().skip(1).take(2);
    let found = folders.find_map(|folder| {
        let path = folder.join(name);
        path.is_file().then_some(path)
    });
    found.ok_or(ProcessesError::Program(name))
}

/// Makes a CA and a leaf for the Service.
fn certificates(folder: &Path) -> Result<(), ProcessesError> {
    let ca_key = rcgen::KeyPair::generate()?;
    let mut ca = rcgen::CertificateParams::new(Vec::new())?;
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate()?;
    let names = vec![format!("{SERVICE}.{SERVICE}.svc")];
    let leaf = rcgen::CertificateParams::new(names)?;
    let issuer = rcgen::Issuer::from_params(&ca, &ca_key);
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|source| ProcessesError::File { path, source })
    };
    write("tls.crt", leaf.signed_by(&key, &issuer)?.pem())?;
    write("tls.key", key.serialize_pem())?;
    write("ca.crt", ca.self_signed(&ca_key)?.pem())
}
