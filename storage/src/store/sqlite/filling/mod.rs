//! The file that a move fills: resources keep their numbers, and nobody else sees it before it is in
//! its place.

mod compare;
mod put;
mod sums;
mod target;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::arrival::{copy_of, remove_copies};
use super::placing::remove_database;
use super::rows::keys;
use super::{FileLock, Sqlite, is_blank, lock};
use crate::model::ResourceId;
use crate::store::OpenError;
use crate::store::engine::EngineError;
use crate::store::moving::rows::{Marker, RowKey};
use crate::store::moving::target::Begun;

/// A file that is being filled by one attempt.
pub(crate) struct Filling {
    sqlite: Sqlite,
    path: PathBuf,
    attempt: i64,
    /// Numbers of the resources, which are the same in both databases.
    ids: HashMap<ResourceId, i64>,
}

impl Sqlite {
    /// Begins to fill a database that is to come to `path`, by an order. What is there stays until then,
    /// and must not count.
    pub async fn fill(
        path: &Path,
        marker: &Marker,
        order: &str,
    ) -> Result<Begun<Filling>, OpenError> {
        let Some(lock) = vacant(path).await? else {
            return Ok(Begun::Taken);
        };
        remove_copies(path)?;
        let path = copy_of(path, marker.attempt);
        let sqlite = Self::open_locked(&path, lock).await?;
        sqlite.note_arrival(marker, order).await?;
        Ok(Begun::Filling(Filling {
            sqlite,
            path,
            attempt: marker.attempt,
            ids: HashMap::new(),
        }))
    }

    /// Returns whether the database has reports that are nowhere else, as far as is known: it was not
    /// moved away, and holds objects.
    async fn counts(&self) -> Result<bool, EngineError> {
        if self.departure().await?.is_some() {
            return Ok(false);
        }
        Ok(self.objects_stored().await? > 0)
    }
}

/// Returns the lock of `path`, where what is there does not count.
async fn vacant(path: &Path) -> Result<Option<FileLock>, OpenError> {
    let lock = lock(path)?;
    if is_blank(path) {
        return Ok(Some(lock));
    }
    let sqlite = Sqlite::open_locked(path, lock).await?;
    let counts = sqlite.counts().await;
    let lock = sqlite.close_locked().await;
    let counts = counts?;
    Ok(lock.filter(|_| !counts))
}

impl Filling {
    /// Returns the keys of resources that are known, as statements take them.
    fn keys(&self, wanted: &[RowKey]) -> String {
        let known = wanted.iter().filter(|(id, _)| self.ids.contains_key(id));
        keys(known.map(|(id, key)| (*id, key)))
    }

    /// Removes the file. Its place stays taken until that is done.
    async fn remove(&self) -> Result<(), EngineError> {
        let lock = self.sqlite.close_locked().await;
        remove_database(&self.path)?;
        drop(lock);
        Ok(())
    }
}
