//! The SQLite engine: one file, one process.
//!
//! One connection writes, in the committer's order; others read beside it (WAL). Committed changes
//! survive a crash of the process and of the machine (`synchronous = FULL`).

pub(super) mod arrival;
mod compact;
mod connection;
mod copying;
mod filling;
mod import;
mod mark;
pub(super) mod moving;
pub(super) mod placing;
mod read;
mod resources;
mod restoring;
mod rows;
mod write;

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crds::control::{DigestItem, GateSpec};
use sqlx::migrate::MigrateError;
use sqlx::sqlite::{SqlitePool, SqlitePoolOptions};

use self::connection::Writer;
pub(super) use self::mark::is_blank;
use super::OpenError;
use super::engine::{
    Commit, Compaction, DictionaryOf, Engine, EngineError, ImportChunk, ImportOutcome, Loaded, Op,
    OpOutcome, Refusal, Tail,
};
use crate::cache::{Log, LogError, LogPage};
use crate::model::{Dictionary, ObjectKey, ResourceDef, ResourceId, ResourceRecord, StoredObject};

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("migrations/sqlite");

/// End of the name of the file by which a database is locked.
pub(super) const LOCK: &str = ".lock";

/// Connections for reading: the start, watches that are behind the ring, the control API.
const READERS: u32 = 4;

/// See the module's documentation.
pub(crate) struct Sqlite {
    writer: Writer,
    readers: SqlitePool,
    /// Held while the database is open; the system releases it when the process ends.
    lock: Mutex<Option<FileLock>>,
}

impl Sqlite {
    /// Opens the database of a server as [`open`](Self::open) does, and marks it as in use. Where
    /// it is marked and nothing is there, it is lost, and no empty one is begun in its place.
    pub async fn open_in_use(path: &Path) -> Result<Self, OpenError> {
        mark::check(path)?;
        let sqlite = Self::open(path).await?;
        mark::set(path);
        Ok(sqlite)
    }

