//! The files of the workspace.

use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

/// A file of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path from the root of the workspace.
    pub path: PathBuf,
    /// Length of the file.
    pub bytes: u64,
}

/// Returns the files below `root`, without hidden ones and what is built, in the order of their
/// names.
///
/// # Errors
/// If a folder cannot be listed.
pub fn files(root: &Path) -> Result<Vec<File>, walkdir::Error> {
    let entries = WalkDir::new(root).sort_by_file_name().into_iter();
    let mut files = Vec::new();
    for entry in entries.filter_entry(|entry| entry.depth() == 0 || is_source(entry)) {
        let entry = entry?;
        if entry.file_type().is_file() {
            files.push(File {
                path: entry
                    .path()
                    .strip_prefix(root)
                    .unwrap_or(entry.path())
                    .to_owned(),
                bytes: entry.metadata()?.len(),
            });
        }
    }
    Ok(files)
}

fn is_source(entry: &DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    let hidden = name.starts_with('.') && name != ".ci" && name != ".github";
    !hidden && name != "target"
}
