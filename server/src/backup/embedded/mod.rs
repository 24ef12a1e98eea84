//! Backups of an embedded database. The server makes a copy while it serves, and sends it; the Job
//! of a backup compresses it into a file. The Job of a restore makes a database of such a file,
//! before the first server opens it.

mod archive;
mod source;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use clap::Args;
use jiff::Timestamp;
use storage::store::{RestoreError, Vacancy};
use tracing::info;

use self::source::Source;
use super::file::{Named, SUFFIX};
use super::{Error, Stored, retention};

/// End of the name of a file that is not whole yet.
const PARTIAL: &str = "partial";
/// The time after which such a file is taken for one that was cut off: until then another Job may be
/// writing it.
const ABANDONED: Duration = Duration::from_hours(1);
/// End of the name of the database while it is made.
const RESTORING: &str = ".restoring";
/// End of the name of the file with the name of the backup that the database begins with.
const RESTORED: &str = ".restored";
/// Ends of the names of files that an attempt that was cut off may have left.
const LEFT: [&str; 4] = [
    ".restoring",
    ".restoring-wal",
    ".restoring-shm",
    ".restoring.lock",
];

/// The options of a backup.
#[derive(Args, Debug)]
pub(super) struct Make {
    #[command(flatten)]
    file: Named,
    #[command(flatten)]
    source: Source,
    /// Uid of the namespace `kube-system` of the cluster.
    #[arg(long)]
    cluster_uid: String,
    /// Time for which backups are kept in the directory, in minutes; the one just made is always
    /// kept. Without it, none is removed.
    #[arg(long)]
    retention_minutes: Option<u64>,
}

/// The options of a restore.
#[derive(Args, Debug)]
pub(super) struct Restore {
    #[command(flatten)]
    file: Named,
    /// File of the database, which must not exist or hold no object.
    #[arg(long)]
    database: PathBuf,
    /// Uid of the namespace `kube-system` of the cluster.
    #[arg(long)]
    cluster_uid: String,
}

/// Makes a backup. It has its name when all of it was read again; one that was cut off never has.
///
/// # Errors
/// If the server sends no copy, or a file cannot be written.
pub(super) async fn make(options: &Make) -> Result<(), Error> {
    let (path, directory) = (options.file.path(), options.file.directory.as_path());
    for left in files(directory, PARTIAL)? {
        if is_abandoned(&left) {
            remove(&left)?;
        }
    }
    let partial = path.with_extension(PARTIAL);
    let fetched = options.source.fetch(&partial, &options.cluster_uid).await;
    if fetched.is_err() {
        remove(&partial)?;
    }
    let bytes = fetched?;
    let read = archive::check(&partial).map_err(|source| failed(&partial, source))?;
    if read != bytes {
        let why = format!("{read} of {bytes} bytes can be read again");
        return Err(failed(&partial, io::Error::other(why)));
    }
    fs::rename(&partial, &path).map_err(|source| failed(&path, source))?;
    sync(directory)?;
    info!(name = options.file.name, bytes, "made");
    let Some(minutes) = options.retention_minutes else {
        return Ok(());
    };
    let kept = Duration::from_secs(minutes * 60);
    let stored = stored(directory)?;
    for name in retention::expired(&stored, &options.file.name, Timestamp::now(), kept) {
        remove(&directory.join(format!("{name}{SUFFIX}")))?;
        info!(name, "removed");
    }
    Ok(())
}

/// Makes the database of a backup.
///
/// # Errors
/// If there is no such backup, it cannot be used, or the database holds objects of something else.
pub(super) async fn restore(options: &Restore) -> Result<(), Error> {
    let (path, name) = (options.file.path(), options.file.name.as_str());
    if !path.exists() {
        let stored = stored(&options.file.directory)?.into_iter();
        return Err(Error::Missing {
            name: name.to_owned(),
            present: stored.map(|backup| backup.name).collect(),
        });
    }
    let database = options.database.as_path();
    let note = beside(database, RESTORED);
    // Taken before anything is written: the pod of a Job that was deleted may still be at work.
    let vacancy = match Vacancy::take(database).await {
        // An attempt that was cut off had restored all of it.
        Err(RestoreError::Occupied { .. }) if noted(&note) == name => {
            info!(name, "is restored already");
            return Ok(());
        }
        taken => taken?,
    };
    for end in LEFT {
        remove(&beside(database, end))?;
    }
    let copy = beside(database, RESTORING);
    let cluster = archive::unpack(&path, &copy);
    if cluster.is_err() {
        // It may have filled the volume.
        remove(&copy)?;
    }
    let cluster = cluster.map_err(|source| failed(&path, source))?;
    fs::write(&note, name).map_err(|source| failed(&note, source))?;
    sync(&note)?;
    let same_cluster = cluster.as_deref() == Some(options.cluster_uid.as_str());
    let objects = vacancy.fill(&copy, same_cluster).await?;
    if !same_cluster {
        info!("this is another cluster: what was imported there counts as written here");
    }
    info!(name, objects, "restored");
    Ok(())
}

/// Returns whether nothing was written to a file for long.
fn is_abandoned(path: &Path) -> bool {
    let written = path.metadata().and_then(|metadata| metadata.modified());
    let age = written.ok().and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age > ABANDONED)
}

/// Returns the name of the backup that a database was to begin with.
fn noted(note: &Path) -> String {
    fs::read_to_string(note).unwrap_or_default()
}

/// Returns the backups of a directory.
fn stored(directory: &Path) -> Result<Vec<Stored>, Error> {
    let found = files(directory, SUFFIX.trim_start_matches('.'))?;
    let backup = |path: PathBuf| {
        let name = path.file_stem()?.to_str()?.to_owned();
        let modified = path.metadata().and_then(|metadata| metadata.modified());
        Some(Stored {
            name,
            modified: modified.ok().and_then(|time| time.try_into().ok()),
        })
    };
    Ok(found.into_iter().filter_map(backup).collect())
}

/// Returns the files of a directory whose names end so, by name.
fn files(directory: &Path, extension: &str) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(directory).map_err(|source| failed(directory, source))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|source| failed(directory, source))?.path();
        if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the path of a file that belongs to a database.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

/// Removes a file; that there is none is as good.
fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path, error)),
        _ => Ok(()),
    }
}

/// Waits until a file, or the names in a directory, are on the disk.
fn sync(path: &Path) -> Result<(), Error> {
    let synced = fs::File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|source| failed(path, source))
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        source,
    }
}
