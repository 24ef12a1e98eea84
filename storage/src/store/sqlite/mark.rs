//! The mark beside a database that a server uses. It tells a database that is lost from one that
//! was never begun.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use super::beside;
use crate::store::OpenError;

/// The end of the name of the mark.
const END: &str = ".in-use";

/// Returns whether no database is at `path`: no file, or one without a byte.
pub(in crate::store) fn is_blank(path: &Path) -> bool {
    match path.metadata() {
        Ok(metadata) => metadata.len() == 0,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Returns an error if a database was in use at `path`, and none is there any more.
pub(super) fn check(path: &Path) -> Result<(), OpenError> {
    let mark = beside(path, END);
    if is_blank(path) && mark.exists() {
        return Err(OpenError::Lost {
            path: path.display().to_string(),
            mark: mark.display().to_string(),
        });
    }
    Ok(())
}

/// Marks the database at `path`, whose schema is on the disk. A mark that a crash takes away, or
/// for which the volume has no room, is set by the next start.
pub(super) fn set(path: &Path) {
    let mark = beside(path, END);
    let opened = OpenOptions::new().create(true).append(true).open(&mark);
    if let Err(error) = opened {
        tracing::warn!(%error, mark = %mark.display(), "marking the database as in use");
    }
}
