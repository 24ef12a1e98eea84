//! The operator's binary: options, start and orderly end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{ArgAction, Parser, Subcommand};
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::events::Reporter;
use kube::{Client, Config};
use reports_server_operator::controller::{self, ServiceAccountRef};
use reports_server_operator::database::managed;
use reports_server_operator::events::Publisher;
use reports_server_operator::http::{Access, Certificates, Endpoints, Secure, Settings};
use reports_server_operator::leader::{self, Candidate, Term};
use reports_server_operator::logs::LogLevel;
use reports_server_operator::metrics::Metrics;
use reports_server_operator::migration::{Deps, HoldLock, Supervisor};
use reports_server_operator::spans::TracingOptions;
use reports_server_operator::{installer, logs, names, operator_condition};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use traces::{ExportMetrics, Traces};
use tracing::{error, info};

/// The longest time that reconciliations under way may take to finish after a signal.
const GRACE: Duration = Duration::from_secs(20);

/// Operator that takes policy reports out of etcd.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum Command {
    /// Reconcile `ReportsServer` resources until a signal (the default).
    Run,
    /// Apply a `ReportsServer` as soon as the cluster knows the kind, and end.
    Apply {
        /// The object as JSON.
        #[arg(long)]
        object: String,
    },
    /// Fail while API groups depend on a server, as nobody would give them back.
    CheckUninstall {
        /// The CRD is deleted, too: fail while there is any `ReportsServer`.
        #[arg(long)]
        crd_goes: bool,
    },
    /// Fail unless the cluster serves `ReportsServer` resources, and an operator leads.
    Check,
}

#[derive(clap::Args)]
struct Options {
    /// Path of a kubeconfig; without it the pod's own `ServiceAccount` is used.
    #[arg(long, env = "KUBECONFIG", global = true)]
    kubeconfig: Option<PathBuf>,
    /// The operator's own namespace: its Lease and its notes are there.
    #[arg(long, env = "POD_NAMESPACE", default_value = names::OPERATOR_NAMESPACE, global = true)]
    namespace: String,
    /// Name of this process as a candidate for the Lease; usually the pod's name.
    #[arg(long, env = "POD_NAME", global = true)]
    identity: Option<String>,
    /// Name of the operator's `ServiceAccount`; it gets a role in each target namespace.
    #[arg(long, env = "SERVICE_ACCOUNT", default_value = names::OPERATOR, global = true)]
    service_account: String,
    /// Address on which /healthz and /readyz are served over plain HTTP.
    #[arg(long, default_value = "0.0.0.0:8081", global = true)]
    health_bind_address: SocketAddr,
    /// Address on which /metrics is served.
    #[arg(long, default_value = "0.0.0.0:8443", global = true)]
    metrics_bind_address: SocketAddr,
    /// Serve /metrics over TLS, to bearers of a token who may get that path. With =false, serve it
    /// over plain HTTP to everybody.
    #[arg(
        long,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        global = true
    )]
    metrics_secure: bool,
    /// Folder with tls.crt and tls.key for /metrics, read again every ten seconds. While there are
    /// none that can be used, the operator signs a certificate itself.
    #[arg(long, global = true)]
    metrics_cert_dir: Option<PathBuf>,
    /// Image of the server, if a `ReportsServer` names none.
    #[arg(long, env = names::SERVER_IMAGE_ENV, default_value_t = names::server_image(), global = true)]
    server_image: String,
    /// Address of a database's host, as HOST=ADDRESS:PORT; may be given several times. For an
    /// operator that runs outside of the cluster, where names of Services are not resolved.
    #[arg(long, value_name = "HOST=ADDRESS:PORT", value_parser = place, global = true)]
    database_resolve: Vec<(String, SocketAddr)>,
    /// Image of PostgreSQL in `database.mode: Managed`, if a `ReportsServer` names none.
    #[arg(long, env = names::POSTGRES_IMAGE_ENV, default_value = managed::DEFAULT_IMAGE, global = true)]
    postgres_image: String,
    /// Name of the `OperatorCondition` that says whether the operator may be replaced; OLM sets it.
    #[arg(long, env = names::OPERATOR_CONDITION_ENV, global = true)]
    operator_condition: Option<String>,
    /// Log filter: a level, or directives such as `info,kube=debug`.
    #[arg(long, env = "LOG_LEVEL", default_value = "info", global = true)]
    log_level: String,
    /// File with the log level, in place of --log-level while it is there; read again every five
    /// seconds.
    #[arg(long, env = "LOG_LEVEL_FILE", global = true)]
    log_level_file: Option<PathBuf>,
    #[command(flatten)]
    tracing: TracingOptions,
}

