//! Moves API groups, or gives them back, without the rest of the operator: for tests on a
//! control plane without nodes, and to look at a migration by hand.
//!
//! Prints a line for every change of the status and ends with 0 once the goal is reached. It
//! expects a Service that leads to a running `reports-server`, and the control API's APIService.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use crds::v1alpha1::spec::{ApiOwner, Verification, WorkloadKind};
use crds::v1alpha1::status::MigrationPhase;
use e2e::processes::PEAK_MEMORY;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::Reporter;
use prometheus_client::registry::Registry;
use reports_server_operator::apiservice::ServiceRef;
use reports_server_operator::leader::Term;
use reports_server_operator::migration::{
    Deps, GroupStatus, GroupTarget, HoldLock, Metrics, Owner, Predecessor, PredecessorDatabase,
    Settings, Supervisor, Workload,
};

/// Name of the Secret that is made of `--from-database`.
const SECRET: &str = "migrate-from-database";

fn verification(text: &str) -> Result<Verification, String> {
    match text {
        "full" => Ok(Verification::Full),
        "sample" => Ok(Verification::Sample),
        other => Err(format!("{other} is neither full nor sample")),
    }
}

fn workload(text: &str) -> Result<Workload, String> {
    let mut parts = text.splitn(3, '/');
    let (Some(kind), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(format!("{text} is not KIND/NAMESPACE/NAME"));
    };
    let kind = serde_json::from_value::<WorkloadKind>(kind.into()).map_err(|e| e.to_string())?;
    Ok(Workload {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

#[derive(Parser)]
struct Args {
    /// API groups.
    #[arg(long, required = true)]
    group: Vec<String>,
    /// Service of another server to take the groups over from: NAMESPACE/NAME. Its `ServiceAccount`
    /// has the same name.
    #[arg(long)]
    from: Option<String>,
    /// The database of another server that is gone, to import reports from: a file with the keys of
    /// its connection Secret, as a JSON object. The Secret is made from it.
    #[arg(long, conflicts_with = "from")]
    from_database: Option<PathBuf>,
    /// Identity of the cluster whose reports of that database are imported. Default: uid of the
    /// namespace kube-system.
    #[arg(long, requires = "from_database")]
    cluster_id: Option<String>,
    /// Give the groups back to their CRDs.
    #[arg(long)]
    back: bool,
    /// Namespace of the Service.
    #[arg(long, default_value = "policy-reports")]
    namespace: String,
    /// Name of the Service.
    #[arg(long, default_value = "policy-reports")]
    service: String,
    /// CA bundle of the server (PEM).
    #[arg(long)]
    ca: PathBuf,
    /// Length of the soak in seconds.
    #[arg(long, default_value_t = 1)]
    soak: u64,
    /// Keep the copies in etcd.
    #[arg(long)]
    keep: bool,
    /// Copy and verify only.
    #[arg(long)]
    dry_run: bool,
    /// Extent of the comparison of the copy: full or sample.
    #[arg(long, default_value = "full", value_parser = verification)]
    verification: Verification,
    /// Time for which late writes to etcd are looked for, in seconds after the switch.
    #[arg(long, default_value_t = 0)]
    drain_window: u64,
    /// Workloads that are restarted where watches are lost, as KIND/NAMESPACE/NAME.
    #[arg(long, value_parser = workload)]
    restart: Vec<Workload>,
    /// The user that the kube-apiserver takes this process for; it may do what that user may.
    #[arg(long = "as")]
    user: Option<String>,
    /// Objects a page.
    #[arg(long, default_value_t = 250)]
    page_size: u32,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        anyhow::bail!("another TLS provider is installed");
    }
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let args = Args::parse();
    let mut config = kube::Config::infer().await.context("no kubeconfig")?;
    config.auth_info.impersonate.clone_from(&args.user);
    let client = kube::Client::try_from(config.clone()).context("no client")?;
    let database = match &args.from_database {
        Some(file) => Some(database(&client, &args, file).await?),
        None => None,
    };
    let supervisor = Supervisor::new(Deps {
        reporter: Reporter::from("migrate"),
        client,
        config,
        // There is no Lease.
        term: Term::endless(),
        metrics: Arc::new(Metrics::register(&mut Registry::default())),
        hold_lock: HoldLock::default(),
        namespace: "default".to_owned(),
        resolve: BTreeMap::new(),
    });
    let owner = Owner {
        name: "migrate".to_owned(),
        uid: "migrate".to_owned(),
        api_version: "reports-server.io/v1alpha1".to_owned(),
        kind: "ReportsServer".to_owned(),
    };
    let targets = args.group.iter();
    let targets = targets.map(|group| target(&args, database.clone(), group));
    supervisor.ensure(&owner, targets.collect::<anyhow::Result<_>>()?);
    let goal = if args.back {
        MigrationPhase::RolledBack
    } else if args.dry_run {
        MigrationPhase::DryRun
    } else {
        MigrationPhase::Completed
    };
    let mut changes = Box::pin(supervisor.changes());
    let mut said = BTreeSet::new();
    while changes.next().await.is_some() {
        let all = supervisor.status(&owner.name);
        for line in all.iter().map(describe) {
            if said.insert(line.clone()) {
                println!("{line}");
            }
        }
        if all.iter().all(|status| status.phase == goal) {
            if let Some(kib) = peak_memory() {
                println!("{PEAK_MEMORY} {kib} KiB");
            }
            println!("{all:?}");
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the most resident memory that this process has had, in KiB.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

fn predecessor(service: &str) -> anyhow::Result<Predecessor> {
    let (namespace, name) = service
        .split_once('/')
        .context("--from is not NAMESPACE/NAME")?;
    Ok(Predecessor {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        user: format!("system:serviceaccount:{namespace}:{name}"),
    })
}

/// Makes the Secret of the connection, in the namespace of the Service.
async fn database(
    client: &kube::Client,
    args: &Args,
    file: &Path,
) -> anyhow::Result<PredecessorDatabase> {
    let text = std::fs::read_to_string(file).context("cannot read the file of the connection")?;
    let keys: BTreeMap<String, String> =
        serde_json::from_str(&text).context("the file of the connection is no JSON of strings")?;
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(SECRET.to_owned()),
            ..ObjectMeta::default()
        },
        string_data: Some(keys),
        ..Secret::default()
    };
    let secrets = Api::<Secret>::namespaced(client.clone(), &args.namespace);
    let apply = PatchParams::apply("migrate").force();
    secrets
        .patch(SECRET, &apply, &Patch::Apply(&secret))
        .await
        .context("cannot write the Secret of the connection")?;
    let cluster_id = if let Some(id) = &args.cluster_id {
        id.clone()
    } else {
        let namespaces = Api::<Namespace>::all(client.clone());
        let system = namespaces.get("kube-system").await;
        let system = system.context("cannot read the namespace kube-system")?;
        system.metadata.uid.unwrap_or_default()
    };
    Ok(PredecessorDatabase::new(
        &args.namespace,
        SECRET,
        &cluster_id,
    ))
}

fn target(
    args: &Args,
    database: Option<PredecessorDatabase>,
    group: &str,
) -> anyhow::Result<GroupTarget> {
    let after = Duration::ZERO;
    Ok(GroupTarget {
        group: group.to_owned(),
        owner: if args.back {
            ApiOwner::Crd
        } else {
            ApiOwner::Server
        },
        predecessor: args.from.as_deref().map(predecessor).transpose()?,
        database,
        service: ServiceRef {
            namespace: args.namespace.clone(),
            name: args.service.clone(),
            port: 443,
        },
        ca_bundle: std::fs::read(&args.ca).context("cannot read the CA bundle")?,
        server_ready: true,
        control_available: true,
        persistent: true,
        suspended: false,
        settings: Settings {
            page_size: args.page_size,
            dry_run: args.dry_run,
            soak: Duration::from_secs(args.soak),
            prune_after: (!args.keep).then_some(after),
            verification: args.verification,
            drain_window: Duration::from_secs(args.drain_window),
            restart: args.restart.clone(),
            ..Settings::default()
        },
    })
}

fn describe(status: &GroupStatus) -> String {
    let step = status.step.map_or("-", |s| s.as_str());
    let (reason, message) = match &status.problem {
        Some(problem) if problem.stalled => {
            (format!("{} (stalled)", problem.reason), &problem.message)
        }
        Some(problem) => (problem.reason.to_owned(), &problem.message),
        None => (String::new(), &status.message),
    };
    let phase = status.phase.as_str();
    format!("{} {phase} {step} {reason} {message}", status.group)
}
