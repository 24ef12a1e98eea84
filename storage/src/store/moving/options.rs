//! Options of a move.

use std::path::PathBuf;
use std::time::Duration;

/// An embedded database that can be moved.
#[derive(Clone, Debug)]
pub struct MoveOptions {
    /// The SQLite file; made if it does not exist, in a directory that exists.
    pub file: PathBuf,
    /// Directory that names the database to move to, if any.
    pub directory: PathBuf,
    /// Longest time for which writes wait in the last step. A step that takes longer is given up,
    /// and tried again later.
    pub hold: Duration,
    /// Interval of looks at the directory.
    pub interval: Duration,
}

impl MoveOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new(file: impl Into<PathBuf>, directory: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            directory: directory.into(),
            hold: Duration::from_secs(5),
            interval: Duration::from_secs(1),
        }
    }
}
