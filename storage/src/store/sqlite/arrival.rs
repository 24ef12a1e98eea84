//! The file that a PostgreSQL was moved to: how it comes to its place, and how it is known.
//!
//! It is filled under another name, by which nobody opens it. The mark in PostgreSQL makes it count;
//! whoever opens it first behind that gives it its name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions as _, Connection as _, Row as _, SqliteConnection};

use super::placing::{PlaceError, check_folded, remove_database, replace};
use super::rows::{db, un_db};
use super::{FileLock, Sqlite, beside, is_blank, lock, mark};
use crate::store::OpenError;
use crate::store::engine::EngineError;
use crate::store::moving::rows::{Departure, LastCommit, Marker};

/// The end of the name of a database that is being filled; the attempt follows. Each has a name of its
/// own: a connection of an earlier one that is closed late must not remove the log of this one.
const COPY: &str = ".arriving-";

/// The move by which a database was filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// The history of the cluster in the database that the reports came from.
    pub source: String,
    /// The attempt, as it is noted there.
    pub attempt: i64,
    /// The order that it carried out.
    pub order: String,
    /// The commit there that this database goes on from; `None` until all is copied.
    pub last: Option<LastCommit>,
}

impl Arrival {
    /// Returns whether the database was filled, as a whole, by the attempt of a marker.
    fn is_by(&self, marker: &Marker) -> bool {
        self.last.is_some() && self.source == marker.source && self.attempt == marker.attempt
    }
}

impl From<PlaceError> for EngineError {
    fn from(error: PlaceError) -> Self {
        let text = error.to_string();
        Self::Database(sqlx::Error::Io(io::Error::new(error.source.kind(), text)))
    }
}

impl From<PlaceError> for OpenError {
    fn from(error: PlaceError) -> Self {
        EngineError::from(error).into()
    }
}

/// Returns the name under which the database at `path` is filled by an attempt.
pub(super) fn copy_of(path: &Path, attempt: i64) -> PathBuf {
    beside(path, &format!("{COPY}{attempt}"))
}

/// Removes what attempts to fill the database at `path` have left. Nobody has its place.
pub(super) fn remove_copies(path: &Path) -> Result<(), PlaceError> {
    let start = beside(path, COPY);
    let directory = path.parent().unwrap_or(path);
    let failed = |source| PlaceError {
        path: directory.to_owned(),
        source,
    };
    for entry in fs::read_dir(directory).map_err(failed)? {
        let found = entry.map_err(failed)?.path();
        let name = found.as_os_str().as_encoded_bytes();
        if name.starts_with(start.as_os_str().as_encoded_bytes()) {
            remove_database(&found)?;
        }
    }
    Ok(())
}

impl Sqlite {
    /// Returns the move by which the database at `path` was filled and is in use; `None` where there is
    /// none, or it has moved on.
    pub async fn arrived_at(path: &Path) -> Result<Option<Arrival>, OpenError> {
        if is_blank(path) {
            return Ok(None);
        }
        let sqlite = match Self::open(path).await {
            // Another server on the same volume is about to fill it, or has it.
            Err(locked @ OpenError::Locked { .. }) => {
                return if is_arrived(path).await? {
                    Err(locked)
                } else {
                    Ok(None)
                };
            }
            opened => opened?,
        };
        let arrival = sqlite.arrival_in_use().await;
        sqlite.close_file().await;
        Ok(arrival?)
    }

    async fn arrival_in_use(&self) -> Result<Option<Arrival>, EngineError> {
        let departed = self.departure().await?.is_some();
        let arrival = self.arrival().await?;
        Ok(arrival.filter(|arrival| !departed && arrival.last.is_some()))
    }

    /// Opens the database at `path`, to which another one was moved; it may have been opened before.
    pub async fn open_moved(path: &Path, departure: &Departure) -> Result<Self, OpenError> {
        let marker = &departure.marker;
        let lock = match Self::open_arrived(path, lock(path)?, marker).await? {
            Ok(sqlite) => return sqlite.in_use(path).await,
            Err(lock) => lock,
        };
        let copy = copy_of(path, marker.attempt);
        let gone = || OpenError::FileGone {
            path: path.display().to_string(),
        };
        let filled = Self::open_arrived(&copy, lock, marker).await?;
        let Ok(filled) = filled else {
            return Err(gone());
        };
        // Closing folds the write-ahead log into the file.
        let lock = filled.close_locked().await.ok_or_else(gone)?;
        check_folded(&copy)?;
        replace(&copy, path)?;
        let sqlite = Self::open_locked(path, lock).await?;
        sqlite.in_use(path).await
    }

