//! Real Kyverno, while the report groups go to the server and back. See `hack/kyverno`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use e2e::chaos::Driver as _;
use e2e::kyverno::{self, KyvernoOptions, Outcome, Parts};
use e2e::takeover::{Database, TakeoverOptions};
use testcluster::ClusterOptions;
use testreports::Input;
use tracing_subscriber::EnvFilter;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DatabaseChoice {
    /// SQLite on a volume of the one server.
    Embedded,
    /// PostgreSQL that the operator runs, with two servers on it.
    Managed,
}

/// Real Kyverno under churn, while the report groups go to the server, back, and there again.
#[derive(Parser, Debug)]
#[command(name = "kyverno")]
struct Args {
    /// Number of times that the groups go to the server and back, before they go there once more.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Database in which the servers store the reports.
    #[arg(long, value_enum, default_value = "embedded")]
    database: DatabaseChoice,
    /// Seconds of the baseline without a switch.
    #[arg(long, default_value_t = 90)]
    baseline: u64,
    /// Also write the result as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Leave the cluster for a look.
    #[arg(long)]
    keep: bool,
    /// Folder for the audit log and Kyverno's logs.
    #[arg(long, env = "KYVERNO_LOGS", default_value = "kyverno-logs")]
    logs: PathBuf,
    /// Folder with Kyverno's images and manifests.
    #[arg(long, env = "KYVERNO_PARTS", default_value = ".")]
    parts: PathBuf,
    /// Folder with the OCI archives of `hack/image`.
    #[arg(long, env = "REPORTS_SERVER_IMAGES", default_value = ".")]
    images: PathBuf,
    /// The repository's manifests.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests"))]
    manifests: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("error,kube_client=off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match Box::pin(run(Args::parse())).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("kyverno: Kyverno noticed a switch; see the table");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("kyverno: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<bool> {
    let started = Instant::now();
    let say = move |text: &str| println!("[{:>6.1} s] {text}", started.elapsed().as_secs_f64());
    let options = KyvernoOptions {
        parts: Parts(args.parts.clone()),
        logs: std::path::absolute(&args.logs)?,
        rounds: args.rounds,
        baseline: Duration::from_secs(args.baseline),
    };
    let (driver, outcome) = Box::pin(kyverno::run(line(&args), &options, say)).await?;
    println!("\n{outcome}");
    write(args.json.as_deref(), &outcome)?;
    println!("Audit log and Kyverno's logs: {}", options.logs.display());
    if args.keep {
        let name = driver.cluster().name();
        println!("The cluster is left running: hack/cluster kubectl --name {name} get pods -A");
        println!("Remove it with: hack/cluster down --name {name}");
    }
    Ok(outcome.is_clean())
}

/// Returns the options of a line that loads no reports: Kyverno makes them.
fn line(args: &Args) -> TakeoverOptions {
    TakeoverOptions {
        reports: 0,
        input: Input::detect(),
        rate: 0.0,
        images: args.images.clone(),
        manifests: args.manifests.clone(),
        cluster: ClusterOptions {
            detached: args.keep,
            ..ClusterOptions::node()
        },
        database: match args.database {
            DatabaseChoice::Embedded => Database::Embedded,
            DatabaseChoice::Managed => Database::Managed,
        },
        incumbent: None,
    }
}

fn write(path: Option<&Path>, outcome: &Outcome) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(&outcome.to_json())? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
