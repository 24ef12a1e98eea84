//! Following the database by the cache: at the start, behind other servers, and after a failure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::committer::Committer;
use super::compression::Early;
use super::engine::{Commit, EngineError, Tail, corrupt};
use crate::cache::{Change, Event, Log, Resource};
use crate::model::{Dictionary, Position, ResourceId, ResourceRecord, StoredObject};

/// Changes that are read at a time to catch up.
const TAIL_PAGE: usize = 500;
/// Objects that are read at a time to fill the cache.
const OBJECTS_PAGE: usize = 500;

/// Tells versions that the counter was raised to from those that it gave to writes.
///
/// Each write takes the next version, so a gap before one says that the counter was raised in
/// between, also where the raise and the writes of another server are seen together.
#[derive(Debug, Default)]
pub(super) struct Versions {
    newest: u64,
    /// The version that the counter was raised to since [`Versions::reached`].
    floor: Option<u64>,
}

impl Versions {
    /// Notes that a write has this version.
    fn written(&mut self, version: u64) {
        if version > self.newest + 1 {
            self.floor = Some(version - 1);
        }
        self.newest = self.newest.max(version);
    }

    /// Notes that the counter is at this version. Returns the newest one that it was raised to
    /// since the last time, if it was.
    fn reached(&mut self, counter: u64) -> Option<u64> {
        if counter > self.newest {
            self.newest = counter;
            self.floor = Some(counter);
        }
        self.floor.take()
    }
}

impl Committer {
    /// Applies some of the commits of other servers.
    pub async fn follow(&mut self) -> Result<(), EngineError> {
        if !self.in_step {
            return self.catch_up().await;
        }
        let result = self.try_follow().await;
        if result.is_err() {
            self.in_step = false;
        }
        self.or_recover(result).await
    }

    /// Follows by one page: the commits behind it are looked for again, and our own writes take
    /// their turn between. Others may write faster than they can be followed.
    async fn try_follow(&mut self) -> Result<(), EngineError> {
        let page = self.tail_page().await?;
        if page.seq <= self.position.seq {
            return Ok(());
        }
        if !self.knows_records_of(&page) {
            return self.try_catch_up(u64::MAX).await.map(drop);
        }
        self.apply(page.changes);
        self.reached(Position {
            seq: page.seq,
            counter: page.counter.unwrap_or(self.position.counter),
        });
        Ok(())
    }

    /// Brings the cache to the state of the database.
    pub async fn catch_up(&mut self) -> Result<(), EngineError> {
        let result = if self.parted {
            Err(EngineError::Parted)
        } else {
            self.try_catch_up(u64::MAX).await.map(drop)
        };
        self.or_recover(result).await
    }

    /// Brings the cache to the state of the database, beyond a commit of our own: changes of the
    /// records by others since are in force for it as well.
    pub async fn catch_up_over<T>(
        &mut self,
        commit: Commit<T>,
    ) -> Result<(T, Vec<Option<Arc<Event>>>), EngineError> {
        let events = self.try_catch_up(commit.before).await?;
        let own = commit.changes.iter();
        let events = own.map(|(_, change)| events.get(&change.seq).cloned());
        Ok((commit.outcome, events.collect()))
    }

    /// Returns the events behind `collect_behind`, by seq.
    async fn try_catch_up(
        &mut self,
        collect_behind: u64,
    ) -> Result<BTreeMap<u64, Arc<Event>>, EngineError> {
        let loaded = self.engine.load().await?;
        // A reset forgets what the cache holds, so it goes before the changes that follow it; all
        // else in a record tells of changes, and goes behind them.
        for record in &loaded.records {
            match self.registry.by_name(&record.def.resource) {
                Some(known) if known.record().id == record.id => {}
                _ => self.put_record(record.clone()),
            }
        }
        let events = self.tail(loaded.position.seq, collect_behind).await?;
        self.apply_records(loaded.records);
        self.reached(loaded.position);
        self.in_step = true;
        Ok(events)
    }

