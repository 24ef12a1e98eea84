//! The binary `reports-server`.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use reports_server::config::Config;
use reports_server::{VERSION, backup, run, telemetry};
use traces::{Service, Traces};

/// The allocator. Half of the time of a write went into the allocator of the C library: objects are
/// trees of small texts.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// First argument of the program for backups: it shares the image, not the options.
const BACKUP: &str = "backup";

fn main() -> ExitCode {
    let ended = if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == BACKUP)
    {
        carry(backup::Cli::parse_from(std::env::args_os().skip(1)))
    } else {
        start(Config::parse())
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Also for people who start it by hand, so not as JSON.
            eprintln!("reports-server: {}", sentence(&error));
            ExitCode::FAILURE
        }
    }
}

/// Makes, carries or restores a backup. One thread is enough.
fn carry(cli: backup::Cli) -> anyhow::Result<()> {
    telemetry::install_logs(&cli.log_level, telemetry::LogFormat::default(), None)
        .context("check --log-level")?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime; raise the limits of the container")?
        .block_on(backup::run(cli))
        .map_err(Into::into)
}

fn start(config: Config) -> anyhow::Result<()> {
    // Before anything that uses TLS: two providers are linked, and none is the default.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        anyhow::bail!("a TLS provider is installed already; please report it as a bug");
    }
    let traces = start_traces(&config).context("there are no traces; check --tracing-endpoint")?;
    let log_level = telemetry::install_logs(&config.log_level, config.log_format, traces.as_ref());
    let log_level = log_level.context("check --log-level")?;
    let metrics = traces.as_ref().map(Traces::metrics);
    let ended = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads; raise the limits of the container")?
        .block_on(run::run(config, log_level, metrics));
    if let Some(traces) = traces {
        traces.end();
    }
    ended
}

/// Starts the export of traces, where there is a collector.
fn start_traces(config: &Config) -> anyhow::Result<Option<Traces>> {
    let service = Service {
        name: "reports-server",
        version: VERSION,
        instance: std::env::var("HOSTNAME").ok(),
    };
    let settings = config.traces();
    let started = settings.map(|settings| Traces::start(settings, &service));
    Ok(started.transpose()?)
}

/// Returns the error with its causes. Most errors name their cause already; it is not repeated.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
