//! The crates of the workspace.

use std::path::{Path, PathBuf};

use cargo_metadata::{MetadataCommand, Target};

/// The reason why the workspace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// Cargo does not describe it.
    #[error("cargo does not describe the workspace of {path}: {source}")]
    Metadata {
        /// The folder that was asked about.
        path: PathBuf,
        /// The error of cargo.
        source: cargo_metadata::Error,
    },
}

/// A crate: a package of the workspace.
#[derive(Clone, Debug)]
pub struct Crate {
    /// The name of the package.
    pub name: String,
    /// The root file of the library and of each program.
    pub roots: Vec<PathBuf>,
}

/// Returns the crates of the workspace at `path`, in the order of their names.
///
/// # Errors
/// See [`WorkspaceError`].
pub fn crates(path: &Path) -> Result<Vec<Crate>, WorkspaceError> {
    let mut command = MetadataCommand::new();
    command.current_dir(path).no_deps();
    let metadata = command.exec().map_err(|source| WorkspaceError::Metadata {
        path: path.to_owned(),
        source,
    })?;
    let mut crates: Vec<Crate> = metadata
        .workspace_packages()
        .into_iter()
        .map(|package| Crate {
            name: package.name.to_string(),
            roots: roots(&package.targets),
        })
        .collect();
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(crates)
}

fn roots(targets: &[Target]) -> Vec<PathBuf> {
    let built = targets
        .iter()
        .filter(|target| target.is_lib() || target.is_bin());
    built
        .map(|target| target.src_path.clone().into_std_path_buf())
        .collect()
}
