//! Switches the report APIs to the server and back, again and again, and says what clients noticed.
//! See `hack/chaos`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use e2e::chaos::{self, ChaosOptions, Driver, NodeDriver, ProcessDriver};
use e2e::command::{self, DatabaseChoice};
use e2e::processes::Processes;
use e2e::takeover::{GROUPS, Takeover, TakeoverOptions};
use testcluster::ClusterOptions;
use testreports::Input;

/// Length of a run without any limit.
const MINUTES: u64 = 10;
/// kube-apiservers.
const APISERVERS: usize = 2;
/// The audit policy of `--audit`.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    verbs: [create, update, patch, delete, deletecollection]
    resources: [{group: wgpolicyk8s.io}, {group: reports.kyverno.io}]
  - level: None
";

/// Switches the report APIs to the server and back, again and again, under load and faults.
#[derive(Parser, Debug)]
#[command(name = "chaos")]
struct Args {
    /// No round is begun after this time; 10 where no number of rounds is given either.
    #[arg(long)]
    minutes: Option<u64>,
    /// Most rounds: forward, and back.
    #[arg(long)]
    rounds: Option<u32>,
    /// Seed of all random choices; drawn where it is not given.
    #[arg(long)]
    seed: Option<u64>,
    /// Database in which the servers store the reports.
    #[arg(long, value_enum, default_value = "embedded")]
    database: DatabaseChoice,
    /// Reports that are loaded first.
    #[arg(long, default_value_t = 500)]
    reports: usize,
    /// Writes a second of the writers of all verbs.
    #[arg(long, default_value_t = 25)]
    rate: u16,
    /// Also write the result as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Make no faults.
    #[arg(long)]
    no_faults: bool,
    /// Leave the cluster for a look.
    #[arg(long)]
    keep: bool,
    /// Folder, which is made, for audit.log: who changed which report at which kube-apiserver.
    #[arg(long, value_name = "FOLDER")]
    audit: Option<PathBuf>,
    /// Server and migration as processes on a control plane, without nodes, pods and operator.
    #[arg(long)]
    processes: bool,
    /// Folder with the OCI archives of `hack/image`.
    #[arg(long, env = "REPORTS_SERVER_IMAGES", default_value = ".")]
    images: PathBuf,
    /// The repository's manifests.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests"))]
    manifests: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    command::log("error,kube_client=off");
    let result = run(Args::parse()).await;
    command::exit("chaos", result, "clients noticed a switch; see the table")
}

async fn run(args: Args) -> anyhow::Result<bool> {
    let say = command::clock();
    let options = options(&args);
    say(&format!("seed {}", options.seed));
    let driver: Box<dyn Driver> = if args.processes {
        let processes = Processes::start(&GROUPS, args.reports, args.keep).await?;
        Box::new(ProcessDriver::start(processes).await?)
    } else {
        let line = Takeover::prepare(line(&args)?, say).await?;
        Box::new(NodeDriver::start(line).await?)
    };
    let outcome = chaos::run(driver.as_ref(), &options, &say).await?;
    println!("\n{outcome}");
    command::write(args.json.as_deref(), &outcome.to_json())?;
    if args.keep {
        let name = driver.cluster().name();
        command::kept(&name, "get rsrv");
    }
    Ok(outcome.is_clean())
}

fn options(args: &Args) -> ChaosOptions {
    let minutes = match (args.minutes, args.rounds) {
        (None, None) => Some(MINUTES),
        (minutes, _) => minutes,
    };
    ChaosOptions {
        rounds: args.rounds,
        time: minutes.map(|minutes| Duration::from_secs(minutes * 60)),
        seed: args.seed.unwrap_or_else(rand::random),
        faults: !args.no_faults,
        rate: f64::from(args.rate),
        ..ChaosOptions::default()
    }
}

/// Returns the arguments by which the kube-apiservers write an audit log into a folder.
fn audit(folder: &Path) -> anyhow::Result<Vec<String>> {
    std::fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    let (policy, log) = (folder.join("policy.yaml"), folder.join("audit.log"));
    std::fs::write(&policy, AUDIT_POLICY)?;
    Ok(vec![
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
    ])
}

fn line(args: &Args) -> anyhow::Result<TakeoverOptions> {
    let audit = args.audit.as_deref().map(audit).transpose()?;
    let cluster = ClusterOptions {
        apiservers: APISERVERS,
        detached: args.keep,
        apiserver_args: audit.unwrap_or_default(),
        ..ClusterOptions::node()
    };
    Ok(TakeoverOptions {
        reports: args.reports,
        input: Input::detect(),
        rate: f64::from(args.rate),
        images: args.images.clone(),
        manifests: args.manifests.clone(),
        cluster,
        database: args.database.into(),
        incumbent: None,
    })
}
