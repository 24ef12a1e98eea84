//! The incumbent as a process on a control plane, with a PostgreSQL of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use pgtest::{DATABASE, Postgres, PostgresOptions, USER};
use serde_json::Value;

use super::objects::list;
use super::{IncumbentError, Manifests, NAME};
use testcluster::network::NODE_IP;
use testcluster::{Backend, Cluster, Process, ProcessSpec, Signal};
use testreports::kinds;

const PORT: u16 = 4443;
/// Interval of looks whether the APIServices are still its own.
const RECONCILE: &str = "--apiservicereconcileinterval=1s";
/// Most connections of its database. It never closes some of its connections, and opens one for
/// each request.
const CONNECTIONS: u32 = 400;
const LIMIT: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_millis(50);
/// The version of every list of the incumbent.
const LIST_VERSION: &str = "1";
/// Number of lines of its log that an error shows.
const TAIL: usize = 20;
/// The beginnings of the line with which a program of Go ends itself.
const FATAL: [&str; 2] = ["panic: ", "fatal error: "];
const TABLES: [&str; 4] = [
    "policyreports",
    "clusterpolicyreports",
    "ephemeralreports",
    "clusterephemeralreports",
];
/// The objects that it consists of beside its process, as `kubectl get` takes them.
const OBJECTS: [&str; 8] = [
    "namespace/reports-server",
    "serviceaccount/reports-server",
    "service/reports-server",
    "service/reports-server-headless",
    "role/reports-server",
    "rolebinding/reports-server",
    "clusterrole/reports-server",
    "clusterrolebinding/reports-server",
];

/// A running incumbent. It ends when dropped.
pub struct Incumbent {
    process: Option<Process>,
    starts: u32,
    spec: ProcessSpec,
    postgres: Postgres,
    _files: tempfile::TempDir,
}

impl Incumbent {
    /// Installs it from the folder that [`super::parts`] returns, starts it, and waits until every
    /// kube-apiserver answers from it.
    ///
    /// # Errors
    /// If one of these fails.
    pub async fn start(cluster: &Cluster, parts: &Path) -> Result<Self, IncumbentError> {
        install(cluster, parts).await?;
        let options = PostgresOptions::quick().with("max_connections", CONNECTIONS);
        let postgres = Postgres::start(options)
            .await
            .map_err(IncumbentError::postgres)?;
        let files = tempfile::tempdir().map_err(file(&std::env::temp_dir()))?;
        let kubeconfig = kubeconfig(cluster, files.path()).await?;
        let spec = spec(parts, files.path(), &kubeconfig, &postgres);
        let mut incumbent = Self {
            process: None,
            starts: 0,
            spec,
            postgres,
            _files: files,
        };
        incumbent.again(cluster)?;
        incumbent.available(cluster).await?;
        Ok(incumbent)
    }

    /// Starts it after its end.
    ///
    /// # Errors
    /// If it runs, or cannot be started.
    pub fn again(&mut self, cluster: &Cluster) -> Result<(), IncumbentError> {
        // Each start has a log of its own.
        self.starts += 1;
        let name = format!("incumbent-{}", self.starts);
        let spec = ProcessSpec {
            name,
            ..self.spec.clone()
        };
        self.process = Some(cluster.run(spec)?);
        Ok(())
    }

    /// Ends it in order (`SIGTERM`): it returns the APIServices then, if it may.
    ///
    /// # Errors
    /// If the cluster has ended.
    pub async fn end(&mut self) -> Result<(), IncumbentError> {
        self.stop(Signal::Term).await
    }

    /// Kills it.
    ///
    /// # Errors
    /// If the cluster has ended.
    pub async fn kill(&mut self) -> Result<(), IncumbentError> {
        self.stop(Signal::Kill).await
    }

    async fn stop(&mut self, signal: Signal) -> Result<(), IncumbentError> {
        if let Some(process) = self.process.take() {
            process.signal(signal)?;
            process.wait().await?;
        }
        Ok(())
    }

    /// Returns how its process ended, with what it said at its end; `None` while it runs.
    ///
    /// # Errors
    /// If the cluster has ended.
    pub fn ending(&self) -> Result<Option<String>, IncumbentError> {
        let Some(process) = &self.process else {
            return Ok(Some("it was stopped".to_owned()));
        };
        let ended = process.info()?.ended;
        Ok(ended.map(|how| format!("{how}\n{}", self.last_words())))
    }

    fn log(&self) -> String {
        let path = self.process.as_ref().map(Process::log);
        path.and_then(|path| std::fs::read_to_string(path).ok())
            .unwrap_or_default()
    }

