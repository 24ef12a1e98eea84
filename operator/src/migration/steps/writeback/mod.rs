//! The writing of one resource back to etcd through the side door.
//!
//! First everything is compared. From then on the server's own log tells what has changed, so each
//! pass is as long as what has happened since the one before. Before a copy is made in etcd, the
//! server is told of it: an operator that comes after a process that died knows what it wrote.

mod account;
mod copy;
mod strays;
#[cfg(test)]
mod tests;
mod writes;

use std::collections::HashMap;
use std::time::Duration;

use crds::control::DigestItem;
use futures::{FutureExt, StreamExt, stream};

pub use self::account::Account;
pub use self::copy::is_copy;
use self::copy::{Copy, copy_of, is_up_to_date};
use super::diff::NAMED;
use super::feed::{Change, Feed, FeedError};
use super::orphans::{self, Orphan, find_copy, is_namespace_gone, is_object_gone};
use crate::migration::cluster::door::objects::VERSION;
use crate::migration::cluster::pages::{Identity, Key, Pages, identity};
use crate::migration::cluster::wire::{Wire, WireError, collection};
use crate::migration::cluster::{marks, operations};
use crate::migration::context::Cx;
use crate::migration::observe::state::{Crd, Observed, Resource};
use crate::migration::report::status::Counted;

/// The time for which one request is tried.
const PATIENCE: Duration = Duration::from_mins(1);
/// The number of times that a write is repeated because etcd's copy has changed under it.
const CONFLICTS: u32 = 3;

/// The reason why a resource is not written back.
#[derive(Debug, thiserror::Error)]
pub enum WriteBackError {
    /// A request failed for good.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The server's changes are not known.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// Somebody else than our server answers for it, or may have done so.
    #[error("{path} is served by its CRD")]
    TakenAway {
        /// Path of the resource.
        path: String,
    },
}

enum Done {
    /// The copy as it is in etcd now.
    Written(Copy),
    Deleted,
    /// The copy has to be deleted, in a namespace that is gone.
    Orphaned(Orphan),
    Nothing,
    /// It is not written: clients may have done so, past the server.
    TakenAway,
}

/// The work on one key. Objects are texts: as trees, all those of a pass would take several times
/// the memory.
enum Task {
    /// Etcd's copy becomes this object.
    Put(Box<str>),
    /// Etcd's copy is deleted.
    Delete,
    /// An object that has come and gone: it does the same in etcd, so that a client which has seen
    /// it come sees it go.
    Flash(Box<str>),
}

/// A writer that brings etcd up to the server, in passes.
pub struct Writer<'a> {
    cx: &'a Cx,
    o: &'a Observed,
    resource: &'a Resource,
    version: String,
    door: &'a Wire,
    feed: Feed,
    /// The copies in etcd.
    copies: HashMap<Key, Copy>,
}

impl<'a> Writer<'a> {
    /// Compares everything and writes the differences, through the door at `door`, while the server
    /// still serves. `before` counts the reports of the group that were compared already, of all.
    ///
    /// # Errors
    /// See [`WriteBackError`]; writes that are refused are in the account.
    pub async fn begin(
        cx: &'a Cx,
        o: &'a Observed,
        (resource, crd): (&'a Resource, &'a Crd),
        door: &'a Wire,
        before: Counted,
    ) -> Result<(Self, Account), WriteBackError> {
        let version = crd.read_version().unwrap_or_default().to_owned();
        let path = collection(&cx.target.group, &version, resource.plural());
        let copies = copies(cx, resource, door).await?;
        // Without an APIService of ours, clients write to the CRD, and that is in the list as well.
        if !operations::are_ours(cx, o.ours()).await? {
            return Err(WriteBackError::TakenAway { path });
        }
        let mut pages = Pages::new(&cx.wire, path.clone(), cx.target.settings.page_size, false);
        let Some(mut page) = pages.next().await? else {
            return Err(WireError::Build {
                path,
                message: "the server returned no list".to_owned(),
            }
            .into());
        };
        let mut writer = Self {
            cx,
            o,
            resource,
            door,
            feed: Feed::start(&cx.wire, &path, page.version).await?,
            version,
            copies,
        };
        let mut account = Account::default();
        let mut compared = 0;
        loop {
            if !page.is_ours {
                return Err(WriteBackError::TakenAway { path });
            }
            let mut work = Vec::new();
            compared += page.items.len() as u64;
            for item in page.items {
                let ours = item.object()?;
                let Some(found) = identity(&ours) else {
                    continue;
                };
                let copy = writer.copies.get_mut(&found.key);
                let same = copy.is_some_and(|copy| {
                    copy.matched = true;
                    is_up_to_date(copy, &ours)
                });
                if !same {
                    work.push((found.key, Task::Put(item.into_text().into())));
                }
            }
            account.add(writer.carry_out(work, true).await?);
            writer.tell(before, compared, account.written);
            cx.pacer.turn().await;
            page = match pages.next().await? {
                Some(page) => page,
                None => break,
            };
        }
        account.add(writer.delete_strays().await?);
        Ok((writer, account))
    }