    /// Returns the next changes that the cache has not seen.
    async fn tail_page(&self) -> Result<Tail, EngineError> {
        let dictionary_of = |id: ResourceId| self.registry.dictionary(id);
        let page = self
            .engine
            .tail(self.position.seq, TAIL_PAGE, &dictionary_of);
        page.await
    }

    /// Applies the changes up to `seq` that the cache has not seen; returns the events of those
    /// behind `collect_behind`, by seq. The cache has the records of that moment: a resource that
    /// it does not know was reset since.
    async fn tail(
        &mut self,
        seq: u64,
        collect_behind: u64,
    ) -> Result<BTreeMap<u64, Arc<Event>>, EngineError> {
        let mut events = BTreeMap::new();
        while self.position.seq < seq {
            let page = self.page_up_to(seq).await?;
            for event in self.apply(page.changes).into_iter().flatten() {
                if event.seq > collect_behind {
                    events.insert(event.seq, event);
                }
            }
            self.position.seq = page.seq;
        }
        Ok(events)
    }

    /// Applies the changes of other servers up to `seq`, the commit before one of our own. Returns
    /// false where they come with changes of records, which have to be read first: a resource that
    /// was reset among them is another one from then on. The changes up to there are applied.
    pub async fn tail_without_records(&mut self, seq: u64) -> Result<bool, EngineError> {
        while self.position.seq < seq {
            let page = self.page_up_to(seq).await?;
            if !self.knows_records_of(&page) {
                return Ok(false);
            }
            self.apply(page.changes);
            self.position.seq = page.seq;
        }
        Ok(true)
    }

    /// Returns the next changes, none of them behind `seq`.
    async fn page_up_to(&self, seq: u64) -> Result<Tail, EngineError> {
        let mut page = self.tail_page().await?;
        if page.seq <= self.position.seq {
            return Err(corrupt(&format!("change {seq}"), "is not in the log"));
        }
        // Whole commits: a page may end behind what is wanted, and then it is not needed yet.
        page.changes.retain(|(_, change)| change.seq <= seq);
        page.seq = page.seq.min(seq);
        Ok(page)
    }

    /// Returns whether the records of the cache are those under which the changes were made.
    fn knows_records_of(&self, page: &Tail) -> bool {
        let known = |(id, _): &(ResourceId, Change)| self.registry.by_id(*id).is_some();
        !page.records && page.changes.iter().all(known)
    }

    /// Applies changes, and returns the event of each in the same order.
    pub fn apply(&mut self, changes: Vec<(ResourceId, Change)>) -> Vec<Option<Arc<Event>>> {
        let written = changes.iter().map(|(_, change)| &change.object);
        for object in written.filter(|object| !object.as_imported) {
            self.versions.written(object.rv);
        }
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

    /// Applies records of the position that the cache has reached.
    pub fn apply_records(&self, records: Vec<ResourceRecord>) {
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
            None => drop(self.add(record, Vec::new())),
        }
    }

    fn add(&self, record: ResourceRecord, objects: Vec<StoredObject>) -> Arc<Resource> {
        let id = record.id;
        let log: Arc<dyn Log> = Arc::clone(&self.engine) as Arc<dyn Log>;
        let resource = Resource::new(record, objects, Arc::clone(&self.shared), log);
        let resource = Arc::new(resource);
        self.registry.put(id, &resource);
        resource
    }

    /// Publishes that the cache has everything up to `position`.
    ///
    /// A counter that was raised without a write tells the watchers that nothing happened up to
    /// there: the version is a milestone.
    pub fn reached(&mut self, position: Position) {
        let raised = self.versions.reached(position.counter);
        self.position = position;
        self.shared
            .applied
            .store(position.counter, Ordering::Release);
        self.shared.commits.send_replace(position);
        if let Some(floor) = raised {
            for resource in self.registry.all() {
                resource.reach_milestone_of_counter(floor);
            }
        }
    }

    /// Fills the cache at the start.
    pub async fn load(&mut self) -> Result<(), EngineError> {
        self.load_all().await?;
        self.see_what_came_meanwhile().await
    }