    /// The end of its log: where Go ends it, all from the line that says why.
    fn last_words(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let fatal = |line: &&str| FATAL.iter().any(|start| line.starts_with(start));
        let last = lines.len().saturating_sub(TAIL);
        let from = lines.iter().position(fatal).unwrap_or(last);
        lines[from..].join("\n")
    }

    /// Waits as [`serving`] does.
    ///
    /// # Errors
    /// If that takes too long; its log says why.
    pub async fn available(&self, cluster: &Cluster) -> Result<(), IncumbentError> {
        self.within("an answer from it", serves(cluster)).await?
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// If it does not, or the cluster has ended.
    pub async fn ended(&self) -> Result<(), IncumbentError> {
        let Some(process) = &self.process else {
            return Ok(());
        };
        self.within("its end", process.wait()).await??;
        Ok(())
    }

    /// Waits until its log has this text.
    ///
    /// # Errors
    /// If that takes too long.
    pub async fn says(&self, text: &str) -> Result<(), IncumbentError> {
        let said = async {
            while !self.log().contains(text) {
                tokio::time::sleep(PAUSE).await;
            }
        };
        self.within(text, said).await
    }

    async fn within<T>(
        &self,
        what: &str,
        reached: impl Future<Output = T>,
    ) -> Result<T, IncumbentError> {
        let reached = tokio::time::timeout(LIMIT, reached).await;
        reached.map_err(|_| IncumbentError::NotReached {
            what: what.to_owned(),
            limit: LIMIT,
            log: self.last_words(),
        })
    }

    /// Returns number and checksum of the rows of each of its tables.
    ///
    /// # Errors
    /// If its database does not answer.
    pub async fn rows(&self) -> Result<BTreeMap<&'static str, (i64, String)>, IncumbentError> {
        let client = self
            .postgres
            .superuser()
            .await
            .map_err(IncumbentError::postgres)?;
        let mut rows = BTreeMap::new();
        for table in TABLES {
            let query = format!(
                "SELECT count(*), \
                 coalesce(md5(string_agg(report::text, ',' ORDER BY report::text)), '') FROM {table}"
            );
            let row = client
                .query_one(&query, &[])
                .await
                .map_err(IncumbentError::postgres)?;
            rows.insert(table, (row.get(0), row.get(1)));
        }
        Ok(rows)
    }

    /// Returns the connection to its database: the keys of a connection Secret.
    #[must_use]
    pub fn connection(&self) -> BTreeMap<&'static str, String> {
        let socket = self.postgres.socket_directory().display().to_string();
        BTreeMap::from([
            ("host", socket),
            ("port", self.postgres.port().to_string()),
            ("dbname", DATABASE.to_owned()),
            ("username", USER.to_owned()),
            ("password", self.postgres.password().clone()),
            ("sslmode", "disable".to_owned()),
        ])
    }

    /// Has its database carry statements out.
    ///
    /// # Errors
    /// If it refuses one.
    pub async fn execute(&self, statements: &str) -> Result<(), IncumbentError> {
        let client = self.postgres.superuser().await;
        let client = client.map_err(IncumbentError::postgres)?;
        let done = client.batch_execute(statements).await;
        done.map_err(IncumbentError::postgres)
    }

    /// Returns the objects that it consists of beside its process: the resourceVersion of each.
    ///
    /// # Errors
    /// If one of them is gone.
    pub async fn objects(
        &self,
        cluster: &Cluster,
    ) -> Result<BTreeMap<&'static str, String>, IncumbentError> {
        let mut versions = BTreeMap::new();
        for object in OBJECTS {
            let output = "jsonpath={.metadata.uid} {.metadata.resourceVersion}";
            let get = ["-n", NAME, "get", object, "-o", output];
            versions.insert(object, cluster.kubectl(get).await?);
        }
        Ok(versions)
    }
}

/// Waits until the APIServices lead to the incumbent and every kube-apiserver answers from it.
///
/// # Errors
/// If that takes too long.
pub async fn serving(cluster: &Cluster) -> Result<(), IncumbentError> {
    let served = tokio::time::timeout(LIMIT, serves(cluster)).await;
    served.unwrap_or_else(|_| {
        Err(IncumbentError::NotReached {
            what: "an answer from it".to_owned(),
            limit: LIMIT,
            log: String::new(),
        })
    })
}