/// Bytes of stack that a thread may use, as many as the main thread has. A reconciliation that is
/// refused carries out another one; without optimization that needs more than the usual 2 MiB.
const STACK: usize = 8 << 20;

fn main() -> anyhow::Result<()> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| {
            anyhow!("a second TLS provider is linked in; this is a defect of the build")
        })?;
    let Cli { command, options } = Cli::parse();
    let traces = options.tracing.start(options.identity.clone());
    let traces = traces.context("there are no traces; check --tracing-endpoint")?;
    let level = logs::install(&options.log_level, traces.as_ref()).context("check --log-level")?;
    let command = command.unwrap_or(Command::Run);
    let spans = traces.as_ref().map(Traces::metrics);
    let ended = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK)
        .build()
        .context("cannot start the runtime")?
        .block_on(carry_out(command, options, level, spans))
        .inspect_err(|error| error!(error = format!("{error:#}"), "the operator ends"));
    if let Some(traces) = traces {
        traces.end();
    }
    ended
}

fn place(text: &str) -> Result<(String, SocketAddr), String> {
    let (host, address) = text
        .split_once('=')
        .ok_or("write HOST=ADDRESS:PORT, such as db.example=127.0.0.1:5432")?;
    let address = address
        .parse()
        .map_err(|error| format!("{address:?} is not ADDRESS:PORT: {error}"))?;
    Ok((host.to_owned(), address))
}

async fn carry_out(
    command: Command,
    options: Options,
    level: LogLevel,
    spans: Option<ExportMetrics>,
) -> anyhow::Result<()> {
    let said = match command {
        Command::Run => return run(options, level, spans).await,
        Command::Apply { object } => installer::apply(&client(&options).await?, &object).await?,
        Command::CheckUninstall { crd_goes } => {
            installer::check_uninstall(&client(&options).await?, crd_goes).await?
        }
        Command::Check => installer::check(&client(&options).await?, &options.namespace).await?,
    };
    info!("{said}");
    Ok(())
}

async fn client(options: &Options) -> anyhow::Result<Client> {
    let config = client_config(options).await?;
    Client::try_from(config).context("cannot build a client")
}

async fn run(
    options: Options,
    level: LogLevel,
    spans: Option<ExportMetrics>,
) -> anyhow::Result<()> {
    if let Some(file) = options.log_level_file.clone() {
        tokio::spawn(level.follow(file));
    }
    info!(version = env!("CARGO_PKG_VERSION"), "starting");
    let stop = on_signal()?;
    let config = client_config(&options).await?;
    let client = Client::try_from(config.clone()).context("cannot build a client")?;
    let metrics = Metrics::new();
    if let Some(spans) = spans {
        metrics.register(|registry| spans.register(registry));
    }
    let (ready_tx, ready) = watch::channel(false);
    let endpoints = endpoints(&options, &client)?;
    let endpoints = Endpoints::bind(endpoints, metrics.clone(), ready).await?;
    let endpoints_end = CancellationToken::new();
    let endpoints = tokio::spawn(endpoints.run(endpoints_end.clone()));

    tokio::select! {
        version = wait_for_api(&client) => {
            info!(kubernetes = version, "the kube-apiserver answers");
        }
        () = stop.cancelled() => return Ok(()),
    }
    let result = Operator {
        client,
        config,
        options,
        metrics,
        hold_lock: HoldLock::default(),
        ready: ready_tx,
        stop,
    }
    .lead()
    .await;
    endpoints_end.cancel();
    endpoints.await.context("the endpoints failed")??;
    result
}

/// Returns where the endpoints are, and who may read the metrics.
fn endpoints(options: &Options, client: &Client) -> anyhow::Result<Settings> {
    let secure = || -> anyhow::Result<Secure> {
        let folder = options.metrics_cert_dir.clone();
        let dns_names = vec![names::metrics_host(&options.namespace)];
        let certificates = Certificates::new(folder, dns_names, Timestamp::now())
            .context("the metrics have no certificate")?;
        Ok(Secure {
            certificates: Arc::new(certificates),
            access: Access::new(client.clone()),
        })
    };
    Ok(Settings {
        health: options.health_bind_address,
        metrics: options.metrics_bind_address,
        secure: options.metrics_secure.then(secure).transpose()?,
    })
}

/// The parts of the process.
struct Operator {
    client: Client,
    config: Config,
    options: Options,
    metrics: Metrics,
    hold_lock: HoldLock,
    /// It leads, or waits for one of its own installation.
    ready: watch::Sender<bool>,
    stop: CancellationToken,
}

