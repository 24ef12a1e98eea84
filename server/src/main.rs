//! The binary `reports-server`.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use reports_server::config::Config;
use reports_server::{run, telemetry};

fn main() -> ExitCode {
    let config = Config::parse();
    match start(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Also for people who start it by hand, so not as JSON.
            eprintln!("reports-server: {}", sentence(&error));
            ExitCode::FAILURE
        }
    }
}

fn start(config: Config) -> anyhow::Result<()> {
    // Before anything that uses TLS: two providers are linked, and none is the default.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        anyhow::bail!("a TLS provider is installed already; please report it as a bug");
    }
    telemetry::install_logs(&config.log_level).context("check --log-level")?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads; raise the limits of the container")?
        .block_on(run::run(config))
}

/// The error with its causes. Most errors name their cause already; it is not said twice.
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
