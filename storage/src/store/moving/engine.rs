//! The engine of a server whose embedded database can be moved: SQLite until the move is done,
//! PostgreSQL from then on. The layers above it do not notice which.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use crds::control::{DigestItem, GateSpec, GateState};
use tokio::sync::{OnceCell, watch};

use super::renumbered::{Numbers, Renumbered};
use super::rows::RowKey;
use crate::cache::{Log, LogError, LogPage};
use crate::model::{
    Dictionary, Encoded, ObjectKey, ResourceDef, ResourceId, ResourceRecord, StoredObject,
};
use crate::store::DatabaseInfo;
use crate::store::engine::{
    Commit, Compaction, DictionaryOf, Engine, EngineError, ImportChunk, ImportOutcome, Loaded, Op,
    OpKind, OpOutcome, Refusal, Tail,
};
use crate::store::postgres::moving::Filling;
use crate::store::sqlite::Sqlite;

/// See the module's documentation.
pub(crate) struct Movable {
    sqlite: Arc<Sqlite>,
    /// The engine in force.
    present: ArcSwap<Present>,
    /// Writes that an attempt has to know of; `None` while there is no attempt.
    watched: Mutex<Option<Watched>>,
}

enum Present {
    Sqlite(Arc<Sqlite>),
    Postgres(Box<Moved>),
}

/// The database that the reports were moved to.
struct Moved {
    filled: Filling,
    engine: Renumbered,
    /// Set when the cluster was opened there. It may go away between the mark and this.
    open: OnceCell<()>,
}

/// Writes that cannot be seen in the log of changes.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Keys of imports: their marks and last events may be other ones now.
    pub imported: HashSet<RowKey>,
    /// Resources that are not mirrored any more.
    pub opened: HashSet<ResourceId>,
    /// The change up to which all are copied; those behind it are not dropped.
    pub copied: u64,
}

impl Moved {
    async fn opened(&self) -> Result<&Renumbered, EngineError> {
        self.open
            .get_or_try_init(|| async {
                match self.filled.open().await {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(EngineError::Parted),
                    Err(error) => Err(error),
                }
            })
            .await?;
        Ok(&self.engine)
    }
}

impl Movable {
    /// Returns an engine that begins with SQLite.
    pub fn new(sqlite: Arc<Sqlite>) -> Self {
        Self {
            present: ArcSwap::from_pointee(Present::Sqlite(Arc::clone(&sqlite))),
            sqlite,
            watched: Mutex::default(),
        }
    }

    /// Returns the database that is moved.
    pub fn sqlite(&self) -> &Arc<Sqlite> {
        &self.sqlite
    }

    /// Watches all writes from now on.
    pub(super) fn watch(&self) {
        *self.watched() = Some(Watched::default());
    }

    /// Ends the watch.
    pub(super) fn unwatch(&self) {
        *self.watched() = None;
    }

    /// Returns the writes since the last call; all of them are committed. `copied` is the change up
    /// to which the log is copied.
    pub(super) fn take(&self, copied: u64) -> Watched {
        let mut watched = self.watched();
        let taken = watched.take().unwrap_or_default();
        *watched = Some(Watched {
            copied,
            ..Watched::default()
        });
        taken
    }

    fn watched(&self) -> MutexGuard<'_, Option<Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on in the database that was filled. Called by the committer, when SQLite is marked as
    /// moved. An error leaves the called engine in force: the database is away, and comes back.
    pub(super) async fn go_over(&self, filled: Filling) -> Result<(), EngineError> {
        let numbers = Numbers::new(filled.ids());
        let moved = Box::new(Moved {
            engine: Renumbered::new(filled.engine(), numbers),
            filled,
            open: OnceCell::new(),
        });
        self.unwatch();
        self.present.store(Arc::new(Present::Postgres(moved)));
        match &**self.present.load() {
            Present::Postgres(moved) => moved.opened().await.map(drop),
            Present::Sqlite(_) => Ok(()),
        }
    }
}

