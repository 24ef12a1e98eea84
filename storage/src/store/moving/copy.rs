//! The parts of an attempt: the first pass, following later writes, and comparing.
//!
//! Everything that is read belongs to one moment (a [`Snapshot`]), and nobody else writes to the
//! other database. So after [`Copier::follow`] it is exactly as in the snapshot, and
//! [`Copier::compare`] may take its time while the server goes on.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::engine::{Movable, Watched};
use super::rows::{LogRows, ObjectRow, RowKey};
use super::source::SourceSnapshot;
use super::target::{Fingerprint, Target};
use super::{MoveError, MoveState, Progress};
use crate::model::{ObjectKey, Position, ResourceId, ResourceRecord};
use crate::store::engine::corrupt;

/// Objects that are copied or compared at a time; fewer where they are large.
const OBJECTS: usize = 250;
/// Changes that are copied at a time; fewer where they are large.
const CHANGES: usize = 500;
/// Marks and last events that are copied at a time.
const MARKS: usize = 2_000;
/// Differences that are named.
const NAMED: usize = 3;
/// Notes that the attempt goes on, in the time after which another server takes its place.
const NOTES: u32 = 10;

/// See the module's documentation.
pub(super) struct Copier {
    pub movable: Arc<Movable>,
    pub target: Box<dyn Target>,
    progress: Arc<watch::Sender<Progress>>,
    /// The change up to which all are copied.
    copied: u64,
    /// The last commit that was copied, where the commits are copied as they are: number and name.
    commit: Option<(u64, i64)>,
    /// The change behind which objects that changed have to be looked at again.
    base: u64,
    /// Objects that were copied since the last comparison of all.
    touched: HashSet<RowKey>,
    /// The resources of the last snapshot.
    records: Vec<ResourceRecord>,
    /// True where other servers may have imported something since marks and last events were compared:
    /// whoever does changes a record.
    may_differ: bool,
    /// The name that tells the order from others.
    order: String,
    /// Pause between notes that the attempt goes on.
    pause: Duration,
    /// The last note that the attempt goes on.
    renewed: Option<Instant>,
    /// See [`Copier::new`].
    published: Arc<AtomicU64>,
}

type Snapshot = Box<dyn SourceSnapshot>;

impl Copier {
    /// Returns the copier of an attempt that another server takes over where it is not heard of for
    /// `lease`. The change up to which all are copied is also in `published`.
    pub fn new(
        movable: Arc<Movable>,
        target: Box<dyn Target>,
        progress: Arc<watch::Sender<Progress>>,
        order: String,
        lease: Duration,
        published: Arc<AtomicU64>,
    ) -> Self {
        Self {
            movable,
            target,
            progress,
            order,
            copied: 0,
            base: 0,
            touched: HashSet::new(),
            records: Vec::new(),
            may_differ: true,
            commit: None,
            pause: lease / NOTES,
            renewed: None,
            published,
        }
    }

    fn tell(&self, change: impl FnOnce(&mut MoveState)) {
        self.progress
            .send_modify(|progress| change(progress.get_or_insert_default()));
    }

    /// Copies everything once. Writes in the meantime are in the log, and follow.
    pub async fn first_pass(&mut self) -> Result<(), MoveError> {
        self.movable.watch();
        let mut snapshot = self.snapshot().await?;
        let position = snapshot.position().await?;
        self.copied = snapshot.compacted().await?;
        self.published.store(self.copied, Ordering::Relaxed);
        self.base = position.seq;
        self.records = snapshot.records().await?;
        let total = snapshot.count().await?;
        let base = snapshot.base().await?;
        drop(snapshot);
        self.renew().await?;
        self.tell(|state| {
            state.objects_total = total;
            state.objects_copied = 0;
        });
        while self.target.clear_part().await? {
            self.renew().await?;
        }
        self.target.begin_log(self.copied).await?;
        let begin = LogRows {
            changes: Vec::new(),
            commits: base.into_iter().collect(),
        };
        self.target.log(&begin).await?;
        self.commit = begin.last_commit();
        self.target.records(&self.records).await?;
        for record in self.records.clone() {
            self.copy_objects(record.id).await?;
            self.copy_marks(record.id).await?;
            self.copy_events(record.id).await?;
        }
        Ok(())
    }

    async fn snapshot(&self) -> Result<Snapshot, MoveError> {
        Ok(self.movable.source().snapshot().await?)
    }

