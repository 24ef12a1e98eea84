//! Measures the server beside its peers. See `hack/bench`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use benchmark::book::Book;
use benchmark::{BenchOptions, Job, System, figures, goals, null};
use clap::{Args, Parser, Subcommand};
use serde_json::{Value, json};
use testreports::Input;

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
}

#[derive(Args, Debug)]
struct Run {
    /// Also write the figures as a JSON list.
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
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        bail!("another TLS provider is installed");
    }
    if let Some(Part::NullBackend {
        address,
        certificate,
        key,
        bodies,
    }) = cli.part
    {
        return null::serve(address, &certificate, &key, &bodies).await;
    }
    measure(cli.run).await
}

async fn measure(run: Run) -> anyhow::Result<()> {
    let server = match run.server {
        Some(server) => server,
        None => benchmark::beside("reports-server")?,
    };
    if !server.exists() {
        bail!("{} is missing; hack/bench builds it", server.display());
    }
    let input = if run.generated {
        Input::Generated { seed: 1 }
    } else {
        Input::detect()
    };
    println!(
        "{} reports{}",
        input.name(),
        if run.quick { ", a quick look" } else { "" }
    );
    let (book, outcome) = benchmark::run(BenchOptions {
        server,
        own: std::env::current_exe()?,
        without: run.without,
        input,
        only: run.only,
        rounds: if run.quick { 1 } else { run.rounds.into() },
        reports: if run.quick { 1_000 } else { 10_000 },
        requests: if run.quick { 2_000 } else { 10_000 },
        watchers: if run.quick { 100 } else { 1_000 },
    })
    .await;
    tell(&book, run.json)?;
    outcome
}

fn tell(book: &Book, json: Option<PathBuf>) -> anyhow::Result<()> {
    let figures = goals::figures(book);
    if figures.is_empty() {
        return Ok(());
    }
    println!("\n{}", figures::table(&figures));
    if let Some(path) = json {
        let list: Vec<Value> = figures.iter().map(figures::Figure::to_json).collect();
        let text = serde_json::to_string_pretty(&json!(list))? + "\n";
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