impl Operator {
    /// Waits for the Lease, then reconciles until a signal or the loss of the Lease. All work has
    /// stopped before the Lease is released.
    async fn lead(self) -> anyhow::Result<()> {
        let release = CancellationToken::new();
        let identity = self.options.identity.clone();
        let identity = identity.unwrap_or_else(|| std::process::id().to_string());
        let mut election = leader::Config::new(&self.options.namespace, names::OPERATOR, &identity);
        election.account.clone_from(&self.options.service_account);
        election.holding = Some(self.hold_lock.watch());
        let Candidate {
            mut leading,
            ready: mut alone,
            term,
            mut task,
        } = leader::campaign(self.client.clone(), election, release.clone());
        // The election goes on with a client that writes at any time.
        let client = term.client(self.config.clone());
        let client = client.context("cannot build a client")?;
        // One that waits for another installation is of no use, and whoever installed it has to see that.
        let tell = async {
            loop {
                self.ready.send_replace(*alone.borrow_and_update());
                if alone.changed().await.is_err() {
                    return std::future::pending().await;
                }
            }
        };
        tokio::select! {
            () = tell => {}
            won = leading.wait_for(|leading| *leading) => {
                won.map(|_| ()).context("the election ended")?;
            }
            () = self.stop.cancelled() => {
                release.cancel();
                return task.await.context("the election failed")?.map_err(Into::into);
            }
        }
        self.ready.send_replace(true);
        let (stop, metrics) = (self.stop.clone(), self.metrics.clone());
        metrics.leading(true);
        let leader = Self { client, ..self };
        let mut work = tokio::spawn(leader.work(identity, term));
        let overdue = async {
            stop.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            // Losing the Lease ends the process at once: another operator may be at work already.
            ended = &mut task => {
                metrics.leading(false);
                work.abort();
                return ended.context("the election failed")?.map_err(Into::into);
            }
            // A signal ends it as well, and in time.
            ended = &mut work => ended.context("the controller failed")?,
            () = overdue => {
                work.abort();
                // Nothing of it goes on when another operator gets the Lease.
                let _ = (&mut work).await;
            }
        }
        metrics.leading(false);
        release.cancel();
        task.await.context("the election failed")??;
        info!("ended");
        Ok(())
    }

    /// Reconciles until a signal, and writes within `term`. The migrations end with the supervisor, at
    /// the latest.
    async fn work(self, identity: String, term: Term) {
        let reporter = Reporter {
            controller: names::REPORTING_CONTROLLER.to_owned(),
            instance: Some(identity),
        };
        let publisher = Publisher::new(self.client.clone(), reporter.clone());
        let (client, namespace) = (self.client.clone(), self.options.namespace.clone());
        let condition = self.options.operator_condition.clone();
        let resolve = self.options.database_resolve.into_iter();
        let resolve = resolve.collect::<BTreeMap<_, _>>();
        let supervisor = Supervisor::new(Deps {
            client: self.client.clone(),
            config: self.config,
            term,
            reporter,
            metrics: self.metrics.migration.clone(),
            hold_lock: self.hold_lock,
            namespace: self.options.namespace.clone(),
            resolve: resolve.clone(),
        });
        let settings = controller::Settings {
            client: self.client,
            operator: ServiceAccountRef {
                namespace: self.options.namespace,
                name: self.options.service_account,
            },
            server_image: self.options.server_image,
            postgres_image: self.options.postgres_image,
            publisher,
            metrics: self.metrics,
            supervisor,
            resolve,
        };
        let told = async {
            if let Some(condition) = condition {
                operator_condition::follow(client, &namespace, &condition).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = controller::run(settings, self.stop.cancelled_owned()) => {}
            () = told => {}
        }
    }
}

async fn client_config(options: &Options) -> anyhow::Result<Config> {
    let Some(path) = &options.kubeconfig else {
        return Config::incluster().context(
            "no --kubeconfig is given and this is not a pod with a ServiceAccount; give one",
        );
    };
    let read = Kubeconfig::read_from(path)
        .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
    Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("cannot use the kubeconfig {}", path.display()))
}

/// Returns the version of the kube-apiserver, once it answers.
async fn wait_for_api(client: &Client) -> String {
    let mut pause = Duration::from_millis(200);
    loop {
        match client.apiserver_version().await {
            Ok(version) => return version.git_version,
            Err(error) => error!(%error, "the kube-apiserver does not answer; trying again"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(10));
    }
}

/// Returns a token that SIGTERM or SIGINT cancels.
fn on_signal() -> anyhow::Result<CancellationToken> {
    let token = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let stop = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => info!("SIGTERM"),
            _ = interrupt.recv() => info!("SIGINT"),
        }
        stop.cancel();
    });
    Ok(token)
}