    /// Removes what was copied after another server has taken the attempt's place, unless that one
    /// has begun to copy: the move may have been given up in between. Where it has ended instead, the
    /// copy counts.
    pub async fn leave(&self) {
        let left = async {
            if self.movable.source().departure().await?.is_some() {
                return Ok(());
            }
            self.target.abandon().await
        };
        if let Err(error) = left.await {
            tracing::debug!(%error, "the copy belongs to another attempt");
        }
    }

    /// Returns the last commit that was copied, number and name; `None` where commits are not kept.
    pub fn commit(&self) -> Option<(u64, i64)> {
        self.commit
    }

    /// Returns the change up to which all are copied, as it goes on.
    pub fn published(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.published)
    }

    /// Returns the order that this server can follow where another one carries it out; empty for none.
    pub fn followed(&self) -> &str {
        if self.target.is_shared() {
            &self.order
        } else {
            ""
        }
    }

    /// Returns the error that so many other servers could not follow.
    pub fn not_yet(&self, others: i64) -> MoveError {
        if self.target.is_shared() {
            MoveError::Unaware(others)
        } else {
            MoveError::Others(others)
        }
    }

    /// Returns the number of other servers that could not follow yet: of all, where nobody can.
    pub async fn unaware(&self) -> Result<i64, MoveError> {
        let source = self.movable.source();
        Ok(source.unaware(&self.order).await?)
    }

    /// Notes now and then that the attempt goes on.
    async fn renew(&mut self) -> Result<(), MoveError> {
        if self.renewed.is_some_and(|last| last.elapsed() < self.pause) {
            return Ok(());
        }
        let state = self.progress.borrow().clone();
        let told = state.unwrap_or_default().describe();
        let source = self.movable.source();
        let attempt = self.target.attempt();
        if !source.renew(attempt, self.copied, &told).await? {
            return Err(MoveError::TakenOver);
        }
        self.renewed = Some(Instant::now());
        Ok(())
    }

    /// Copies the objects of a resource. Each page is of its own moment: a snapshot of all would
    /// keep the write-ahead log growing.
    async fn copy_objects(&mut self, resource: ResourceId) -> Result<(), MoveError> {
        let mut after: Option<ObjectKey> = None;
        loop {
            self.renew().await?;
            let mut snapshot = self.snapshot().await?;
            let rows = snapshot.objects(resource, after.as_ref(), OBJECTS).await?;
            drop(snapshot);
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = Some(last.key.1.clone());
            let copied = rows.len() as u64;
            self.target.objects(rows, &[]).await?;
            self.tell(|state| state.objects_copied += copied);
        }
    }

    async fn copy_marks(&mut self, resource: ResourceId) -> Result<(), MoveError> {
        let mut after: Option<ObjectKey> = None;
        loop {
            self.renew().await?;
            let mut snapshot = self.snapshot().await?;
            let rows = snapshot.marks(resource, after.as_ref(), MARKS).await?;
            drop(snapshot);
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = Some(last.key.1.clone());
            self.target.marks(&rows, &[]).await?;
        }
    }

    async fn copy_events(&mut self, resource: ResourceId) -> Result<(), MoveError> {
        let mut after: Option<ObjectKey> = None;
        loop {
            self.renew().await?;
            let mut snapshot = self.snapshot().await?;
            let rows = snapshot.events(resource, after.as_ref(), MARKS).await?;
            drop(snapshot);
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = Some(last.key.1.clone());
            self.target.events(&rows, &[]).await?;
        }
    }

    /// Brings the other database to the moment of a new snapshot; returns the snapshot and the
    /// number of changes that this took.
    pub async fn follow(&mut self) -> Result<(Snapshot, u64), MoveError> {
        self.renew().await?;
        // Before the snapshot: all of it is committed, so the snapshot has it.
        let watched = self.movable.take(self.copied);
        let mut snapshot = self.snapshot().await?;
        let position = snapshot.position().await?;
        self.check_commit(&mut snapshot).await?;
        self.follow_resources(&mut snapshot).await?;
        let before = self.copied;
        while self.copied < position.seq {
            self.page(&mut snapshot, position).await?;
        }
        self.follow_marks(&mut snapshot, watched).await?;
        self.follow_memory(&mut snapshot).await?;
        Ok((snapshot, position.seq - before))
    }

    /// Makes sure that what was copied is a part of what is there.
    async fn check_commit(&self, snapshot: &mut Snapshot) -> Result<(), MoveError> {
        if let Some((seq, batch)) = self.commit
            && !snapshot.has(seq, batch).await?
        {
            let what = format!("commit {seq}");
            let why = "was copied, and the database has lost it since";
            return Err(corrupt(&what, why).into());
        }
        Ok(())
    }

    async fn follow_resources(&mut self, snapshot: &mut Snapshot) -> Result<(), MoveError> {
        let records = snapshot.records().await?;
        let there: HashSet<ResourceId> = records.iter().map(|record| record.id).collect();
        let known: Vec<ResourceId> = self.target.ids().keys().copied().collect();
        for gone in known.into_iter().filter(|id| !there.contains(id)) {
            self.target.leave(gone).await?;
            self.touched.retain(|(id, _)| *id != gone);
        }
        self.target.records(&records).await?;
        self.records = records;
        Ok(())
    }

    async fn page(&mut self, snapshot: &mut Snapshot, position: Position) -> Result<(), MoveError> {
        self.renew().await?;
        let log = snapshot.log(self.copied, CHANGES).await?;
        let last = match log.last() {
            Some(last) => last.cast_unsigned(),
            // A file to which a PostgreSQL was moved goes on behind commits without changes.
            None if !self.movable.source().is_shared() => position.seq,
            None => {
                let what = format!("change {}", position.seq);
                return Err(corrupt(&what, "is not in the log").into());
            }
        };
        let base = self.base;
        let keys = log
            .changes
            .iter()
            .filter(|change| change.seq.cast_unsigned() > base && change.effect != 1)
            .map(|change| change.key.clone());
        let keys: HashSet<RowKey> = keys.collect();
        let keys: Vec<RowKey> = keys.into_iter().collect();
        self.target.log(&log).await?;
        self.commit = log.last_commit().or(self.commit);
        self.may_differ |= log.commits.iter().any(|commit| commit.records);
        let mut rest = keys.as_slice();
        while !rest.is_empty() {
            let (rows, looked) = snapshot.objects_at(rest, OBJECTS).await?;
            let (some, later) = rest.split_at(looked);
            let gone = without(some, &rows);
            self.target.objects(rows, &gone).await?;
            rest = later;
        }
        self.touched.extend(keys);
        self.copied = last;
        self.published.store(last, Ordering::Relaxed);
        self.tell(|state| state.seq = last);
        Ok(())
    }

    async fn follow_marks(
        &mut self,
        snapshot: &mut Snapshot,
        watched: Watched,
    ) -> Result<(), MoveError> {
        for resource in watched.opened {
            self.target.forget_events(resource).await?;
        }
        let keys: Vec<RowKey> = watched.imported.into_iter().collect();
        for keys in keys.chunks(MARKS) {
            self.renew().await?;
            let marks = snapshot.marks_at(keys).await?;
            self.target.marks(&marks, keys).await?;
            let events = snapshot.events_at(keys).await?;
            self.target.events(&events, keys).await?;
        }
        Ok(())
    }

    /// Copies marks and last events anew where other servers, which nobody here hears of, have
    /// changed them.
    async fn follow_memory(&mut self, snapshot: &mut Snapshot) -> Result<(), MoveError> {
        if !self.movable.source().is_shared() || !self.may_differ {
            return Ok(());
        }
        for record in self.records.clone() {
            self.renew().await?;
            let id = record.id;
            let (here, there) =
                futures::try_join!(snapshot.memory_sums(id), self.target.memory_sums(id))?;
            let Some(here) = here else {
                return Ok(());
            };
            if here == there {
                continue;
            }
            if here.marks != there.marks {
                self.target.forget_marks(id).await?;
                self.copy_marks_of(snapshot, id).await?;
            }
            if here.events != there.events {
                self.target.forget_events(id).await?;
                self.copy_events_of(snapshot, id).await?;
            }
            if self.target.memory_sums(id).await? != here {
                let what = &record.def.resource;
                let difference = format!("{what}: other imported marks or last events");
                return Err(MoveError::Differs(difference));
            }
        }
        self.may_differ = false;
        Ok(())
    }

    async fn copy_marks_of(
        &mut self,
        snapshot: &mut Snapshot,
        resource: ResourceId,
    ) -> Result<(), MoveError> {
        let mut after: Option<ObjectKey> = None;
        loop {
            self.renew().await?;
            let rows = snapshot.marks(resource, after.as_ref(), MARKS).await?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = Some(last.key.1.clone());
            self.target.marks(&rows, &[]).await?;
        }
    }

    async fn copy_events_of(
        &mut self,
        snapshot: &mut Snapshot,
        resource: ResourceId,
    ) -> Result<(), MoveError> {
        let mut after: Option<ObjectKey> = None;
        loop {
            self.renew().await?;
            let rows = snapshot.events(resource, after.as_ref(), MARKS).await?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = Some(last.key.1.clone());
            self.target.events(&rows, &[]).await?;
        }
    }

    /// Compares every object with the snapshot of [`Copier::follow`], text by text.
    pub async fn compare(&mut self, mut snapshot: Snapshot) -> Result<(), MoveError> {
        let mut differences = Vec::new();
        for record in self.records.clone() {
            let mut after: Option<ObjectKey> = None;
            loop {
                self.renew().await?;
                let here = snapshot.objects(record.id, after.as_ref(), OBJECTS).await?;
                // The page ends at the same object on both sides; behind the last one here, every
                // other one is too much.
                let max = match here.len() {
                    0 => OBJECTS,
                    n => n,
                };
                let there = self
                    .target
                    .fingerprints(record.id, after.as_ref(), max)
                    .await?;
                let last = here.last().map(|row| row.key.1.clone());
                let there_last = there.last().map(|row| row.0.clone());
                differences.extend(differ(&record, here, there).await?);
                match (last, there_last) {
                    (None, None) => break,
                    _ if !differences.is_empty() => break,
                    (last, _) => after = last,
                }
            }
        }
        self.touched.clear();
        MoveError::of(&differences)
    }

    /// Compares the objects that were copied since they were compared last with the snapshot of
    /// [`Copier::follow`].
    pub async fn compare_touched(&mut self, snapshot: &mut Snapshot) -> Result<(), MoveError> {
        let mut differences = Vec::new();
        for record in self.records.clone() {
            let keys = self.touched.iter().filter(|(id, _)| *id == record.id);
            let keys: Vec<RowKey> = keys.cloned().collect();
            let mut rest = keys.as_slice();
            while !rest.is_empty() {
                self.renew().await?;
                let (here, looked) = snapshot.objects_at(rest, OBJECTS).await?;
                let (some, later) = rest.split_at(looked);
                let there = self.target.fingerprints_at(record.id, some).await?;
                differences.extend(differ(&record, here, there).await?);
                rest = later;
            }
        }
        self.touched.clear();
        MoveError::of(&differences)
    }

    /// Compares numbers and versions of all objects, changes and marks with the snapshot of
    /// [`Copier::follow`]. The last step has no time for it.
    pub async fn compare_sums(&mut self, snapshot: &mut Snapshot) -> Result<(), MoveError> {
        let mut differences = Vec::new();
        for record in &self.records {
            let here = snapshot.sums(record.id).await?;
            let there = self.target.sums(record.id).await?;
            if here != there {
                differences.push(format!(
                    "{}: {} objects and {} imported marks in place of {} and {}, or other versions",
                    record.def.resource, there.objects, there.marks, here.objects, here.marks
                ));
            }
        }
        let compacted = snapshot.compacted().await?;
        let (here, there) = (
            snapshot.log_sums(compacted).await?,
            self.target.log_sums(compacted).await?,
        );
        if here != there {
            let (here, there) = (here.0, there.0);
            differences.push(format!("{there} changes in the log in place of {here}"));
        }
        MoveError::of(&differences)
    }
}

