//! The one task that writes.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{
    Observer, StoreError, WriteError, Written,
    engine::{Commit, Engine, EngineError, Op, OpOutcome, corrupt},
    queue::{Pending, Queue, Work},
    registry::Registry,
    stats::Counters,
};
use crate::{
    cache::{Change, Event, Log, Resource, Shared},
    model::{Position, ResourceId, ResourceRecord, StoredObject},
};

/// Changes that are read at a time to catch up.
const TAIL_PAGE: usize = 500;
/// Objects that are read at a time to fill the cache.
const OBJECTS_PAGE: usize = 500;
/// What clients are told to wait while the database does not work.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// See [`super`].
pub(super) struct Committer {
    pub engine: Arc<dyn Engine>,
    pub registry: Arc<Registry>,
    pub shared: Arc<Shared>,
    pub queue: Arc<Queue>,
    pub counters: Arc<Counters>,
    pub observer: Arc<dyn Observer>,
    /// What the cache holds.
    pub position: Position,
    /// False after a transaction whose outcome is not known: the database may be ahead of the
    /// cache, and is asked before anything else is written.
    pub in_step: bool,
}

/// Ends the process when the committer panics: cache and database may be apart then, nobody would
/// write any more, and a start from the database puts both right.
struct EndProcessOnPanic;

impl Drop for EndProcessOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the committer has panicked; the process ends, to start again");
            std::process::abort();
        }
    }
}

impl Committer {
    /// Works until the queue is closed and empty.
    pub async fn run(mut self) {
        let _end = EndProcessOnPanic;
        while let Some(Work { order, writes }) = self.queue.take().await {
            if let Some(order) = order {
                order(&mut self).await;
            }
            if !writes.is_empty() {
                self.write(writes).await;
            }
        }
        self.engine.close().await;
    }

    /// Commits a batch and answers those who wait for it.
    async fn write(&mut self, pending: Vec<Pending>) {
        let (ops, answers): (Vec<Op>, Vec<_>) = pending
            .into_iter()
            .filter(|p| !p.answer.is_closed())
            .map(|p| (p.op, p.answer))
            .unzip();
        if ops.is_empty() {
            return;
        }
        let writes = ops.len();
        let keys: Vec<_> = ops.iter().map(|op| op.key.clone()).collect();
        let start = Instant::now();
        let engine = Arc::clone(&self.engine);
        let result = self.transaction(engine.commit(ops)).await;
        let elapsed = start.elapsed();
        self.observer.committed(writes, elapsed, result.is_ok());
        self.counters.batch(writes);
        self.queue.drained(writes, elapsed);
        match result {
            Ok((outcomes, events)) => {
                let mut events = events.into_iter();
                for ((answer, key), outcome) in answers.into_iter().zip(keys).zip(outcomes) {
                    // A client that has gone needs no answer.
                    let _ = answer.send(match outcome {
                        OpOutcome::Written => written(events.next().flatten()),
                        OpOutcome::AlreadyExists => Err(WriteError::AlreadyExists(key)),
                        OpOutcome::NotFound => Err(WriteError::NotFound(key)),
                        OpOutcome::Conflict { uid, rv } => {
                            Err(WriteError::Conflict { key, uid, rv })
                        }
                        OpOutcome::Gate(state) => Err(WriteError::Gate(state)),
                    });
                }
            }
            Err(error) => {
                let reason = error.to_string();
                for answer in answers {
                    let _ = answer.send(Err(unavailable(&reason).into()));
                }
            }
        }
    }

    /// Carries out a transaction and applies it to the cache: gives its outcome and the event of
    /// each change.
    pub async fn transaction<T>(
        &mut self,
        commit: impl Future<Output = Result<Commit<T>, EngineError>> + Send,
    ) -> Result<(T, Vec<Option<Arc<Event>>>), EngineError> {
        let result = self.try_transaction(commit).await;
        self.counters.transaction(result.is_ok());
        if let Err(error) = &result {
            tracing::error!(%error, "the database did not take a transaction");
            self.in_step = false;
        }
        result
    }

    async fn try_transaction<T>(
        &mut self,
        commit: impl Future<Output = Result<Commit<T>, EngineError>> + Send,
    ) -> Result<(T, Vec<Option<Arc<Event>>>), EngineError> {
        if !self.in_step {
            self.catch_up().await?;
        }
        let Commit {
            outcome,
            before,
            position,
            changes,
            records,
        } = commit.await?;
        if before != self.position.seq {
            self.tail(before).await?;
        }
        let events = self.apply(changes);
        self.apply_records(records);
        self.reached(position);
        Ok((outcome, events))
    }

