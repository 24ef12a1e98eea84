//! `manifestgen`: prints generated manifests; `hack/gen` writes them to `manifests/`.

use std::io::Write as _;

use clap::{Parser, Subcommand};
use reports_server_operator::manifests;

#[derive(Parser)]
#[command(about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// manifests/install.yaml
    Install,
    /// manifests/security/policies.yaml
    Policies,
}

fn main() -> anyhow::Result<()> {
    let text = match Cli::parse().command {
        Command::Install => manifests::install()?,
        Command::Policies => manifests::policies()?,
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}