/// Carries a call out by the engine in force.
macro_rules! forward {
    ($self:ident . $function:ident ( $($argument:expr),* )) => {
        match &*$self.present.load_full() {
            Present::Sqlite(engine) => engine.$function($($argument),*).await,
            Present::Postgres(moved) => moved.opened().await?.$function($($argument),*).await,
        }
    };
}

#[async_trait::async_trait]
impl Log for Movable {
    async fn events(
        &self,
        resource: ResourceId,
        after: u64,
        max: usize,
    ) -> Result<LogPage, LogError> {
        match &*self.present.load_full() {
            Present::Sqlite(engine) => engine.events(resource, after, max).await,
            Present::Postgres(moved) => {
                let engine = moved.opened().await;
                let engine = engine.map_err(|error| LogError(Box::new(error)))?;
                engine.events(resource, after, max).await
            }
        }
    }
}

#[async_trait::async_trait]
impl Engine for Movable {
    async fn load(&self) -> Result<Loaded, EngineError> {
        forward!(self.load())
    }

    async fn objects(
        &self,
        resource: ResourceId,
        after: Option<&ObjectKey>,
        max: usize,
        dictionary: &Arc<Dictionary>,
    ) -> Result<Vec<StoredObject>, EngineError> {
        forward!(self.objects(resource, after, max, dictionary))
    }

    async fn tail(
        &self,
        seq: u64,
        max: usize,
        dictionary_of: DictionaryOf<'_>,
    ) -> Result<Tail, EngineError> {
        forward!(self.tail(seq, max, dictionary_of))
    }

    async fn newest_seq(&self) -> Result<Option<u64>, EngineError> {
        forward!(self.newest_seq())
    }

    fn announcements(&self) -> Option<watch::Receiver<u64>> {
        match &**self.present.load() {
            Present::Sqlite(_) => None,
            Present::Postgres(moved) => moved.engine.announcements(),
        }
    }

    fn is_listening(&self) -> bool {
        match &**self.present.load() {
            Present::Sqlite(_) => false,
            Present::Postgres(moved) => moved.engine.is_listening(),
        }
    }

    fn arrivals(&self) -> Option<watch::Receiver<u64>> {
        match &**self.present.load() {
            Present::Sqlite(_) => None,
            Present::Postgres(moved) => moved.engine.arrivals(),
        }
    }

    fn info(&self) -> Option<DatabaseInfo> {
        match &**self.present.load() {
            Present::Sqlite(engine) => engine.info(),
            Present::Postgres(moved) => moved.engine.info(),
        }
    }

    fn history(&self) -> Option<String> {
        match &**self.present.load() {
            Present::Sqlite(engine) => engine.history(),
            Present::Postgres(moved) => moved.engine.history(),
        }
    }

    fn elsewhere(&self) -> Option<String> {
        match &**self.present.load() {
            Present::Sqlite(engine) => engine.elsewhere(),
            Present::Postgres(moved) => moved.engine.elsewhere(),
        }
    }

    async fn rejoin(&self, counter: u64) -> Result<(), EngineError> {
        forward!(self.rejoin(counter))
    }

    async fn is_put_back(&self) -> Result<bool, EngineError> {
        forward!(self.is_put_back())
    }

    async fn begin_anew(&self, revision: u64) -> Result<(), EngineError> {
        forward!(self.begin_anew(revision))
    }

    fn projects(&self) -> bool {
        match &**self.present.load() {
            Present::Sqlite(_) => false,
            Present::Postgres(_) => true,
        }
    }

    async fn commit(&self, mut ops: Vec<Op>) -> Result<Commit<Vec<OpOutcome>>, EngineError> {
        if self.projects() {
            // What was queued before the move has nothing projected.
            let written = ops
                .iter_mut()
                .filter(|op| matches!(op.kind, OpKind::Create | OpKind::Update { .. }));
            written.map(|op| &mut op.object).try_for_each(project)?;
        }
        forward!(self.commit(ops))
    }

