//! Real Kyverno, while the report groups go to the server and back. See `hack/kyverno`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use e2e::chaos::Driver as _;
use e2e::command::{self, DatabaseChoice};
use e2e::kyverno::{self, KyvernoOptions, Parts};
use e2e::takeover::TakeoverOptions;
use testcluster::ClusterOptions;
use testreports::Input;

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
    /// Folder for the audit log and the logs of Kyverno and the servers.
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
    command::log("error,kube_client=off");
    let result = Box::pin(run(Args::parse())).await;
    command::exit("kyverno", result, "Kyverno noticed a switch; see the table")
}

async fn run(args: Args) -> anyhow::Result<bool> {
    let say = command::clock();
    let options = KyvernoOptions {
        parts: Parts(args.parts.clone()),
        logs: std::path::absolute(&args.logs)?,
        rounds: args.rounds,
        baseline: Duration::from_secs(args.baseline),
    };
    let (driver, outcome) = Box::pin(kyverno::run(line(&args), &options, say)).await?;
    println!("\n{outcome}");
    command::write(args.json.as_deref(), &outcome.to_json())?;
    println!(
        "Audit log, logs of Kyverno and of the servers: {}",
        options.logs.display()
    );
    if args.keep {
        let name = driver.cluster().name();
        command::kept(&name, "get pods -A");
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
        database: args.database.into(),
        incumbent: None,
    }
}
