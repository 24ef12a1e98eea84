//! Does wrong and right to a `ReportsServer` and its children, at random, and says whether the
//! conditions told the truth and what clients lost. See `hack/abuse`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;
use e2e::abuse::{self, AbuseOptions, Outcome};
use e2e::takeover::{Database, Takeover, TakeoverOptions};
use testcluster::ClusterOptions;
use testreports::Input;
use tracing_subscriber::EnvFilter;

/// Does wrong and right to a `ReportsServer` and its children, at random.
#[derive(Parser, Debug)]
#[command(name = "abuse")]
struct Args {
    /// No action is begun after this time.
    #[arg(long, default_value_t = 5)]
    minutes: u64,
    /// Seed of all random choices; drawn where it is not given.
    #[arg(long)]
    seed: Option<u64>,
    /// Reports that are loaded first.
    #[arg(long, default_value_t = 300)]
    reports: usize,
    /// Writes a second of the clients.
    #[arg(long, default_value_t = 15)]
    rate: u16,
    /// Also write the result as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Leave the cluster for a look.
    #[arg(long)]
    keep: bool,
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
    match run(Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("abuse: a condition was untrue, or something was lost or stuck; see above");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("abuse: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<bool> {
    let started = Instant::now();
    let say = move |text: &str| println!("[{:>6.1} s] {text}", started.elapsed().as_secs_f64());
    let options = AbuseOptions {
        seed: args.seed.unwrap_or_else(rand::random),
        time: Duration::from_secs(args.minutes * 60),
        rate: f64::from(args.rate),
    };
    say(&format!("seed {}", options.seed));
    let line = Takeover::prepare(line(&args), say).await?;
    let name = line.cluster.name();
    let outcome = Box::pin(abuse::run(line, &options)).await?;
    println!("\n{outcome}");
    write(args.json.as_deref(), &outcome)?;
    if args.keep {
        println!("The cluster is left running: hack/cluster kubectl --name {name} get rsrv");
        println!("Remove it with: hack/cluster down --name {name}");
    }
    Ok(outcome.is_clean())
}

fn line(args: &Args) -> TakeoverOptions {
    TakeoverOptions {
        reports: args.reports,
        input: Input::detect(),
        rate: f64::from(args.rate),
        images: args.images.clone(),
        manifests: args.manifests.clone(),
        cluster: ClusterOptions {
            detached: args.keep,
            ..ClusterOptions::node()
        },
        database: Database::Managed,
        incumbent: None,
    }
}

fn write(path: Option<&Path>, outcome: &Outcome) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(&outcome.to_json())? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
