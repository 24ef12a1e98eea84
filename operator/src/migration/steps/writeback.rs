//! The writing of one resource back to etcd through the side door.
//!
//! First everything is compared. From then on the server's own log tells what has changed, so each
//! pass is as long as what has happened since the one before. Before a copy is made in etcd, the
//! server is told of it: an operator that comes after a process that died knows what it wrote.

use std::collections::HashMap;
use std::time::Duration;

use crds::control::{
    Checksum, DigestSet, ImportItem, ImportMode, ImportType, MAX_IMPORT_ITEMS, checksum,
};
use crds::names::FIELD_MANAGER;
use futures::{FutureExt, StreamExt, stream};
use http::Method;
use serde_json::{Value, json};

use super::diff::{self, NAMED};
use super::feed::{Change, Feed, FeedError};
use super::orphans::{self, Orphan, is_namespace_gone};
use super::recover::batch;
use crate::migration::cluster::control::retry;
use crate::migration::cluster::door::objects::VERSION;
use crate::migration::cluster::operations;
use crate::migration::cluster::pages::{self, Identity, Key, Pages, identity};
use crate::migration::cluster::wire::{Wire, WireError, collection, object, query};
use crate::migration::context::Cx;
use crate::migration::observe::state::{Crd, Resource};
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
}

/// The work of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Objects created or updated in etcd.
    pub written: usize,
    /// Objects deleted from etcd.
    pub deleted: usize,
    /// Objects refused by the kube-apiserver.
    pub refused: usize,
    /// The first of the refused objects, with the reasons.
    pub refused_names: Vec<String>,
}

impl Account {
    /// Adds another pass.
    pub fn add(&mut self, other: Self) {
        self.written += other.written;
        self.deleted += other.deleted;
        self.refused += other.refused;
        let room = NAMED.saturating_sub(self.refused_names.len());
        self.refused_names
            .extend(other.refused_names.into_iter().take(room));
    }

    fn count(&mut self, key: &Key, done: &Result<Done, WireError>) {
        match done {
            Ok(Done::Written(_)) => self.written += 1,
            Ok(Done::Deleted) => self.deleted += 1,
            Ok(Done::Orphaned(_) | Done::Nothing) => {}
            Err(error) => {
                self.refused += 1;
                if self.refused_names.len() < NAMED {
                    self.refused_names.push(format!("{key}: {error}"));
                }
            }
        }
    }
}

enum Done {
    /// The copy as it is in etcd now.
    Written(Copy),
    Deleted,
    /// The copy has to be deleted, in a namespace that is gone.
    Orphaned(Orphan),
    Nothing,
}