    /// Opens the database at `path` and brings its schema up to date.
    pub async fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_locked(path, lock(path)?).await
    }

    /// Opens the database at `path` likewise. `lock` keeps other processes from it.
    async fn open_locked(path: &Path, lock: FileLock) -> Result<Self, OpenError> {
        let options = connection::options(path);
        let first = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_lazy_with(options.clone());
        MIGRATIONS.run(&first).await.map_err(|error| match error {
            MigrateError::VersionMissing(version) => {
                OpenError::Newer(format!("migration {version} is not known here"))
            }
            error => OpenError::Database(error.into()),
        })?;
        let first = first.acquire().await.map_err(EngineError::from)?.detach();
        let readers = connection::readers(path, READERS);
        Ok(Self {
            writer: Writer::new(options, first),
            readers,
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Closes the database, which folds the write-ahead log into the file.
    pub async fn close_file(&self) {
        drop(self.close_locked().await);
    }

    /// Closes the database as [`close_file`](Self::close_file), and returns its lock: nobody can open
    /// it before that is dropped.
    pub async fn close_locked(&self) -> Option<FileLock> {
        self.readers.close().await;
        self.writer.close().await;
        self.lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

/// A lock of a file, released when this is dropped.
#[derive(Debug)]
pub(crate) struct FileLock(File);

impl Drop for FileLock {
    /// Releases the lock itself: a child that was forked meanwhile shares the open file until it is
    /// another program, and closing ours alone would leave it locked until then.
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "unlocking the database");
        }
    }
}

/// Returns the path of a file that belongs to the database at `path`: its own, with an end of its name.
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

/// Locks `path` against other processes.
pub(super) fn lock(path: &Path) -> Result<FileLock, OpenError> {
    let name = beside(path, LOCK);
    let path = name.display().to_string();
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&name);
    let locked = file.and_then(|file| match file.try_lock() {
        Ok(()) => Ok(Some(FileLock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    });
    match locked {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(OpenError::Locked { path }),
        Err(source) => Err(OpenError::Lock { path, source }),
    }
}

#[async_trait::async_trait]
impl Log for Sqlite {
    async fn events(
        &self,
        resource: ResourceId,
        after: u64,
        max: usize,
    ) -> Result<LogPage, LogError> {
        read::events(&self.readers, resource, after, max)
            .await
            .map(|events| LogPage { events, horizon: 0 })
            .map_err(|error| LogError(Box::new(error)))
    }
}

#[async_trait::async_trait]
impl Engine for Sqlite {
    fn is_unprepared(&self) -> bool {
        false
    }

    async fn load(&self) -> Result<Loaded, EngineError> {
        read::load(&self.readers).await
    }

    async fn objects(
        &self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
        dictionary: &Arc<Dictionary>,
    ) -> Result<Vec<StoredObject>, EngineError> {
        read::objects(&self.readers, resource, after, max, dictionary).await
    }

    async fn tail(
        &self,
        seq: u64,
        max: usize,
        dictionary_of: DictionaryOf<'_>,
    ) -> Result<Tail, EngineError> {
        read::tail(&self.readers, seq, max, dictionary_of).await
    }

    async fn newest_seq(&self) -> Result<Option<u64>, EngineError> {
        Ok(None)
    }

    async fn is_put_back(&self) -> Result<bool, EngineError> {
        self.has_put_back().await
    }

    async fn begin_anew(&self, revision: u64) -> Result<(), EngineError> {
        self.begin_above(revision).await
    }

    async fn commit(&self, ops: Vec<Op>) -> Result<Commit<Vec<OpOutcome>>, EngineError> {
        write::commit(self.writer.begin().await?, ops).await
    }

    async fn define(&self, def: &ResourceDef) -> Result<Commit<ResourceRecord>, EngineError> {
        resources::define(self.writer.begin().await?, def).await
    }

    async fn reset(
        &self,
        id: ResourceId,
        fence: Option<u64>,
    ) -> Result<Commit<Result<(), Refusal>>, EngineError> {
        resources::reset(self.writer.begin().await?, id, fence).await
    }

    async fn import(
        &self,
        chunk: ImportChunk,
    ) -> Result<Commit<Result<ImportOutcome, Refusal>>, EngineError> {
        import::import(self.writer.begin().await?, chunk).await
    }

    async fn set_gate(
        &self,
        id: ResourceId,
        gate: &GateSpec,
        holder: Option<&str>,
    ) -> Result<Commit<Result<(), Refusal>>, EngineError> {
        resources::set_gate(self.writer.begin().await?, id, gate, holder).await
    }

    async fn take_fence(&self, id: ResourceId) -> Result<Commit<u64>, EngineError> {
        resources::take_fence(self.writer.begin().await?, id).await
    }

    async fn raise_floor(&self, floor: u64) -> Result<Commit<()>, EngineError> {
        let mut tx = self.writer.begin().await?;
        tx.position.counter = tx.position.counter.max(floor);
        tx.commit(()).await
    }

    async fn compactable(
        &self,
        before: SystemTime,
        max_bytes: u64,
        max: usize,
    ) -> Result<Option<Compaction>, EngineError> {
        compact::compactable(&self.readers, before, max_bytes, max).await
    }

    async fn compact(&self, compaction: &Compaction) -> Result<Commit<()>, EngineError> {
        compact::compact(self.writer.begin().await?, compaction).await
    }

    async fn collect_garbage(&self, max: usize) -> Result<usize, EngineError> {
        compact::collect_garbage(self.writer.begin().await?, max).await
    }

    async fn save_definition(&self, group: &str, body: &str) -> Result<(), EngineError> {
        let mut tx = self.writer.begin().await?;
        sqlx::query("INSERT OR REPLACE INTO definitions (api_group, body) VALUES (?, ?)")
            .bind(group)
            .bind(body)
            .execute(&mut *tx)
            .await?;
        tx.commit(()).await.map(drop)
    }

    async fn load_definitions(&self) -> Result<Vec<(String, String)>, EngineError> {
        let query = sqlx::query_as("SELECT api_group, body FROM definitions ORDER BY api_group");
        Ok(query.fetch_all(&self.readers).await?)
    }

    async fn marks(
        &self,
        resource: ResourceId,
        after: Option<(&str, &str)>,
        max: usize,
    ) -> Result<Vec<DigestItem>, EngineError> {
        read::marks(&self.readers, resource, after, max).await
    }

    async fn write_copy(&self, path: &Path) -> Result<bool, EngineError> {
        copying::copy(&self.readers, path).await.map(|()| true)
    }

    async fn close(&self) {
        self.close_file().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case::closed(true)]
    #[case::dropped(false)]
    #[tokio::test]
    async fn a_forked_child_does_not_keep_the_lock(#[case] closed: bool) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("reports.db");
        let sqlite = Sqlite::open(&path).await.unwrap();
        // A child of fork has the same open file.
        let forked = sqlite
            .lock
            .lock()
            .unwrap()
            .as_ref()
            .map(|lock| lock.0.try_clone());
        if closed {
            sqlite.close().await;
        }
        drop(sqlite);
        let again = Sqlite::open(&path).await.unwrap();
        again.close().await;
        forked.unwrap().unwrap();
    }
}