    async fn define(&self, def: &ResourceDef) -> Result<Commit<ResourceRecord>, EngineError> {
        forward!(self.define(def))
    }

    async fn reset(
        &self,
        id: ResourceId,
        fence: Option<u64>,
    ) -> Result<Commit<Result<(), Refusal>>, EngineError> {
        forward!(self.reset(id, fence))
    }

    async fn import(
        &self,
        mut chunk: ImportChunk,
    ) -> Result<Commit<Result<ImportOutcome, Refusal>>, EngineError> {
        if self.projects() {
            let objects = chunk
                .items
                .iter_mut()
                .filter_map(|item| item.object.as_mut());
            objects.into_iter().try_for_each(project)?;
        }
        let resource = chunk.resource;
        let keys = chunk.items.iter().map(|item| (resource, item.key.clone()));
        let keys: Vec<RowKey> = keys.collect();
        let imported = forward!(self.import(chunk));
        // Behind the commit, so that whoever takes them finds what was committed.
        if let Some(watched) = &mut *self.watched() {
            watched.imported.extend(keys);
        }
        imported
    }

    async fn set_gate(
        &self,
        id: ResourceId,
        gate: &GateSpec,
        holder: Option<&str>,
    ) -> Result<Commit<Result<(), Refusal>>, EngineError> {
        let set = forward!(self.set_gate(id, gate, holder));
        if gate.state == GateState::Open
            && let Some(watched) = &mut *self.watched()
        {
            watched.opened.insert(id);
        }
        set
    }

    async fn take_fence(&self, id: ResourceId) -> Result<Commit<u64>, EngineError> {
        forward!(self.take_fence(id))
    }

    async fn raise_floor(&self, floor: u64) -> Result<Commit<()>, EngineError> {
        forward!(self.raise_floor(floor))
    }

    async fn compactable(
        &self,
        before: SystemTime,
        max_bytes: u64,
        max: usize,
    ) -> Result<Option<Compaction>, EngineError> {
        let found = forward!(self.compactable(before, max_bytes, max))?;
        let copied = self.watched().as_ref().map(|watched| watched.copied);
        // What is not copied yet stays.
        Ok(found.filter(|found| copied.is_none_or(|copied| found.seq <= copied)))
    }

    async fn compact(&self, compaction: &Compaction) -> Result<Commit<()>, EngineError> {
        forward!(self.compact(compaction))
    }

    async fn collect_garbage(&self, max: usize) -> Result<usize, EngineError> {
        forward!(self.collect_garbage(max))
    }

    fn is_unprepared(&self) -> bool {
        match &**self.present.load() {
            Present::Sqlite(engine) => engine.is_unprepared(),
            Present::Postgres(moved) => moved.engine.is_unprepared(),
        }
    }

    async fn prepare(&self) -> Result<(), EngineError> {
        forward!(self.prepare())
    }

    async fn save_definition(&self, group: &str, body: &str) -> Result<(), EngineError> {
        forward!(self.save_definition(group, body))
    }

    async fn load_definitions(&self) -> Result<Vec<(String, String)>, EngineError> {
        forward!(self.load_definitions())
    }

    async fn marks(
        &self,
        resource: ResourceId,
        after: Option<(&str, &str)>,
        max: usize,
    ) -> Result<Vec<DigestItem>, EngineError> {
        forward!(self.marks(resource, after, max))
    }

    async fn write_copy(&self, path: &Path) -> Result<bool, EngineError> {
        forward!(self.write_copy(path))
    }

    async fn close(&self) {
        if let Present::Postgres(moved) = &*self.present.load_full() {
            moved.engine.close().await;
        }
        self.sqlite.close().await;
    }
}

/// Adds the projection of an object where it was encoded without.
fn project(object: &mut Encoded) -> Result<(), EngineError> {
    if object.projection.is_none() {
        object
            .project()
            .map_err(|error| crate::store::engine::corrupt(&"an object", error))?;
    }
    Ok(())
}
