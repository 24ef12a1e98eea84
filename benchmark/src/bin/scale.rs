//! Measures one server with very many reports. See `hack/scale`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use benchmark::scale::{self, Database, Facts, Record, ScaleOptions};
use clap::Parser;

/// Fewest reports, of which a tenth has two pages.
const LEAST: i64 = 10_000;
const MOST: i64 = 10_000_000;

/// Measures what a tenth of the reports and then all cost one server, and how that grows.
#[derive(Parser, Debug)]
#[command(name = "hack/scale")]
struct Cli {
    /// Number of reports; 1,000,000 on PostgreSQL and 200,000 on SQLite unless told.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(LEAST..=MOST))]
    reports: Option<u32>,
    /// The database of the server.
    #[arg(long, value_enum, default_value_t = Database::Postgres)]
    database: Database,
    /// Also write figures and goals as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Reports of our own generator, with a fixed seed, also where recorded ones are present.
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
            eprintln!("scale: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn start(cli: Cli) -> anyhow::Result<()> {
    benchmark::install_tls()?;
    let server = benchmark::server(cli.server, "hack/scale")?;
    let reports = match cli.reports {
        Some(reports) => usize::try_from(reports)?,
        None => cli.database.whole(),
    };
    let input = benchmark::input(cli.generated);
    println!(
        "{reports} {} reports on {}",
        input.name(),
        cli.database.name()
    );
    let options = ScaleOptions {
        server,
        own: std::env::current_exe()?,
        input,
        database: cli.database,
        reports,
    };
    let facts = Facts {
        database: options.database,
        input: options.input.name().to_owned(),
        reports,
        tenth: options.tenth(),
    };
    let (books, outcome) = scale::run(options).await;
    let record = Record::new(facts, &books, &cli.database.system());
    tell(&record, cli.json.as_deref())?;
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
