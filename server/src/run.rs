//! Putting the parts together: start, service, end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use apimachinery::definition::ResourceDefinition;
use arc_swap::ArcSwap;
use crds::control::DatabaseEngine;
use storage::store::{OpenError, Store, StoreOptions};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use traces::ExportMetrics;

use crate::api::{Api, Pieces};
use crate::auth::{Authenticator, Authorizer, FrontProxyConfig, SubjectAccess, TokenAuthenticator};
use crate::cluster::{
    self, Attachments, EffectiveDefinitions, KubeEtcd, KubeWatches, Namespaces, stored_definitions,
    watch_front_proxy,
};
use crate::config::Config;
use crate::holds;
use crate::http::{Check, ConnectionAge, Health, Limits, Pipeline, Probes, Server};
use crate::registry::sweep::{self, SweepMetrics};
use crate::shutdown::Shutdown;
use crate::telemetry::{LogLevel, Metrics, StoreCollector};
use crate::tls::{self, Certificates};
use crate::told::{self, Told};

/// Interval of looks at the certificate's files.
const CERTIFICATE_INTERVAL: Duration = Duration::from_secs(5);
/// Longest wait for the cluster before the service starts with the definitions in the database.
const CLUSTER_WAIT: Duration = Duration::from_secs(15);

/// Pause between attempts to open a database that cannot be reached.
const DATABASE_PAUSE: Duration = Duration::from_secs(1);
/// Pause between looks at a database that is not the right one: somebody has to do something.
const OTHER_DATABASE_PAUSE: Duration = Duration::from_secs(5);

/// The delay where the reports have moved. See [`shutdown_delay`].
const MOVED_SHUTDOWN_DELAY: Duration = Duration::from_secs(10);

/// Tasks that run beside the requests, until the end.
#[derive(Clone, Default)]
struct Background {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Background {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks
            .spawn(async move { stop.run_until_cancelled_owned(task).await });
    }

