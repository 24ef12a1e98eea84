//! Does wrong and right to a `ReportsServer` and its children, at random, and says whether the
//! conditions told the truth and what clients lost. See `hack/abuse`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use e2e::abuse::{self, AbuseOptions};
use e2e::command;
use e2e::takeover::{Database, Takeover, TakeoverOptions};
use testcluster::ClusterOptions;
use testreports::Input;

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
    /// Only the actions whose name has this word, as the output names them.
    #[arg(long, default_value = "", value_name = "WORD")]
    only: String,
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
    command::log("error,kube_client=off");
    let result = run(Args::parse()).await;
    command::exit(
        "abuse",
        result,
        "a condition was untrue, or something was lost or stuck; see above",
    )
}

async fn run(args: Args) -> anyhow::Result<bool> {
    let say = command::clock();
    let options = AbuseOptions {
        seed: args.seed.unwrap_or_else(rand::random),
        time: Duration::from_secs(args.minutes * 60),
        rate: f64::from(args.rate),
        only: args.only.clone(),
    };
    say(&format!("seed {}", options.seed));
    let line = Takeover::prepare(line(&args), say).await?;
    let name = line.cluster.name();
    let outcome = Box::pin(abuse::run(line, &options)).await?;
    println!("\n{outcome}");
    command::write(args.json.as_deref(), &outcome.to_json())?;
    if args.keep {
        command::kept(&name, "get rsrv");
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