/// Returns the keys at which there is no row.
fn without(keys: &[RowKey], rows: &[ObjectRow]) -> Vec<RowKey> {
    let there: HashSet<&RowKey> = rows.iter().map(|row| &row.key).collect();
    let gone = keys.iter().filter(|key| !there.contains(key));
    gone.cloned().collect()
}

/// Names objects that are not the same on both sides.
async fn differ(
    record: &ResourceRecord,
    here: Vec<ObjectRow>,
    there: Vec<Fingerprint>,
) -> Result<Vec<String>, MoveError> {
    let hashed = tokio::task::spawn_blocking(move || {
        let rows = here.into_iter().map(|row| {
            let sum = hex::encode(Sha256::digest(row.body.as_bytes()));
            (
                row.key.1,
                (row.uid, row.rv, row.as_imported, row.labels, sum),
            )
        });
        rows.collect::<BTreeMap<_, _>>()
    });
    let mut here = hashed.await.map_err(|error| corrupt(&"objects", error))?;
    let mut differences = Vec::new();
    for (key, uid, rv, as_imported, labels, sum) in there {
        let same = here.remove(&key) == Some((uid, rv, as_imported, labels, sum));
        if !same {
            differences.push(key);
        }
    }
    differences.extend(here.into_keys());
    let name = |key: ObjectKey| format!("{} {key}", record.def.resource);
    Ok(differences.into_iter().take(NAMED).map(name).collect())
}
