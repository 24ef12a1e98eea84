//! The parts that the programs of `src/bin` share.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use clap::ValueEnum;
use serde_json::Value;
use tracing_subscriber::EnvFilter;

use crate::takeover::Database;

/// The databases that a program of the line can be asked for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DatabaseChoice {
    /// SQLite on a volume of the one server.
    Embedded,
    /// PostgreSQL that the operator runs, with two servers on it.
    Managed,
}

impl From<DatabaseChoice> for Database {
    fn from(choice: DatabaseChoice) -> Self {
        match choice {
            DatabaseChoice::Embedded => Self::Embedded,
            DatabaseChoice::Managed => Self::Managed,
        }
    }
}

/// Sends logs to standard error, as `RUST_LOG` says or by the filter `default`.
pub fn log(default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}

/// Returns what a program ends with: success when its result is clean, else failure, with the words
/// `unclean` or the error on standard error.
#[must_use]
pub fn exit(program: &str, result: anyhow::Result<bool>, unclean: &str) -> ExitCode {
    match result {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => eprintln!("{program}: {unclean}"),
        Err(error) => eprintln!("{program}: {error:#}"),
    }
    ExitCode::FAILURE
}

/// Returns a function that prints a line with the seconds since now.
pub fn clock() -> impl Fn(&str) + Copy + Send + Sync + 'static {
    let started = Instant::now();
    move |text: &str| println!("[{:>6.1} s] {text}", started.elapsed().as_secs_f64())
}

/// Writes a result as JSON, where a file is named for it.
///
/// # Errors
/// If the file cannot be written.
pub fn write(path: Option<&Path>, json: &Value) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(json)? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Tells how to look at a cluster that is left running, and how to remove it; `look` is what kubectl
/// is asked.
pub fn kept(name: &str, look: &str) {
    println!("The cluster is left running: hack/cluster kubectl --name {name} {look}");
    println!("Remove it with: hack/cluster down --name {name}");
}