    async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// The state of the cluster that is followed.
struct Cluster {
    client: kube::Client,
    watches: Arc<KubeWatches>,
    front_proxy: Arc<ArcSwap<FrontProxyConfig>>,
    front_proxy_loaded: watch::Receiver<bool>,
    namespaces: Arc<Namespaces>,
    attachments: Arc<Attachments>,
    refused_writers: watch::Receiver<BTreeSet<String>>,
    audit: watch::Receiver<bool>,
    definitions: Arc<EffectiveDefinitions>,
}

/// Runs the server until a signal ends it. The level of the logs is that of the `ConfigMap` where it
/// names one. `traces` are the counters of exported spans, where there are traces.
///
/// # Errors
/// If it cannot start; each error says what to do about it.
pub async fn run(
    config: Config,
    log_level: LogLevel,
    traces: Option<ExportMetrics>,
) -> anyhow::Result<()> {
    let shutdown = Shutdown::default();
    shutdown.on_signals().context("cannot listen for signals")?;
    let metrics = Arc::new(Metrics::new());
    if let Some(traces) = traces {
        metrics.register(|registry| traces.register(registry));
    }
    let certificates = Certificates::load(config.certificate_files())
        .await
        .context("no serving certificate; check the Secret that is mounted for it")?;
    let Some(store) = open_store(&config, &metrics, &certificates, &shutdown).await? else {
        return Ok(());
    };
    let background = Background::default();
    let served = serve(
        &config,
        log_level,
        &shutdown,
        &metrics,
        certificates,
        &store,
        &background,
    )
    .await;
    background.end().await;
    store.close().await;
    tracing::info!("the store is closed");
    served
}

/// Opens the store, and waits for a database that cannot be reached yet: a database that starts
/// beside the server must not have to wait for a restart's back-off. Nothing is made in a database
/// that is not the one in use: the server is alive then, and not ready. Returns `None` where the
/// server is told to end before.
async fn open_store(
    config: &Config,
    metrics: &Metrics,
    certificates: &Arc<Certificates>,
    shutdown: &Shutdown,
) -> anyhow::Result<Option<Store>> {
    let mut options = StoreOptions::on(config.store_database());
    let database = options.database.to_string();
    options.history = config.history;
    options.observer = Arc::new(metrics.commits.clone());
    options.etcd = Arc::new(KubeEtcd::new(config.kubeconfig.clone()));
    let mut probes = None;
    let store = loop {
        let error = match Store::open(options.clone()).await {
            Ok(store) => break store,
            Err(error) if error.may_pass() => error,
            Err(error) => return Err(error).with_context(|| format!("database {database}")),
        };
        tracing::warn!(%error, database, "waiting for the database");
        let other = matches!(error, OpenError::OtherDatabase(_));
        if other && probes.is_none() {
            let tls = tls::server_config(certificates.clone()).context("cannot set up TLS")?;
            probes = Some(Probes::start(config.bind_address, tls).await?);
        }
        let pause = if other {
            OTHER_DATABASE_PAUSE
        } else {
            DATABASE_PAUSE
        };
        let pause = tokio::time::sleep(pause);
        if shutdown
            .requested
            .run_until_cancelled(pause)
            .await
            .is_none()
        {
            return Ok(None);
        }
    };
    if let Some(probes) = probes {
        probes.stop().await;
    }
    metrics.register_collector(Box::new(StoreCollector::new(store.clone())));
    Ok(Some(store))
}

async fn serve(
    config: &Config,
    log_level: LogLevel,
    shutdown: &Shutdown,
    metrics: &Arc<Metrics>,
    certificates: Arc<Certificates>,
    store: &Store,
    background: &Background,
) -> anyhow::Result<()> {
    let cluster = follow_cluster(config, log_level, store, background).await?;
    let tls = tls::server_config(certificates.clone()).context("cannot set up TLS")?;
    metrics.certificate_expiry.set(certificates.not_after());
    let expiry = metrics.certificate_expiry.clone();
    let report = move |not_after| {
        expiry.set(not_after);
    };
    let stop = background.stop.clone();
    background.spawn(tls::reload(
        certificates.clone(),
        CERTIFICATE_INTERVAL,
        stop,
        report,
    ));
    tokio::select! {
        () = wait_for(&cluster) => {}
        () = shutdown.requested.cancelled() => return Ok(()),
    }
    background.spawn(sweep(store.clone(), cluster.namespaces.clone(), metrics));
    background.spawn(holds::end_orphaned(store.clone(), holds::LIMIT));
    let health = health(shutdown, &cluster, certificates, store);
    let pieces = Arc::new(Pieces::new(metrics.pieces.clone()));
    background.spawn(pieces.clone().expire());
    let pipeline = pipeline(config, shutdown, metrics, store, cluster, health, pieces);
    let pipeline = Arc::new(pipeline);
    let age = ConnectionAge::new(config.connection_max_age, store.arrivals());
    let server = Server::bind(config.bind_address, tls, pipeline, age).await?;
    tracing::info!(address = %config.bind_address, version = crate::VERSION, "serving");
    let ended = async {
        shutdown.requested.cancelled().await;
        shutdown.sequence(shutdown_delay(config, store)).await;
        store.end_watches();
    };
    let (drained, ()) = tokio::join!(
        server.run(shutdown.drain.clone(), config.drain_timeout),
        ended
    );
    if !drained {
        tracing::warn!("requests were cut off; raise --drain-timeout to let them end");
    }
    Ok(())
}

/// Returns the time that clients have to go elsewhere. An embedded server has nowhere to send them,
/// unless its reports have moved: then others serve them, and are about to take its place. One that
/// has moved them into its own file is embedded from then on.
fn shutdown_delay(config: &Config, store: &Store) -> Duration {
    let can_move = config.move_database_dir.is_some();
    let (began_embedded, engine) = (config.database_dir.is_none(), store.database().engine);
    match engine {
        DatabaseEngine::Postgres if began_embedded && can_move => {
            config.shutdown_delay.max(MOVED_SHUTDOWN_DELAY)
        }
        DatabaseEngine::Sqlite if !began_embedded => Duration::ZERO,
        DatabaseEngine::Postgres | DatabaseEngine::Sqlite => config.shutdown_delay,
    }
}

async fn follow_cluster(
    config: &Config,
    log_level: LogLevel,
    store: &Store,
    background: &Background,
) -> anyhow::Result<Cluster> {
    let kubeconfig = config.kubeconfig.as_deref();
    let client = cluster::client(kubeconfig).await?;
    let watches = Arc::new(KubeWatches::new(kubeconfig).await?);
    let front_proxy = Arc::new(ArcSwap::from_pointee(FrontProxyConfig::default()));
    let (loaded, front_proxy_loaded) = watch::channel(false);
    background.spawn(watch_front_proxy(
        client.clone(),
        front_proxy.clone(),
        loaded,
    ));
    let (namespaces, follow) = Namespaces::watch(client.clone());
    background.spawn(follow);
    let (attachments, follow) = Attachments::watch(client.clone());
    background.spawn(follow);
    let (told, follow) = told::follow(config, log_level, &client)?;
    background.spawn(follow);
    let Told {
        groups,
        refused_writers,
        audit,
    } = told;
    let last = stored_definitions(store)
        .await
        .context("cannot read the schemas from the database; restore it from a backup")?;
    let store = Arc::new(store.clone());
    let (definitions, follow) =
        EffectiveDefinitions::follow(client.clone(), groups, last, catalog()?, store)
            .context("cannot write the discovery documents")?;
    background.spawn(follow);
    Ok(Cluster {
        client,
        watches,
        front_proxy,
        front_proxy_loaded,
        namespaces,
        attachments,
        refused_writers,
        audit,
        definitions,
    })
}

/// Returns the definitions that are compiled in.
fn catalog() -> anyhow::Result<Vec<ResourceDefinition>> {
    crds::catalog::resources()
        .iter()
        .map(|resource| {
            let crd = crds::catalog::to_crd(resource)?;
            Ok(ResourceDefinition::from_crd(&crd)?)
        })
        .collect::<anyhow::Result<_>>()
        .context("the catalog that is compiled in is broken; please report it as a bug")
}

/// Waits for the cluster, but not for ever: a start must not depend on it.
async fn wait_for(cluster: &Cluster) {
    let mut front_proxy = cluster.front_proxy_loaded.clone();
    let all = async {
        cluster.definitions.synced().await;
        cluster.namespaces.ready().await;
        // An error means that the end has begun; then nobody waits for this any more.
        let _ = front_proxy.wait_for(|loaded| *loaded).await;
    };
    if tokio::time::timeout(CLUSTER_WAIT, all).await.is_err() {
        tracing::warn!(
            "the kube-apiserver has not sent everything within {} s; serving what the database \
             contains. Check the network and the RBAC of the server's ServiceAccount",
            CLUSTER_WAIT.as_secs()
        );
    }
}

/// Deletes the objects that namespaces left behind; begins when all namespaces are known.
fn sweep(
    store: Store,
    namespaces: Arc<Namespaces>,
    metrics: &Metrics,
) -> impl Future<Output = ()> + Send + use<> {
    let counters = SweepMetrics::default();
    metrics.register(|registry| counters.register(registry));
    async move {
        namespaces.ready().await;
        sweep::run(store, namespaces, counters).await;
    }
}

/// Returns the conditions under which requests may be sent here. The database is not asked: while
/// it is away, discovery and reads still answer, and taking every replica out would stop those too.
fn health(
    shutdown: &Shutdown,
    cluster: &Cluster,
    certificates: Arc<Certificates>,
    store: &Store,
) -> Health {
    let store = store.clone();
    let ending = shutdown.clone();
    let authentication = cluster.front_proxy_loaded.clone();
    let definitions = cluster.definitions.clone();
    Health::new(vec![
        Check::new("authentication", move || *authentication.borrow()),
        Check::new("certificate", move || {
            certificates.not_after() > jiff::Timestamp::now().as_second()
        }),
        Check::new("definitions", move || {
            definitions.is_synced() || definitions.load().iter().next().is_some()
        }),
        Check::new("reports", move || !store.is_left_behind()),
        Check::new("shutdown", move || !ending.is_requested()),
    ])
}

fn pipeline(
    config: &Config,
    shutdown: &Shutdown,
    metrics: &Arc<Metrics>,
    store: &Store,
    cluster: Cluster,
    health: Health,
    pieces: Arc<Pieces>,
) -> Pipeline {
    let Cluster {
        client,
        watches,
        front_proxy,
        namespaces,
        attachments,
        refused_writers,
        audit,
        definitions,
        ..
    } = cluster;
    let reviews = &metrics.reviews;
    let tokens = TokenAuthenticator::new(client.clone(), reviews.clone());
    let authorizer: Arc<dyn Authorizer> = Arc::new(SubjectAccess::new(client, reviews.clone()));
    let api = Api::new(store.clone(), definitions.clone(), namespaces)
        .attached(attachments)
        .keeping(pieces)
        .refusing(refused_writers)
        .proxying_watches(watches);
    let api = match &config.copy_dir {
        Some(directory) => api.copying_to(directory),
        None => api,
    };
    Pipeline {
        authenticator: Authenticator::new(front_proxy, tokens),
        authorizer,
        definitions,
        api: Arc::new(api),
        health,
        limits: Limits::new(&config.limits(), metrics.requests.clone()),
        metrics: metrics.clone(),
        audit,
        shutdown: shutdown.drain.clone(),
    }
}
