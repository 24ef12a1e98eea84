//! The calls of a database that can be moved, each carried out by the engine in force.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use crds::control::{DigestItem, GateSpec, GateState};
use tokio::sync::watch;

use super::engine::{Movable, Present};
use super::rows::RowKey;
use crate::cache::{Log, LogError, LogPage};
use crate::model::{
    Dictionary, Encoded, ObjectKey, ResourceDef, ResourceId, ResourceRecord, StoredObject,
};
use crate::store::DatabaseInfo;
use crate::store::engine::{
    Commit, Compaction, DictionaryOf, Engine, EngineError, ImportChunk, ImportOutcome, Loaded, Op,
    OpKind, OpOutcome, Refusal, Tail, corrupt,
};

/// Returns the error that a batch was refused and is not kept.
fn refused() -> EngineError {
    corrupt(
        &"a batch",
        "was refused, as the reports have moved meanwhile",
    )
}

/// Carries a call out by the engine in force, and by the next one where that has gone away. The
/// arguments are good for two calls.
macro_rules! forward {
    ($self:ident . $function:ident ( $($argument:expr),* )) => {{
        let present = $self.in_force().await?;
        match present.engine().$function($($argument),*).await {
            Err(error) if present.is_source() => {
                let moved = $self.instead(error).await?;
                moved.engine().$function($($argument),*).await
            }
            done => done,
        }
    }};
}

/// Asks the engine in force for something that it knows by itself.
macro_rules! known {
    ($self:ident . $function:ident ()) => {
        match &**$self.present.load() {
            Present::Source(engine) => engine.$function(),
            Present::Moved(engine) => engine.$function(),
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
        let present = self.in_force().await;
        let present = present.map_err(|error| LogError(Box::new(error)))?;
        present.engine().events(resource, after, max).await
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
        known!(self.announcements())
    }

    fn is_listening(&self) -> bool {
        known!(self.is_listening())
    }

    fn arrivals(&self) -> Option<watch::Receiver<u64>> {
        known!(self.arrivals())
    }

    fn info(&self) -> Option<DatabaseInfo> {
        known!(self.info())
    }

    fn history(&self) -> Option<String> {
        known!(self.history())
    }

    fn elsewhere(&self) -> Option<String> {
        known!(self.elsewhere())
    }

    fn behind_since(&self) -> Option<Instant> {
        *self.behind()
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
        known!(self.projects())
    }

    async fn commit(&self, mut ops: Vec<Op>) -> Result<Commit<Vec<OpOutcome>>, EngineError> {
        let present = self.in_force().await?;
        if present.engine().projects() {
            // What was queued before the move has nothing projected.
            let written = ops
                .iter_mut()
                .filter(|op| matches!(op.kind, OpKind::Create | OpKind::Update { .. }));
            written.map(|op| &mut op.object).try_for_each(project)?;
        }
        if !present.is_source() {
            return present.engine().commit(ops).await;
        }
        // Refused where the reports are elsewhere: then they are written there.
        let ordered = self.ordered.load(Ordering::Relaxed) && self.source.is_shared();
        let again = ordered.then(|| ops.clone());
        match (present.engine().commit(ops).await, again) {
            (Err(error), Some(ops)) => {
                let moved = self.instead(error).await?;
                moved.engine().commit(ops).await
            }
            (Err(error), None) => {
                let moved = self.instead(error).await;
                Err(moved.err().unwrap_or_else(refused))
            }
            (done, _) => done,
        }
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
        if self.in_force().await?.engine().projects() {
            let objects = chunk
                .items
                .iter_mut()
                .filter_map(|item| item.object.as_mut());
            objects.into_iter().try_for_each(project)?;
        }
        let resource = chunk.resource;
        let keys = chunk.items.iter().map(|item| (resource, item.key.clone()));
        let keys: Vec<RowKey> = keys.collect();
        let imported: Result<Commit<Result<ImportOutcome, Refusal>>, EngineError> =
            async { forward!(self.import(chunk.clone())) }.await;
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
        let set: Result<Commit<Result<(), Refusal>>, EngineError> =
            async { forward!(self.set_gate(id, gate, holder)) }.await;
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
        let watched = self.watched().as_ref().map(|watched| watched.copied);
        // Another server may copy.
        let noted = if found.is_some() && self.moved().is_none() {
            self.source.copied().await?
        } else {
            None
        };
        let copied = watched.into_iter().chain(noted).min();
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
        known!(self.is_unprepared())
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
        self.source.leave().await;
        if let Present::Moved(engine) = &*self.present.load_full() {
            engine.close().await;
        }
        self.first.close().await;
    }
}

/// Adds the projection of an object where it was encoded without.
fn project(object: &mut Encoded) -> Result<(), EngineError> {
    if object.projection.is_none() {
        object
            .project()
            .map_err(|error| corrupt(&"an object", error))?;
    }
    Ok(())
}
