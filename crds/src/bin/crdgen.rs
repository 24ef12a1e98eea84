//! `crdgen`: prints what is generated from the types in this crate.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Parser, Subcommand, ValueEnum};
use crds::v1alpha1::reports_server_crd;
use crds::{catalog, publish};

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
    /// The catalog of report APIs as CRDs, as YAML: for a cluster that has none of them.
    Catalog {
        /// Only this API group.
        #[arg(long)]
        group: Option<String>,
    },
    /// The API groups of the catalog, one per line.
    Groups,
    /// The index of the examples in a folder, as Markdown.
    Examples {
        /// The folder.
        folder: PathBuf,
    },
    /// The page about sizes, as Markdown.
    Sizing {
        /// The record of a run of `hack/bench --json`.
        record: PathBuf,
    },
    /// A page of the documentation, as Markdown.
    Docs {
        /// The page to print.
        page: Page,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Page {
    /// Specification and status of `ReportsServer`.
    ReportsServer,
    /// The report APIs of the catalog.
    ReportApis,
    /// Every reason by symptom, with what to do.
    Troubleshooting,
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> anyhow::Result<()> {
    let output = match command {
        Command::Crd => publish::manifest([reports_server_crd()?])?,
        Command::Catalog { group } => report_crds(group.as_deref())?,
        Command::Groups => catalog::groups().join("\n") + "\n",
        Command::Examples { folder } => publish::examples(&read_examples(folder)?)?,
        Command::Sizing { record } => {
            let json = fs::read_to_string(record)
                .with_context(|| format!("cannot read {}", record.display()))?;
            publish::sizing(&json)?
        }
        Command::Docs {
            page: Page::ReportsServer,
        } => publish::reports_server(&reports_server_crd()?)?,
        Command::Docs {
            page: Page::ReportApis,
        } => publish::report_apis(),
        Command::Docs {
            page: Page::Troubleshooting,
        } => publish::troubleshooting()?,
    };
    std::io::stdout()
        .write_all(output.as_bytes())
        .context("cannot write to standard output")
}

/// Returns the files of a folder, by their names.
fn read_examples(folder: &Path) -> anyhow::Result<Vec<publish::Example>> {
    let context = || format!("cannot read {}", folder.display());
    let mut examples = Vec::new();
    for entry in fs::read_dir(folder).with_context(context)? {
        let entry = entry.with_context(context)?;
        examples.push(publish::Example {
            file: entry.file_name().to_string_lossy().into_owned(),
            text: fs::read_to_string(entry.path()).with_context(context)?,
        });
    }
    examples.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(examples)
}

fn report_crds(group: Option<&str>) -> anyhow::Result<String> {
    let crds = catalog::resources()
        .iter()
        .filter(|resource| group.is_none_or(|group| group == resource.group))
        .map(catalog::to_crd)
        .collect::<Result<Vec<_>, _>>()?;
    if let (true, Some(group)) = (crds.is_empty(), group) {
        bail!(
            "group {group} is not in the catalog; it has {}",
            catalog::groups().join(", ")
        );
    }
    Ok(publish::manifest(crds)?)
}
