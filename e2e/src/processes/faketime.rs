//! The library that sets the clocks of processes.

use std::path::PathBuf;

/// Folder of the library that sets clocks, in one named after the architecture.
pub(super) const LIBRARIES: &str = "/usr/lib";
pub(super) const FAKETIME: &str = "faketime/libfaketime.so.1";

/// Returns the path of the library; `None` where it is not installed.
pub(super) fn library() -> Option<PathBuf> {
    std::fs::read_dir(LIBRARIES).ok().and_then(|entries| {
        let paths = entries.flatten().map(|entry| entry.path().join(FAKETIME));
        paths.into_iter().find(|path| path.exists())
    })
}