/// A copy in etcd.
#[derive(Clone, Debug)]
struct Copy {
    uid: Box<str>,
    version: u64,
    content: Checksum,
    /// False until the server is known to have the object, or to have had it.
    matched: bool,
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
        resource: &'a Resource,
        crd: &'a Crd,
        door: &'a Wire,
        before: Counted,
    ) -> Result<(Self, Account), WriteBackError> {
        let version = crd.read_version().unwrap_or_default().to_owned();
        let path = collection(&cx.target.group, &version, resource.plural());
        let copies = copies(cx, resource, door).await?;
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
            resource,
            door,
            feed: Feed::start(&cx.wire, &path, page.version).await?,
            version,
            copies,
        };
        let mut account = Account::default();
        let mut compared = 0;
        loop {
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
                    copy.content == content(&ours)
                });
                if !same {
                    work.push((found.key, Task::Put(item.into_text())));
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
        Ok(self.carry_out(work, true).await?)
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
        Ok(self.carry_out(work, true).await?)
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
        Ok(self.carry_out(work, false).await?)
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
                (false, None) => match get(&self.cx.wire, &self.path(&self.version, &key)).await? {
                    Some(object) => Task::Put(object.to_string().into()),
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
        marks: bool,
    ) -> Result<Account, WireError> {
        let mut account = Account::default();
        if work.is_empty() {
            return Ok(account);
        }
        let fresh = work
            .iter()
            .filter(|(key, _)| !self.copies.contains_key(key));
        self.announce(fresh.map(|(key, _)| key)).await?;
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
        let (mut made, mut orphans) = (Vec::new(), Vec::new());
        for (key, done) in all {
            account.count(&key, &done);
            match done {
                Ok(Done::Written(copy)) => {
                    made.push((key.clone(), copy.clone()));
                    self.copies.insert(key, copy);
                }
                Ok(Done::Orphaned(orphan)) => orphans.push(orphan),
                Ok(Done::Deleted | Done::Nothing) => {
                    self.copies.remove(&key);
                }
                Err(_) => {}
            }
        }
        let gone = orphans::delete(self.cx, self.door, orphans).await;
        for key in gone.iter().flatten() {
            account.deleted += 1;
            self.copies.remove(key);
        }
        let (written, deleted) = (account.written as u64, account.deleted as u64);
        self.cx.journal.note(|report| {
            report.counts.written_back += written;
            report.counts.deleted_back += deleted;
        });
        if marks {
            self.mark(&made).await?;
        }
        gone?;
        Ok(account)
    }

    /// Tells the server that copies are about to be made.
    async fn announce<'k>(&self, keys: impl Iterator<Item = &'k Key>) -> Result<(), WireError> {
        let items = keys.map(|key| {
            let metadata = json!({"name": key.name, "namespace": key.namespace});
            ImportItem {
                type_: ImportType::Object,
                object: json!({"metadata": metadata}),
            }
        });
        self.written_back(items.collect()).await
    }

    /// Tells the server of the copies that were made.
    async fn mark(&self, made: &[(Key, Copy)]) -> Result<(), WireError> {
        let items = made.iter().map(|(key, copy)| {
            let known = Identity {
                key: key.clone(),
                uid: copy.uid.to_string(),
                version: copy.version,
            };
            ImportItem {
                type_: ImportType::Object,
                object: operations::metadata_only(self.cx, self.resource, VERSION, &known),
            }
        });
        self.written_back(items.collect()).await
    }

    async fn written_back(&self, mut items: Vec<ImportItem>) -> Result<(), WireError> {
        while !items.is_empty() {
            let rest = items.split_off(items.len().min(MAX_IMPORT_ITEMS));
            let one = batch(ImportMode::WrittenBack, items);
            let name = self.resource.name();
            retry(PATIENCE, || self.cx.control.import(name, &one)).await?;
            items = rest;
        }
        Ok(())
    }

    /// Deletes copies of objects that the server does not have: they were deleted there, or by an
    /// earlier pass's account. What was neither imported nor written back is left.
    async fn delete_strays(&mut self) -> Result<Account, WireError> {
        let strays = self.copies.iter().filter(|(_, copy)| !copy.matched);
        let mut strays: HashMap<Key, Box<str>> = strays
            .map(|(key, copy)| (key.clone(), copy.uid.clone()))
            .collect();
        if strays.is_empty() {
            return Ok(Account::default());
        }
        let name = self.resource.name();
        let mut marks = self.cx.control.digest_pages(name, DigestSet::Imported);
        let mut work = Vec::new();
        while let Some(page) = marks.next().await? {
            for (key, mark) in page.into_iter().map(diff::of_digest) {
                let known = |uid: &str| mark.uid.is_empty() || *mark.uid == *uid;
                if strays.get(&key).is_some_and(|uid| known(uid)) {
                    strays.remove(&key);
                    work.push((key, Task::Delete));
                }
            }
        }
        for key in strays.keys() {
            tracing::warn!(resource = name, %key, "left in etcd: it was never copied");
        }
        self.carry_out(work, true).await
    }

    /// Returns our object from its text.
    fn parsed(&self, key: &Key, text: &str) -> Result<Value, WireError> {
        pages::parse(text, &self.path(&self.version, key))
    }

    async fn put(&self, key: &Key, ours: &str, copy: Option<Copy>) -> Result<Done, WireError> {
        let ours = self.parsed(key, ours)?;
        self.write(key, &ours, copy).await
    }

    async fn write(
        &self,
        key: &Key,
        ours: &Value,
        mut copy: Option<Copy>,
    ) -> Result<Done, WireError> {
        let mut attempt = 1;
        loop {
            let result = self.write_once(key, ours, copy.as_ref()).await;
            match result {
                Err(e) if matches!(e.code(), Some(404 | 409)) && attempt < CONFLICTS => {
                    attempt += 1;
                    copy = self.copy(key).await?;
                    // Read before it is asked: the copy is from before anybody took over.
                    self.cx.control.check_fence(self.resource.name()).await?;
                }
                // Whatever is in a namespace that goes away goes with it.
                Err(e) if is_namespace_gone(&e) => return Ok(Done::Nothing),
                done => return done,
            }
        }
    }

    async fn write_once(
        &self,
        key: &Key,
        ours: &Value,
        copy: Option<&Copy>,
    ) -> Result<Done, WireError> {
        let api_version = format!("{}/{VERSION}", self.cx.target.group);
        let known = copy.map(|c| (&*c.uid, c.version));
        let body = Some(prepared(ours, &api_version, known).to_string().into_bytes());
        let (method, path) = match copy {
            Some(_) => (Method::PUT, self.path(VERSION, key)),
            None => (Method::POST, self.collection_of(key)),
        };
        let uri = query(&path, &[("fieldManager", FIELD_MANAGER)]);
        let call = || {
            self.door
                .call(method.clone(), &uri, "application/json", body.clone())
        };
        let written: Value = retry(PATIENCE, call).await?.json()?;
        if ours.pointer("/metadata/deletionTimestamp").is_some() {
            let options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
            operations::delete(self.door, &self.path(VERSION, key), &options).await?;
        }
        let found = identity(&written).ok_or_else(|| WireError::Build {
            path,
            message: "the answer to a write is not an object".to_owned(),
        })?;
        Ok(Done::Written(copy_of(ours, found, true).1))
    }

    async fn flash(&self, key: &Key, last: &str) -> Result<Done, WireError> {
        let mut last = self.parsed(key, last)?;
        if let Some(meta) = last.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("finalizers");
            meta.remove("deletionTimestamp");
        }
        match self.write(key, &last, None).await? {
            Done::Written(copy) => self.delete(key, Some(copy)).await,
            other => Ok(other),
        }
    }

    async fn delete(&self, key: &Key, copy: Option<Copy>) -> Result<Done, WireError> {
        let Some(copy) = copy else {
            return Ok(Done::Nothing);
        };
        let path = self.path(VERSION, key);
        // Nobody else writes here, and whatever the copy has become, the object is gone.
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1",
            "propagationPolicy": "Background", "preconditions": {"uid": &*copy.uid}});
        let body = Some(options.to_string().into_bytes());
        let call = || {
            self.door
                .call(Method::DELETE, &path, "application/json", body.clone())
        };
        let mut answer: Value = match retry(PATIENCE, call).await {
            Ok(reply) => reply.json()?,
            Err(e) if is_namespace_gone(&e) => {
                let key = key.clone();
                return Ok(Done::Orphaned(Orphan { key, path, options }));
            }
            Err(e) if e.code() == Some(404) => return Ok(Done::Nothing),
            Err(e) => return Err(e),
        };
        // Finalizers that were taken away at the server keep etcd's copy.
        if answer.pointer("/metadata/deletionTimestamp").is_some() {
            if let Some(meta) = answer.get_mut("metadata").and_then(Value::as_object_mut) {
                meta.remove("finalizers");
            }
            let body = Some(answer.to_string().into_bytes());
            let call = || {
                self.door
                    .call(Method::PUT, &path, "application/json", body.clone())
            };
            match retry(PATIENCE, call).await {
                Err(e) if e.code() != Some(404) => return Err(e),
                _ => {}
            }
        }
        Ok(Done::Deleted)
    }

    async fn copy(&self, key: &Key) -> Result<Option<Copy>, WireError> {
        let found = get(self.door, &self.path(VERSION, key)).await?;
        Ok(found.and_then(|o| identity(&o).map(|i| copy_of(&o, i, true).1)))
    }

    fn path(&self, version: &str, key: &Key) -> String {
        let (group, plural) = (&self.cx.target.group, self.resource.plural());
        object(group, version, plural, &key.namespace, &key.name)
    }

    fn collection_of(&self, key: &Key) -> String {
        let path = self.path(VERSION, key);
        path.rsplit_once('/')
            .map(|(collection, _)| collection.to_owned())
            .unwrap_or(path)
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

fn copy_of(object: &Value, found: Identity, matched: bool) -> (Key, Copy) {
    (
        found.key,
        Copy {
            uid: found.uid.into(),
            version: found.version,
            content: content(object),
            matched,
        },
    )
}

async fn get(wire: &Wire, path: &str) -> Result<Option<Value>, WireError> {
    match retry(PATIENCE, || wire.get(path)).await {
        Ok(reply) => reply.json().map(Some),
        Err(e) if e.code() == Some(404) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Metadata that the kube-apiserver assigns itself.
const ASSIGNED: [&str; 7] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "uid",
];

/// Returns the checksum of what a client has put into an object; equal on both sides once it is
/// written.
fn content(object: &Value) -> Checksum {
    let mut bare = object.clone();
    if let Some(meta) = bare.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ASSIGNED {
            meta.remove(field);
        }
    }
    checksum(&bare)
}

/// Returns whether a copy has what our object says, and our object is not being deleted.
fn is_up_to_date(copy: &Copy, ours: &Value) -> bool {
    copy.content == content(ours) && ours.pointer("/metadata/deletionTimestamp").is_none()
}

/// Returns the body of a write: our object, as the door's version, at the state of etcd's copy.
fn prepared(ours: &Value, api_version: &str, copy: Option<(&str, u64)>) -> Value {
    let mut body = ours.clone();
    if let Some(map) = body.as_object_mut() {
        map.insert("apiVersion".to_owned(), json!(api_version));
    }
    if let Some(meta) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in [
            "deletionGracePeriodSeconds",
            "deletionTimestamp",
            "resourceVersion",
            "uid",
        ] {
            meta.remove(field);
        }
        if let Some((uid, version)) = copy {
            meta.insert("uid".to_owned(), json!(uid));
            meta.insert("resourceVersion".to_owned(), json!(version.to_string()));
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_policy_of_the_cluster_refuses_is_counted_and_the_first_named() {
        let denied = "admission webhook \"a.example.com\" denied the request";
        let mut account = Account::default();
        for number in 0..NAMED + 5 {
            let key = Key {
                namespace: "n".to_owned(),
                name: format!("r{number}"),
            };
            let refused = Err(WireError::Status {
                method: Method::POST,
                path: "/x".to_owned(),
                code: 403,
                reason: "Forbidden".to_owned(),
                message: denied.to_owned(),
                retry_after: None,
            });
            account.count(&key, &refused);
            account.count(&key, &Ok(Done::Deleted));
        }
        let Account {
            written,
            deleted,
            refused,
            refused_names,
        } = account;
        assert_eq!((written, deleted, refused), (0, NAMED + 5, NAMED + 5));
        assert_eq!(refused_names.len(), NAMED);
        let first = &refused_names[0];
        assert!(
            first.starts_with("n/r0: ") && first.contains(denied),
            "{first}"
        );
    }

    fn ours() -> Value {
        json!({"apiVersion": "g/v1", "kind": "R", "results": [1], "metadata": {
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "900",
            "labels": {"x": "y"}, "generation": 3, "managedFields": [{"manager": "m"}]}})
    }

    #[test]
    fn content_ignores_what_the_apiserver_assigns_and_nothing_else() {
        let mut theirs = ours();
        theirs["apiVersion"] = json!("g/legacy");
        theirs["metadata"]["uid"] = json!("other");
        theirs["metadata"]["generation"] = json!(1);
        theirs["metadata"]["managedFields"] = json!([]);
        assert_eq!(content(&ours()), content(&theirs));
        theirs["metadata"]["labels"] = json!({});
        assert_ne!(content(&ours()), content(&theirs));
    }

    #[test]
    fn a_copy_is_up_to_date_while_it_has_what_ours_says() {
        let copy = Copy {
            uid: "theirs".into(),
            version: 7,
            content: content(&ours()),
            matched: true,
        };
        let mut same = ours();
        same["metadata"]["resourceVersion"] = json!("901");
        assert!(is_up_to_date(&copy, &same));
        let mut other = ours();
        other["results"] = json!([2]);
        assert!(!is_up_to_date(&copy, &other));
        let mut deleted = ours();
        deleted["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
        assert!(
            !is_up_to_date(&copy, &deleted),
            "the copy has to go as well"
        );
    }

    #[test]
    fn an_update_names_the_copy_it_was_made_for_and_a_create_names_none() {
        let update = prepared(&ours(), "g/legacy", Some(("theirs", 7)));
        assert_eq!(update["apiVersion"], "g/legacy");
        assert_eq!(update["metadata"]["uid"], "theirs");
        assert_eq!(update["metadata"]["resourceVersion"], "7");
        let create = prepared(&ours(), "g/legacy", None);
        assert_eq!(create["metadata"].get("uid"), None);
        assert_eq!(create["metadata"].get("resourceVersion"), None);
        assert_eq!(create["results"], json!([1]));
    }
}
