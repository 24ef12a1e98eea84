//! Files that take the place of a database, as a whole or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::beside;

/// Ends of the names of the files that SQLite keeps beside a database.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// The end of the name of a write-ahead log.
const LOG: &str = "-wal";

/// The reason why a file is not in its place.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub(in crate::store) struct PlaceError {
    /// The path of the file.
    pub path: PathBuf,
    /// The cause.
    pub source: io::Error,
}

/// Puts the database `copy`, which is closed, in the place of the one at `path`, which is closed as
/// well. It is there as a whole afterwards, or what was there still is.
pub(in crate::store) fn replace(copy: &Path, path: &Path) -> Result<(), PlaceError> {
    sync(copy)?;
    // A log that is left of the other one must not meet the pages of this one.
    for end in BESIDE {
        remove(&beside(path, end))?;
    }
    fs::rename(copy, path).map_err(|source| failed(path, source))?;
    sync(path.parent().unwrap_or(path))
}

/// Removes a database that is closed, with the files beside it.
pub(super) fn remove_database(path: &Path) -> Result<(), PlaceError> {
    for end in BESIDE {
        remove(&beside(path, end))?;
    }
    remove(path)
}

/// Returns an error if a database that was closed has a write-ahead log: somebody has it open still.
pub(super) fn check_folded(path: &Path) -> Result<(), PlaceError> {
    let log = beside(path, LOG);
    match log.metadata() {
        Ok(metadata) if metadata.len() > 0 => {
            let busy = io::Error::other("the database is not closed yet");
            Err(failed(&log, busy))
        }
        _ => Ok(()),
    }
}

/// Removes a file; that there is none is as good.
pub(in crate::store) fn remove(path: &Path) -> Result<(), PlaceError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path, error)),
        _ => Ok(()),
    }
}

/// Waits until a file, or the names in a directory, are on the disk.
fn sync(path: &Path) -> Result<(), PlaceError> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|source| failed(path, source))
}

fn failed(path: &Path, source: io::Error) -> PlaceError {
    PlaceError {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_takes_the_place_of_another_one_without_its_log() {
        let directory = tempfile::tempdir().unwrap();
        let (copy, path) = (directory.path().join("copy"), directory.path().join("db"));
        fs::write(&copy, "new").unwrap();
        fs::write(&path, "old").unwrap();
        fs::write(beside(&path, "-wal"), "log of the old one").unwrap();
        replace(&copy, &path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(!copy.exists());
        assert!(!beside(&path, "-wal").exists());
        assert!(replace(&copy, &path).is_err(), "there is none any more");
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_log_that_is_not_folded_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        check_folded(&path).unwrap();
        fs::write(beside(&path, "-wal"), "").unwrap();
        check_folded(&path).unwrap();
        fs::write(beside(&path, "-wal"), "a write").unwrap();
        let error = check_folded(&path).unwrap_err().to_string();
        assert!(error.contains("not closed yet"), "{error}");
        fs::write(&path, "").unwrap();
        remove_database(&path).unwrap();
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }
}
