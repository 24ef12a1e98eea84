//! `manifestgen`: prints generated manifests, or writes folders of them; `hack/gen` has them written to
//! `manifests/`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use reports_server_operator::manifests::{self, Files};

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
    /// manifests/monitoring/operator.yaml
    Monitor,
    /// docs/verify.md
    Verify,
    /// manifests/helm/reports-server-operator
    Chart {
        /// Folder to write it to.
        folder: PathBuf,
    },
    /// manifests/kustomize
    Kustomize {
        /// Folder to write it to.
        folder: PathBuf,
    },
    /// manifests/gitops
    Gitops {
        /// Folder to write it to.
        folder: PathBuf,
    },
    /// manifests/olm
    Olm {
        /// Folder with the examples that consoles offer.
        #[arg(long, default_value = "manifests/examples")]
        examples: PathBuf,
        /// Registry that all images come from, such as a mirror.
        #[arg(long)]
        registry: Option<String>,
        /// Folder to write it to.
        folder: PathBuf,
    },
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Install => print(&manifests::install()?),
        Command::Policies => print(&manifests::admission_policies()?),
        Command::Monitor => print(&manifests::monitor()?),
        Command::Verify => print(&manifests::verify_page()),
        Command::Chart { folder } => write(&folder, &manifests::chart()?),
        Command::Kustomize { folder } => write(&folder, &manifests::kustomize()?),
        Command::Gitops { folder } => write(&folder, &manifests::gitops()),
        Command::Olm {
            examples,
            registry,
            folder,
        } => {
            let examples = read(&examples)?;
            write(&folder, &manifests::olm(&examples, registry.as_deref())?)
        }
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Returns the files of a folder that has no other folders.
fn read(folder: &Path) -> anyhow::Result<Files> {
    let unreadable = || format!("cannot read {}", folder.display());
    let mut files = Files::new();
    for entry in fs::read_dir(folder).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(entry.path()).with_context(unreadable)?;
        files.insert(name, text);
    }
    Ok(files)
}

fn write(folder: &Path, files: &Files) -> anyhow::Result<()> {
    for (path, text) in files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("cannot make the folder {}", parent.display()))?;
        }
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