    /// Brings the cache to where the database is.
    async fn catch_up(&mut self) -> Result<(), EngineError> {
        let loaded = self.engine.load().await?;
        // A reset forgets what the cache holds, so it goes before the changes that follow it; all
        // else in a record tells of changes, and goes behind them.
        for record in &loaded.records {
            match self.registry.by_name(&record.def.resource) {
                Some(known) if known.record().id == record.id => {}
                _ => self.put_record(record.clone()),
            }
        }
        self.tail(loaded.position.seq).await?;
        self.apply_records(loaded.records);
        self.reached(loaded.position);
        self.in_step = true;
        Ok(())
    }

    /// Applies the changes up to `seq` that the cache has not seen.
    async fn tail(&mut self, seq: u64) -> Result<(), EngineError> {
        while self.position.seq < seq {
            let page = self.engine.tail(self.position.seq, TAIL_PAGE).await?;
            if page.seq <= self.position.seq {
                return Err(corrupt(&format!("change {seq}"), "is not in the log"));
            }
            let wanted = page.changes.into_iter().filter(|(_, c)| c.seq <= seq);
            self.apply(wanted.collect());
            self.position.seq = page.seq.min(seq);
        }
        Ok(())
    }

    /// Applies changes, and gives the event of each in the same order.
    fn apply(&self, changes: Vec<(ResourceId, Change)>) -> Vec<Option<Arc<Event>>> {
        let mut events = vec![None; changes.len()];
        let mut by_resource: HashMap<ResourceId, (Vec<usize>, Vec<Change>)> = HashMap::new();
        for (place, (id, change)) in changes.into_iter().enumerate() {
            let (places, changes) = by_resource.entry(id).or_default();
            places.push(place);
            changes.push(change);
        }
        for (id, (places, changes)) in by_resource {
            // Changes of a resource that was reset since are of no interest.
            let Some(resource) = self.registry.by_id(id) else {
                continue;
            };
            for (place, event) in places.into_iter().zip(resource.apply(changes)) {
                events[place] = event;
            }
        }
        events
    }

    fn apply_records(&self, records: Vec<ResourceRecord>) {
        for record in records {
            self.put_record(record);
        }
    }

    /// Applies a record; a resource that is new has no objects yet.
    fn put_record(&self, record: ResourceRecord) {
        match self.registry.by_name(&record.def.resource) {
            Some(resource) => {
                self.registry.put(record.id, &resource);
                resource.apply_record(record);
            }
            None => self.add(record, Vec::new()),
        }
    }

    fn add(&self, record: ResourceRecord, objects: Vec<StoredObject>) {
        let id = record.id;
        let log: Arc<dyn Log> = Arc::clone(&self.engine) as Arc<dyn Log>;
        let resource = Resource::new(record, objects, Arc::clone(&self.shared), log);
        self.registry.put(id, &Arc::new(resource));
    }

    /// Publishes that the cache has everything up to `position`.
    fn reached(&mut self, position: Position) {
        self.position = position;
        self.shared
            .applied
            .store(position.counter, Ordering::Release);
        self.shared.commits.send_replace(position);
    }

    /// Fills the cache at the start.
    pub async fn load(&mut self) -> Result<(), EngineError> {
        let loaded = self.engine.load().await?;
        for record in loaded.records {
            let mut objects: Vec<StoredObject> = Vec::new();
            loop {
                let after = objects.last().map(|o| &o.key);
                let page = self.engine.objects(record.id, after, OBJECTS_PAGE).await?;
                let more = page.len() == OBJECTS_PAGE;
                objects.extend(page);
                if !more {
                    break;
                }
            }
            self.add(record, objects);
        }
        self.reached(loaded.position);
        Ok(())
    }
}

fn written(event: Option<Arc<Event>>) -> Result<Written, WriteError> {
    match event {
        Some(event) => Ok(Written { event }),
        // The write is durable, but was applied as part of a reset cache; the client looks again.
        None => Err(unavailable("the resource was reset meanwhile").into()),
    }
}

/// The database does not work.
#[expect(
    clippy::needless_pass_by_value,
    reason = "errors come by value from `map_err`"
)]
pub(super) fn unavailable(reason: impl ToString) -> StoreError {
    StoreError::Unavailable {
        retry_after: RETRY_AFTER,
        reason: reason.to_string(),
    }
}
