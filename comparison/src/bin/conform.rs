//! `hack/conform`: the same requests to the CRDs and to our server.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use apimachinery::mutation::Mutation;
use clap::{Parser, ValueEnum};
use comparison::conform::compare::Difference;
use comparison::conform::deviations::{self, Deviation};
use comparison::conform::ground::{Ground, GroundOptions};
use comparison::conform::report::Report;
use comparison::conform::run::Outcome;
use comparison::conform::{self, Selection, case, docs, random};
use comparison::serving::Storage;

/// Compares our server with the CRDs that it replaces: the same requests, the same answers.
#[derive(Parser)]
#[command(name = "hack/conform", version)]
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
struct Cli {
    /// Run these cases, or rows (NAME/ROW); a `*` at the end stands for any end.
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Write the figures to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// On the kinds of wgpolicyk8s.io alone.
    #[arg(long)]
    standard: bool,
    /// Each case on one kind in one encoding alone, by turns.
    #[arg(long)]
    share: bool,
    /// Database in which our server keeps the reports.
    #[arg(long, value_enum, default_value_t = Database::Sqlite)]
    database: Database,
    /// Number of our servers, 1 to 4; more than one need PostgreSQL.
    #[arg(long, default_value_t = 1)]
    servers: usize,
    /// Number of generated operations; by default 20,000, and none where cases are named.
    #[arg(long, value_name = "N")]
    operations: Option<usize>,
    /// Seed of the generated operations; printed when they fail. By default another one each time.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Break this behaviour of our server, which has to be found.
    #[arg(long, value_name = "NAME", value_parser = mutation)]
    mutation: Option<Mutation>,
    /// One request at a time, on one side after the other, for the times of both to be their own.
    #[arg(long)]
    apart: bool,
    /// Print the page about API compatibility, and do nothing else.
    #[arg(long)]
    docs: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Database {
    Sqlite,
    Postgres,
}

fn mutation(name: &str) -> Result<Mutation, String> {
    let known = || Mutation::ALL.map(Mutation::name).join(", ");
    Mutation::ALL
        .into_iter()
        .find(|mutation| mutation.name() == name)
        .ok_or_else(|| format!("use one of {}", known()))
}

fn main() -> ExitCode {
    match start(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(cli: &Cli) -> anyhow::Result<bool> {
    if cli.docs {
        let files = case::load(&case::folder())?;
        print!(
            "{}",
            docs::page(&files, &deviations::load(&deviations::file())?)?
        );
        return Ok(true);
    }
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?
        .block_on(compare(cli))
}

async fn compare(cli: &Cli) -> anyhow::Result<bool> {
    let files = case::load(&case::folder())?;
    let deviations = deviations::load(&deviations::file())?;
    let options = GroundOptions {
        all_groups: !cli.standard,
        storage: match cli.database {
            Database::Sqlite => Storage::Sqlite,
            Database::Postgres => Storage::Postgres,
        },
        servers: cli.servers,
        mutation: cli.mutation,
        apart: cli.apart,
    };
    let ground = Ground::start(&options).await?;
    println!("on Kubernetes {}", ground.release);
    let deviations = deviations::on(ground.release, deviations);
    let selection = Selection {
        files: &files,
        asked: &cli.cases,
        thin: cli.share,
        deviations: &deviations,
    };
    let tell = |outcome: &Outcome| tell(outcome, &deviations);
    let mut report = conform::run(&ground, selection, &tell).await?;
    print!("{report}");
    let usual = if cli.cases.is_empty() { 20_000 } else { 0 };
    let operations = cli.operations.unwrap_or(usual);
    if operations > 0 {
        let seed = cli.seed.unwrap_or_else(rand::random);
        println!("generated operations with --seed {seed}");
        let generated = random::run(&ground, operations, seed, &deviations, &show).await?;
        for failure in &generated.failures {
            println!("{failure}");
        }
        report.add_generated(generated);
        println!("{}", report.summary());
    }
    write(cli, &report)?;
    Ok(report.good())
}

/// Shows a difference of generated operations while others run.
fn show(difference: &Difference) {
    eprintln!("{difference}");
}

/// Shows differences while the other cases run, the known ones as such.
fn tell(outcome: &Outcome, deviations: &[Deviation]) {
    for difference in &outcome.differences {
        match deviations.iter().find(|known| known.explains(difference)) {
            Some(known) => eprintln!("as the deviation '{}' says: {difference}", known.name),
            None => eprintln!("{difference}"),
        }
    }
}

fn write(cli: &Cli, report: &Report) -> anyhow::Result<()> {
    let Some(path) = &cli.json else {
        return Ok(());
    };
    let text = serde_json::to_string_pretty(&report.figures())? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