async fn serves(cluster: &Cluster) -> Result<(), IncumbentError> {
    let services: Api<APIService> = Api::all(cluster.client().await?);
    for name in api_services() {
        let leads = await_condition(services.clone(), &name, |service: Option<&APIService>| {
            service.is_some_and(|service| leads_to(service, NAME) && is_available(service))
        });
        leads.await.map_err(|source| IncumbentError::Wait {
            name: name.clone(),
            source,
        })?;
    }
    for index in 0..cluster.apiservers() {
        answers(&cluster.client_of(index).await?).await;
    }
    Ok(())
}

/// Returns the names of the APIServices of [`GROUPS`](crate::takeover::GROUPS).
#[must_use]
pub fn api_services() -> BTreeSet<String> {
    kinds()
        .map(|kind| format!("{}.{}", kind.version(), kind.group()))
        .collect()
}

/// Returns whether requests go to the Service of this name.
#[must_use]
pub fn leads_to(service: &APIService, name: &str) -> bool {
    let service = service.spec.as_ref().and_then(|spec| spec.service.as_ref());
    service.is_some_and(|service| service.name.as_deref() == Some(name))
}

/// Returns whether an APIService is available. One that leads to a CRD is available, too, for
/// another reason.
fn is_available(service: &APIService) -> bool {
    let conditions = service.status.iter().flat_map(|status| &status.conditions);
    conditions.flatten().any(|condition| {
        condition.type_ == "Available" && condition.reason.as_deref() == Some("Passed")
    })
}

/// Waits until a kube-apiserver answers from it for every kind.
async fn answers(client: &Client) {
    for kind in kinds() {
        let of_incumbent = |list: &Value| list["metadata"]["resourceVersion"] == LIST_VERSION;
        while !list(client, kind, "").await.is_ok_and(|l| of_incumbent(&l)) {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn install(cluster: &Cluster, parts: &Path) -> Result<(), IncumbentError> {
    let manifests = Manifests::read(parts)?.without_pods();
    let apply = ["apply", "-f", "-"];
    cluster
        .kubectl_with_input(apply, &manifests.list().to_string())
        .await?;
    let backend = Backend {
        namespace: NAME.to_owned(),
        name: NAME.to_owned(),
        port: 443,
        targets: vec![(NODE_IP, PORT).into()],
    };
    Ok(cluster.expose(&backend).await?)
}

/// Returns a kubeconfig with a token of its `ServiceAccount`, at the first kube-apiserver.
async fn kubeconfig(cluster: &Cluster, files: &Path) -> Result<PathBuf, IncumbentError> {
    let create = ["-n", NAME, "create", "token", NAME, "--duration=24h"];
    let token = cluster.kubectl(create).await?;
    let admin = cluster.kubeconfig();
    let text = std::fs::read_to_string(&admin).map_err(file(&admin))?;
    let unusable = |error| IncumbentError::Manifests(format!("kubeconfig: {error}"));
    let mut config: Value = serde_yaml::from_str(&text).map_err(unusable)?;
    config["users"][0]["user"] = serde_json::json!({"token": token.trim()});
    let path = files.join("kubeconfig");
    std::fs::write(&path, config.to_string()).map_err(file(&path))?;
    Ok(path)
}

/// Returns the process as its Deployment starts it, with the flags that a program outside of a pod
/// needs.
fn spec(parts: &Path, files: &Path, kubeconfig: &Path, postgres: &Postgres) -> ProcessSpec {
    let kubeconfig = kubeconfig.display();
    ProcessSpec::new("incumbent", parts.join("reports-server"))
        .args([
            format!("--bind-address={NODE_IP}"),
            format!("--secure-port={PORT}"),
            format!("--cert-dir={}", files.display()),
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            "--authorization-always-allow-paths=/metrics".to_owned(),
            "--dbsslmode=disable".to_owned(),
            format!("--servicename={NAME}"),
            format!("--servicens={NAME}"),
            format!("--clusterrolename={NAME}"),
            RECONCILE.to_owned(),
        ])
        // The network of the cluster is not that of its database; their files are.
        .env("DB_HOST", postgres.socket_directory().display().to_string())
        .env("DB_PORT", postgres.port().to_string())
        .env("DB_DATABASE", DATABASE)
        .env("DB_USER", USER)
        .env("DB_PASSWORD", postgres.password())
        .env("POD_IP", NODE_IP.to_string())
        .env(
            "HEADLESS_SERVICE",
            format!("{NAME}-headless.{NAME}.svc.cluster.local"),
        )
}

fn file(path: &Path) -> impl FnOnce(std::io::Error) -> IncumbentError {
    let path = path.to_owned();
    move |source| IncumbentError::File { path, source }
}
