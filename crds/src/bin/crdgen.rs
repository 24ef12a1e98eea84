//! `crdgen`: prints what is generated from the types in this crate.

use std::io::Write as _;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

/// Prints what is generated from the API types; `hack/gen` writes it to its places.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The CRD of `ReportsServer`, as YAML.
    Crd,
}

fn main() -> anyhow::Result<()> {
    let output = match Arguments::parse().command {
        Command::Crd => serde_yaml::to_string(&crds::v1alpha1::reports_server_crd()?)?,
    };
    std::io::stdout()
        .write_all(output.as_bytes())
        .context("cannot write to standard output")
}