    /// Opens the database at `path`; returns the lock where it is not the one that was filled by the
    /// attempt of a marker.
    async fn open_arrived(
        path: &Path,
        lock: FileLock,
        marker: &Marker,
    ) -> Result<Result<Self, FileLock>, OpenError> {
        if is_blank(path) {
            return Ok(Err(lock));
        }
        let sqlite = Self::open_locked(path, lock).await?;
        if sqlite
            .arrival()
            .await?
            .is_some_and(|arrival| arrival.is_by(marker))
        {
            return Ok(Ok(sqlite));
        }
        let path = path.display().to_string();
        let lock = sqlite.close_locked().await;
        lock.map(Err).ok_or(OpenError::Locked { path })
    }

    /// Returns the database, which is in its place, marked as in use; an error where it has moved on.
    async fn in_use(self, path: &Path) -> Result<Self, OpenError> {
        let sqlite = self.not_moved().await?;
        mark::set(path);
        if let Err(error) = remove_copies(path) {
            tracing::warn!(%error, "removing what earlier attempts to move the reports have left");
        }
        Ok(sqlite)
    }

    /// Returns the move by which the database was filled, or is; `None` where it was not.
    pub async fn arrival(&self) -> Result<Option<Arrival>, EngineError> {
        let row =
            sqlx::query("SELECT source, attempt, order_id, seq, batch, counter FROM arrivals")
                .fetch_optional(&self.readers)
                .await?;
        row.as_ref().map(arrival).transpose()
    }

    /// Returns whether the database lacks what clients may hold of the one that was moved here, whose
    /// last commit was `last`.
    pub async fn is_apart(&self, last: &LastCommit) -> Result<bool, EngineError> {
        let arrival = self.arrival().await?;
        let from = arrival.and_then(|arrival| arrival.last);
        Ok(from.as_ref() != Some(last))
    }

    /// Notes the move that fills the database.
    pub(super) async fn note_arrival(
        &self,
        marker: &Marker,
        order: &str,
    ) -> Result<(), EngineError> {
        let mut tx = self.writer.begin().await?;
        sqlx::query("INSERT INTO arrivals (id, source, attempt, order_id) VALUES (1, ?, ?, ?)")
            .bind(marker.source.as_str())
            .bind(marker.attempt)
            .bind(order)
            .execute(&mut *tx)
            .await?;
        tx.commit(()).await.map(drop)
    }
}

/// Returns whether the database at `path`, which another process has locked, was filled by a move and
/// is in use.
async fn is_arrived(path: &Path) -> Result<bool, EngineError> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .disable_statement_logging();
    let mut connection = options.connect().await?;
    let arrived = look(&mut connection).await;
    connection.close().await?;
    arrived
}

async fn look(connection: &mut SqliteConnection) -> Result<bool, EngineError> {
    let known: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_master WHERE name = 'arrivals'")
            .fetch_one(&mut *connection)
            .await?;
    if known == 0 {
        return Ok(false);
    }
    let arrived: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM arrivals WHERE seq IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM moves WHERE seq IS NOT NULL)",
    )
    .fetch_one(connection)
    .await?;
    Ok(arrived > 0)
}

/// Notes the commit of the database that was moved from which this one goes on.
pub(super) async fn go_on_from(
    connection: &mut SqliteConnection,
    last: &LastCommit,
) -> Result<(), EngineError> {
    sqlx::query("UPDATE arrivals SET seq = ?, batch = ?, counter = ?")
        .bind(db(last.seq))
        .bind(last.batch)
        .bind(db(last.counter))
        .execute(connection)
        .await?;
    Ok(())
}

fn arrival(row: &SqliteRow) -> Result<Arrival, EngineError> {
    let seq: Option<i64> = row.try_get("seq")?;
    let counter: Option<i64> = row.try_get("counter")?;
    let batch = row.try_get("batch")?;
    let last = seq.zip(counter).map(|(seq, counter)| LastCommit {
        seq: un_db(seq),
        batch,
        counter: un_db(counter),
    });
    Ok(Arrival {
        source: row.try_get("source")?,
        attempt: row.try_get("attempt")?,
        order: row.try_get("order_id")?,
        last,
    })
}
