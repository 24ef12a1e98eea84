//! `reports-server` as it is, built with the tests that start it on a control plane without nodes.

use anyhow::Context;
use clap::Parser;
use reports_server::config::Config;
use reports_server::{run, telemetry};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        anyhow::bail!("another TLS provider is installed");
    }
    let config = Config::parse();
    let log_level = telemetry::install_logs(&config.log_level, config.log_format, None);
    run::run(config, log_level.context("check --log-level")?, None).await
}