    /// Publishes the progress of the comparison.
    fn tell(&self, before: Counted, compared: u64, written: usize) {
        let plural = self.resource.plural();
        let done = before.done + compared;
        let total = before.total.max(done);
        self.cx.report.update(|status| {
            status.message = format!(
                "comparing {plural} with etcd and writing the differences ({written} so far)"
            );
            status.progress = Some(Counted { done, total });
        });
    }

    /// Returns the name of the stored resource.
    #[must_use]
    pub fn resource_name(&self) -> &str {
        self.resource.name()
    }

    /// Returns the number of objects that have changed since the last pass.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.feed.waiting()
    }

    /// Returns the number of times that the watch on the server was cut and resumed.
    #[must_use]
    pub fn resumed(&self) -> u32 {
        self.feed.resumed()
    }

    /// Writes what has changed since the last pass, while the server serves.
    ///
    /// # Errors
    /// See [`WriteBackError`].
    pub async fn pass(&mut self) -> Result<Account, WriteBackError> {
        let changes = self.feed.take()?;
        let work = self.work(changes, false).await?;
        self.carry_out(work, true).await
    }

    /// Cuts the changes in two behind `version`, which the server has not reached yet.
    pub fn cut(&self, version: u64) {
        self.feed.cut(version);
    }

    /// Writes what has changed up to the cut at `version`, while the server serves.
    ///
    /// # Errors
    /// See [`WriteBackError`].
    pub async fn pass_before_cut(
        &mut self,
        version: u64,
        within: Duration,
    ) -> Result<Account, WriteBackError> {
        let changes = self.feed.take_before_cut(version, within).await?;
        let work = self.work(changes, false).await?;
        self.carry_out(work, true).await
    }

    /// Waits until everything up to `version` is known.
    ///
    /// # Errors
    /// See [`WriteBackError`].
    pub async fn until(&self, version: u64, within: Duration) -> Result<(), WriteBackError> {
        Ok(self.feed.until(version, within).await?)
    }

    /// Writes what has changed since the last pass, each object once, in its final state. Requests
    /// are held meanwhile, so afterwards etcd has everything.
    ///
    /// # Errors
    /// See [`WriteBackError`].
    pub async fn last_pass(&mut self) -> Result<Account, WriteBackError> {
        let changes = self.feed.take()?;
        let work = self.work(changes, true).await?;
        self.carry_out(work, false).await
    }

    /// Returns the tasks that follow from the changes; with `flashes` also those of objects that
    /// have come and gone.
    async fn work(
        &self,
        changes: HashMap<Key, Change>,
        flashes: bool,
    ) -> Result<Vec<(Key, Task)>, WireError> {
        let mut work = Vec::new();
        for (key, change) in changes {
            let there = self.copies.contains_key(&key);
            let Change {
                object,
                deleted,
                created,
            } = change;
            let task = match (deleted, object) {
                (true, _) if there => Task::Delete,
                (true, Some(last)) if created && flashes => Task::Flash(last),
                (true, _) => continue,
                (false, Some(object)) => Task::Put(object),
                // It may have gone since: then the next pass is told.
                (false, None) => match self.ours(&key).await? {
                    Some(object) => Task::Put(object),
                    None => continue,
                },
            };
            if let Task::Put(ours) = &task
                && let Some(copy) = self.copies.get(&key)
                && is_up_to_date(copy, &self.parsed(&key, ours)?)
            {
                continue;
            }
            work.push((key, task));
        }
        Ok(work)
    }

    /// Carries out tasks, several at a time; with `marks` the server is told of the copies that
    /// were made.
    async fn carry_out(
        &mut self,
        work: Vec<(Key, Task)>,
        mut marks: bool,
    ) -> Result<Account, WriteBackError> {
        let mut account = Account::default();
        if work.is_empty() {
            return Ok(account);
        }
        // One that is being deleted goes first, and is made anew.
        let is_fresh = |key| self.copies.get(key).is_none_or(|copy| copy.deleting);
        let fresh = work.iter().filter(|(key, _)| is_fresh(key));
        let announced = fresh.map(|(key, _)| key);
        marks::announce(self.cx, self.resource, announced).await?;
        let this = &*self;
        let all = work.into_iter().map(|(key, task)| {
            async move {
                let copy = this.copies.get(&key).cloned();
                let done = match task {
                    Task::Put(ours) => this.put(&key, &ours, copy).await,
                    Task::Delete => this.delete(&key, copy).await,
                    Task::Flash(last) => this.flash(&key, &last).await,
                };
                (key, done)
            }
            .boxed()
        });
        let all: Vec<_> = stream::iter(all)
            .buffer_unordered(self.cx.target.settings.concurrency.max(1) as usize)
            .collect()
            .await;
        let (mut made, mut missing, mut orphans) = (Vec::new(), Vec::new(), Vec::new());
        let mut taken_away = None;
        for (key, done) in all {
            account.count(&key, &done);
            match done {
                Ok(Done::Written(copy)) => {
                    made.push((key.clone(), copy.clone()));
                    self.copies.insert(key, copy);
                }
                Ok(Done::Orphaned(orphan)) => orphans.push(orphan),
                Ok(Done::Deleted | Done::Nothing) => missing.push(self.missing(&key)),
                Ok(Done::TakenAway) => {
                    if !self.copies.contains_key(&key) {
                        // What was announced is not made.
                        missing.push(self.missing(&key));
                    }
                    taken_away = Some(self.path(&self.version, &key));
                }
                // Nobody has refused the object, and nothing more is written.
                Err(error) if error.is_expired() => return Err(error.into()),
                Err(_) => {}
            }
        }
        let gone = orphans::delete(self.cx, self.door, orphans).await;
        for key in gone.iter().flatten() {
            account.deleted += 1;
            missing.push(self.missing(key));
        }
        let (written, deleted) = (account.written as u64, account.deleted as u64);
        self.cx.journal.note(|report| {
            report.counts.written_back += written;
            report.counts.deleted_back += deleted;
        });
        // The look for what clients have written must not find what was written here.
        marks |= taken_away.is_some();
        if marks {
            self.mark(&made).await?;
            let missing: Vec<&DigestItem> = missing.iter().collect();
            marks::forget(self.cx, self.resource, VERSION, &missing).await?;
        }
        gone?;
        match taken_away {
            Some(path) => Err(WriteBackError::TakenAway { path }),
            None => Ok(account),
        }
    }

    /// Forgets a copy that is not in etcd, and returns what the server knows it by.
    fn missing(&mut self, key: &Key) -> DigestItem {
        let copy = self.copies.remove(key);
        let known = copy.map(|copy| (copy.uid.into(), copy.version.to_string()));
        // Of one that was only announced, nothing more is known.
        let (uid, resource_version) = known.unwrap_or_default();
        DigestItem {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid,
            resource_version,
            ..DigestItem::default()
        }
    }

    /// Tells the server of the copies that were made.
    async fn mark(&self, made: &[(Key, Copy)]) -> Result<(), WireError> {
        let copies = made.iter().map(|(key, copy)| Identity {
            key: key.clone(),
            uid: copy.uid.to_string(),
            version: copy.version,
        });
        marks::note(self.cx, self.resource, copies).await
    }
}

/// Returns everything in etcd.
async fn copies(
    cx: &Cx,
    resource: &Resource,
    door: &Wire,
) -> Result<HashMap<Key, Copy>, WireError> {
    let path = collection(&cx.target.group, VERSION, resource.plural());
    let mut pages = Pages::new(door, path, cx.target.settings.page_size, false);
    let mut all = HashMap::new();
    while let Some(page) = pages.next().await? {
        cx.pacer.turn().await;
        for item in page.items {
            let object = item.object()?;
            all.extend(identity(&object).map(|found| copy_of(&object, found, false)));
        }
    }
    Ok(all)
}
