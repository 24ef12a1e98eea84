//! Measures the server beside its peers. See `hack/bench`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use benchmark::docs::{Facts, Record, read_scale};
use benchmark::{BenchOptions, Job, System, null};
use clap::{Args, Parser, Subcommand};

/// The allocator of the server, whose store is measured in this process, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the speed and the size of the server, beside the CRD, plain SQL and a server that costs
/// nothing.
#[derive(Parser, Debug)]
#[command(name = "hack/bench")]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    run: Run,
}

#[derive(Subcommand, Debug)]
enum Part {
    /// Inside of the cluster: answer canned bodies.
    #[command(hide = true)]
    NullBackend {
        address: SocketAddr,
        certificate: PathBuf,
        key: PathBuf,
        bodies: PathBuf,
    },
    /// Print a page with the tables of recorded runs of hack/bench and hack/scale: what hack/gen makes
    /// of docs/performance.md.
    #[command(hide = true)]
    Docs {
        page: PathBuf,
        record: PathBuf,
        scale: Vec<PathBuf>,
    },
}

#[derive(Args, Debug)]
struct Run {
    /// Also write figures and goals as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only this subject; may be repeated.
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<Job>,
    /// Number of rounds in which each is measured.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Small numbers and one round: a look, not a measurement.
    #[arg(long)]
    quick: bool,
    /// Leave this system out; may be repeated.
    #[arg(long, value_enum, value_name = "SYSTEM")]
    without: Vec<System>,
    /// Reports of our own generator, also where recorded ones are present.
    #[arg(long)]
    generated: bool,
    /// The server to measure, in place of the one that was built with this program.
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
}

fn main() -> ExitCode {
    match start(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn start(cli: Cli) -> anyhow::Result<()> {
    benchmark::install_tls()?;
    match cli.part {
        Some(Part::NullBackend {
            address,
            certificate,
            key,
            bodies,
        }) => null::serve(address, &certificate, &key, &bodies).await,
        Some(Part::Docs {
            page,
            record,
            scale,
        }) => docs(&page, &record, &scale),
        None => measure(cli.run).await,
    }
}

fn docs(page: &Path, record: &Path, scale: &[PathBuf]) -> anyhow::Result<()> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let record = Record::read(&read(record)?)?;
    let many: Vec<_> = scale
        .iter()
        .map(|path| Ok(read_scale(&read(path)?)?))
        .collect::<anyhow::Result<_>>()?;
    print!("{}", record.fill(&read(page)?, &many)?);
    Ok(())
}

async fn measure(run: Run) -> anyhow::Result<()> {
    let server = benchmark::server(run.server, "hack/bench")?;
    let input = benchmark::input(run.generated);
    println!(
        "{} reports{}",
        input.name(),
        if run.quick { ", a quick look" } else { "" }
    );
    let facts = Facts {
        input: input.name().to_owned(),
        rounds: if run.quick { 1 } else { run.rounds.into() },
        reports: if run.quick { 1_000 } else { 10_000 },
        quick: run.quick,
    };
    let (book, outcome) = benchmark::run(BenchOptions {
        server,
        own: std::env::current_exe()?,
        without: run.without,
        input,
        only: run.only,
        rounds: facts.rounds,
        reports: facts.reports,
        requests: if run.quick { 2_000 } else { 10_000 },
        watchers: if run.quick { 100 } else { 1_000 },
    })
    .await;
    tell(&Record::new(facts, &book), run.json.as_deref())?;
    outcome
}

fn tell(record: &Record, json: Option<&Path>) -> anyhow::Result<()> {
    if record.figures.is_empty() {
        return Ok(());
    }
    println!("\n{}", record.text());
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(record)? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
