//! Runs the main job on a cluster of its own, or on one that somebody has, and says what clients
//! noticed. See `hack/demo`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Parser, ValueEnum};
use e2e::command::{self, DatabaseChoice};
use e2e::demo::{self, DemoOptions, Loader};
use e2e::takeover::{self, TakeoverOptions};
use e2e::{incumbent, round_trip};
use testcluster::ClusterOptions;
use testreports::Input;
use tokio::signal::unix::{SignalKind, signal};

/// Seed of the clients' choices on the way back.
const SEED: u64 = 1;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum InputChoice {
    /// Recorded reports where they are present, else generated ones.
    Auto,
    /// Reports of our own generator.
    Generated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FromChoice {
    /// Out of etcd.
    Etcd,
    /// From kyverno/reports-server, installed by its own manifests.
    Incumbent,
}

/// Takes the reports of a real cluster out of etcd, with clients that watch closely.
#[derive(Parser, Debug)]
#[command(name = "demo")]
struct Args {
    /// Reports to load.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=200_000))]
    reports: u32,
    /// Source of the reports to load.
    #[arg(long, value_enum, default_value = "auto")]
    input: InputChoice,
    /// Database in which the servers store the reports.
    #[arg(long, value_enum, default_value = "embedded")]
    database: DatabaseChoice,
    /// Source from which the reports are taken over.
    #[arg(long, value_enum, default_value = "etcd")]
    from: FromChoice,
    /// Also give the reports back to etcd, with clients at work.
    #[arg(long)]
    round_trip: bool,
    /// Writes a second of the witness.
    #[arg(long, default_value_t = 30)]
    rate: u16,
    /// Also write the result as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Leave the cluster for a look.
    #[arg(long)]
    keep: bool,
    /// Use the cluster of this kubeconfig, and remove everything at the end.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Tool that puts the images into the nodes of that cluster; by default they are expected
    /// there.
    #[arg(long, value_enum, requires = "kubeconfig")]
    image_loader: Option<Loader>,
    /// Only check that the demo can be run in that cluster.
    #[arg(long, requires = "kubeconfig")]
    check: bool,
    /// Folder with the OCI archives of `hack/image`.
    #[arg(long, env = "REPORTS_SERVER_IMAGES")]
    images: PathBuf,
    /// The repository's manifests.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests"))]
    manifests: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    command::log("warn,kube_client=off");
    let args = Args::parse();
    let result = match &args.kubeconfig {
        Some(kubeconfig) => Box::pin(on_a_cluster(&args, kubeconfig)).await,
        None => Box::pin(on_the_machine(&args)).await,
    };
    command::exit(
        "demo",
        result,
        "clients noticed the switch, or something stayed; see the table",
    )
}

/// Returns the folder of the incumbent, where reports are taken from it.
async fn incumbent_parts(from: FromChoice) -> anyhow::Result<Option<PathBuf>> {
    match from {
        FromChoice::Etcd => Ok(None),
        FromChoice::Incumbent => {
            let parts = incumbent::parts().await?;
            let missing = "the source of kyverno/reports-server is not in ../shared/data/sources";
            parts.map(Some).context(missing)
        }
    }
}

/// Returns the options of the line.
async fn options(args: &Args) -> anyhow::Result<TakeoverOptions> {
    let mut cluster = ClusterOptions::node();
    cluster.detached = args.keep;
    cluster
        .apiserver_args
        .push(takeover::COUNT_PERIOD.to_owned());
    Ok(TakeoverOptions {
        reports: args.reports as usize,
        input: match args.input {
            InputChoice::Auto => Input::detect(),
            InputChoice::Generated => Input::Generated { seed: 1 },
        },
        rate: f64::from(args.rate),
        images: args.images.clone(),
        manifests: args.manifests.clone(),
        cluster,
        database: args.database.into(),
        incumbent: incumbent_parts(args.from).await?,
    })
}

/// Runs on the cluster of a kubeconfig.
async fn on_a_cluster(args: &Args, kubeconfig: &Path) -> anyhow::Result<bool> {
    if args.keep || args.from == FromChoice::Incumbent {
        bail!("--keep and --from incumbent are for the demo's own cluster, without --kubeconfig");
    }
    let options = DemoOptions {
        kubeconfig: kubeconfig.to_owned(),
        kubectl: "kubectl".into(),
        loader: args.image_loader.unwrap_or(Loader::Nothing),
        round_trip: args.round_trip.then_some(SEED),
        line: options(args).await?,
    };
    if args.check {
        demo::check(&options).await?;
        return Ok(true);
    }
    let outcome = demo::run(&options, command::clock(), interrupted());
    let outcome = Box::pin(outcome).await?;
    println!("\n{outcome}");
    command::write(args.json.as_deref(), &outcome.to_json())?;
    Ok(outcome.is_clean())
}

/// Waits until the program is interrupted, or told to end.
async fn interrupted() {
    let signals = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    );
    let (Ok(mut interrupt), Ok(mut terminate)) = signals else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Runs on a cluster that is started for it.
async fn on_the_machine(args: &Args) -> anyhow::Result<bool> {
    let say = command::clock();
    let (line, outcome) = takeover::run(options(args).await?, say).await?;
    println!("\n{outcome}");
    let mut json = outcome.to_json();
    let (mut line, mut clean) = (line, outcome.is_clean());
    if args.round_trip {
        say("giving the groups back to their CRDs");
        let back;
        (line, back) = round_trip::way_back(line, SEED, &say).await?;
        println!("\n{back}");
        json["way_back"] = back.to_json();
        clean &= back.is_clean();
    }
    command::write(args.json.as_deref(), &json)?;
    if args.keep {
        let name = line.cluster.name();
        command::kept(&name, "get rsrv");
    }
    Ok(clean)
}
