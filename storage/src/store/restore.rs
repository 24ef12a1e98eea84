//! The return to a copy of an embedded database, before a server opens it.

use std::io;
use std::path::{Path, PathBuf};

use super::OpenError;
use super::sqlite::placing::{PlaceError, remove, replace};
use super::sqlite::{FileLock, LOCK, Sqlite, beside, is_blank, lock};

/// The reason why a database does not begin with a copy.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The copy is damaged, is none, or is of a newer release.
    #[error("the backup cannot be used: {0}")]
    Copy(#[source] OpenError),
    /// The database that is there cannot be looked at.
    #[error("{}: {source}", path.display())]
    Present {
        /// The database.
        path: PathBuf,
        /// The cause.
        source: OpenError,
    },
    /// The database is in use already.
    #[error(
        "{} holds {objects} objects already, and no database that is in use is overwritten",
        path.display()
    )]
    Occupied {
        /// The database.
        path: PathBuf,
        /// Number of its objects.
        objects: u64,
    },
    /// A file.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The place of a database that does not exist, or holds no object. No other process can open it: a
/// server that did would go on with a file that is replaced under it.
#[derive(Debug)]
pub struct Vacancy {
    path: PathBuf,
    /// Held until this is dropped.
    _lock: Option<FileLock>,
}

impl Vacancy {
    /// Takes the place `path`.
    ///
    /// # Errors
    /// [`RestoreError::Occupied`] if the database there holds objects, [`RestoreError::Present`] if
    /// that cannot be found out, or another process has the place.
    pub async fn take(path: &Path) -> Result<Self, RestoreError> {
        let present = |source: OpenError| RestoreError::Present {
            path: path.to_owned(),
            source,
        };
        if is_blank(path) {
            let held = lock(path).map_err(present)?;
            return Ok(Self::held_by(path, Some(held)));
        }
        let sqlite = Sqlite::open(path).await.map_err(present)?;
        let objects = sqlite.objects_stored().await;
        let held = sqlite.close_locked().await;
        match objects.map_err(|error| present(error.into()))? {
            0 => Ok(Self::held_by(path, held)),
            objects => Err(RestoreError::Occupied {
                path: path.to_owned(),
                objects,
            }),
        }
    }

    fn held_by(path: &Path, lock: Option<FileLock>) -> Self {
        Self {
            path: path.to_owned(),
            _lock: lock,
        }
    }

    /// Puts the database `copy`, a file of the same directory, there, and returns the number of its
    /// objects. Without `same_cluster`, everything counts as written here that was imported from the
    /// etcd of the cluster that the copy is from. The database is there as a whole afterwards, or what
    /// was there still is.
    ///
    /// # Errors
    /// If the copy cannot be used, or a file cannot be moved.
    pub async fn fill(self, copy: &Path, same_cluster: bool) -> Result<u64, RestoreError> {
        let path = self.path.as_path();
        let ours = Sqlite::check_origin(copy).await;
        ours.map_err(|error| RestoreError::Copy(error.into()))?;
        let sqlite = Sqlite::open(copy).await.map_err(RestoreError::Copy)?;
        let taken = take_over(&sqlite, same_cluster).await;
        sqlite.close_file().await;
        let objects = taken.map_err(RestoreError::Copy)?;
        remove(&beside(copy, LOCK))?;
        replace(copy, path)?;
        Ok(objects)
    }
}

async fn take_over(sqlite: &Sqlite, same_cluster: bool) -> Result<u64, OpenError> {
    sqlite.check().await?;
    sqlite.take_over(same_cluster).await?;
    Ok(sqlite.objects_stored().await?)
}

impl From<PlaceError> for RestoreError {
    fn from(PlaceError { path, source }: PlaceError) -> Self {
        Self::File { path, source }
    }
}