    /// Replaces the content of the cache by that of the database.
    async fn load_all(&mut self) -> Result<(), EngineError> {
        let loaded = self.engine.load().await?;
        for record in loaded.records {
            let known = self.registry.by_name(&record.def.resource);
            let built_in = || Arc::clone(Dictionary::built_in());
            let dictionary = known
                .as_ref()
                .map_or_else(built_in, |known| known.dictionary());
            let (objects, dictionary) = self.objects(record.id, dictionary).await?;
            match known {
                Some(resource) => {
                    self.registry.put(record.id, &resource);
                    resource.set_dictionary(dictionary);
                    resource.reload(record, objects);
                }
                None => self.add(record, objects).set_dictionary(dictionary),
            }
        }
        self.reached(loaded.position);
        Ok(())
    }

    /// Returns all objects of a resource, which has had `dictionary` so far, and the dictionary of
    /// the last ones.
    async fn objects(
        &self,
        id: ResourceId,
        dictionary: Arc<Dictionary>,
    ) -> Result<(Vec<StoredObject>, Arc<Dictionary>), EngineError> {
        let mut early = Early::new(dictionary);
        let mut objects: Vec<StoredObject> = Vec::new();
        loop {
            let after = objects.last().map(|o| &o.key);
            let page = self
                .engine
                .objects(id, after, OBJECTS_PAGE, early.dictionary())
                .await?;
            let more = page.len() == OBJECTS_PAGE;
            objects.extend(page);
            if !more {
                return Ok((objects, early.into_dictionary()));
            }
            early.read(&objects).await;
        }
    }

    /// Applies the writes that other servers made while objects were read page by page. They are in
    /// the log behind the position from which loading began; applied again, they leave the right
    /// state.
    async fn see_what_came_meanwhile(&mut self) -> Result<(), EngineError> {
        match self.engine.newest_seq().await? {
            Some(seq) if seq != self.position.seq => self.try_catch_up(u64::MAX).await.map(drop),
            _ => Ok(()),
        }
    }

    /// Loads everything again where the database does not continue the history of the cache.
    async fn or_recover(&mut self, result: Result<(), EngineError>) -> Result<(), EngineError> {
        match result {
            Err(EngineError::Parted) => {
                tracing::warn!("the cache no longer matches the database; loading it again");
                self.in_step = false;
                self.parted = true;
                self.counters.part(true);
                // Whoever follows has to come again if this fails, although the cache may be ahead
                // of the database by number.
                self.counters.reachable.store(false, Ordering::Relaxed);
                self.recover().await?;
                self.counters.reachable.store(true, Ordering::Relaxed);
                self.parted = false;
                self.counters.part(false);
                self.in_step = true;
                Ok(())
            }
            other => other,
        }
    }

    async fn recover(&mut self) -> Result<(), EngineError> {
        self.engine.rejoin(self.position.counter).await?;
        self.load_all().await?;
        self.define_again().await?;
        self.see_what_came_meanwhile().await
    }

    /// Stores resources again that the database has lost; they are closed then, until the operator
    /// has opened them.
    async fn define_again(&mut self) -> Result<(), EngineError> {
        for resource in self.registry.all() {
            let commit = self.engine.define(resource.def()).await?;
            if commit.outcome.id != resource.record().id {
                self.registry.put(commit.outcome.id, &resource);
                resource.reload(commit.outcome, Vec::new());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Versions;

    #[test]
    fn a_raised_counter_is_seen_through_writes_behind_it() {
        let mut versions = Versions::default();
        assert_eq!(versions.reached(10), Some(10), "what was loaded");
        versions.written(11);
        versions.written(12);
        assert_eq!(versions.reached(12), None, "writes alone");
        assert_eq!(versions.reached(20), Some(20), "a raise alone");
        versions.written(21);
        versions.written(31);
        versions.written(32);
        assert_eq!(versions.reached(32), Some(30), "a raise between writes");
        versions.written(33);
        assert_eq!(versions.reached(40), Some(40), "a raise behind them");
    }
}
