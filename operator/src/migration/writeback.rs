//! Writing one resource back to etcd through the side door.

use std::collections::HashMap;

use crds::control::{DigestSet, checksum};
use futures::{FutureExt, StreamExt, stream};
use http::Method;
use serde_json::{Value, json};

use super::{
    acts,
    control::retry,
    cx::Cx,
    diff::{self, NAMED},
    door::VERSION,
    observed::{Crd, Resource},
    pages::{Identity, Key, Pages, identity},
    wire::{Wire, WireError, collection, object, query},
};
use crds::names::FIELD_MANAGER;

/// Writes under way at the same time.
const CONCURRENCY: usize = 8;
/// How long one request is tried.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);
/// How often a write is repeated because etcd's copy has changed under it.
const CONFLICTS: u32 = 3;

/// What a pass has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Created or updated in etcd.
    pub written: usize,
    /// Deleted from etcd.
    pub deleted: usize,
    /// Refused by the kube-apiserver.
    pub refused: usize,
    /// The first of the refused, and why.
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
            Ok(Done::Written) => self.written += 1,
            Ok(Done::Deleted) => self.deleted += 1,
            Ok(Done::Nothing) => {}
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
    Written,
    Deleted,
    Nothing,
}

/// A copy in etcd.
#[derive(Clone, Debug)]
struct Copy {
    uid: String,
    version: u64,
    content: String,
}

/// Brings etcd up to the server, in two passes.
pub struct Writer<'a> {
    cx: &'a Cx,
    resource: &'a Resource,
    version: String,
    door: &'a Wire,
    /// What the first pass has seen at the server: uid and version by key.
    seen: HashMap<Key, (String, u64)>,
}

impl<'a> Writer<'a> {
    /// A writer of one resource through the door at `door`.
    #[must_use]
    pub fn new(cx: &'a Cx, resource: &'a Resource, crd: &'a Crd, door: &'a Wire) -> Self {
        let version = crd.read_version().unwrap_or_default().to_owned();
        Self {
            cx,
            resource,
            version,
            door,
            seen: HashMap::new(),
        }
    }

    /// Compares everything and writes what differs, while the server still serves.
    ///
    /// # Errors
    /// See [`WireError`]; writes that are refused are in the account.
    pub async fn first_pass(&mut self) -> Result<Account, WireError> {
        let mut etcd = self.copies().await?;
        let path = collection(&self.cx.target.group, &self.version, self.resource.plural());
        let mut pages = Pages::new(
            &self.cx.wire,
            path,
            self.cx.target.settings.page_size,
            false,
        );
        let mut account = Account::default();
        self.seen.clear();
        while let Some(page) = pages.next().await? {
            self.cx.pacer.turn().await;
            let mut work = Vec::new();
            for ours in page.items {
                let Some(found) = identity(&ours) else {
                    continue;
                };
                let copy = etcd.remove(&found.key);
                self.seen
                    .insert(found.key.clone(), (found.uid, found.version));
                if copy.as_ref().is_none_or(|c| c.content != content(&ours)) {
                    work.push((found.key, ours, copy));
                }
            }
            let writes = work.into_iter().map(|(key, ours, copy)| {
                async {
                    let done = self.write(&key, ours, copy).await;
                    (key, done)
                }
                .boxed()
            });
            let all: Vec<_> = stream::iter(writes)
                .buffer_unordered(CONCURRENCY)
                .collect()
                .await;
            for (key, done) in &all {
                account.count(key, done);
            }
        }
        self.delete_gone(etcd, &mut account).await?;
        Ok(account)
    }

    /// Writes what has changed since the first pass. Requests are held meanwhile, so afterwards
    /// etcd has everything.
    ///
    /// # Errors
    /// As [`Self::first_pass`].
    pub async fn last_pass(&mut self) -> Result<Account, WireError> {
        let (items, _) = self
            .cx
            .control
            .digest(self.resource.name(), DigestSet::Objects)
            .await?;
        let now = diff::of_digest(items);
        let mut account = Account::default();
        let changed: Vec<Key> = now
            .iter()
            .filter(|(key, side)| {
                self.seen
                    .get(*key)
                    .is_none_or(|(u, v)| *u != side.uid || *v != side.version)
            })
            .map(|(key, _)| key.clone())
            .collect();
        let gone: Vec<Key> = self
            .seen
            .keys()
            .filter(|key| !now.contains_key(*key))
            .cloned()
            .collect();
        let work = changed.into_iter().chain(gone);
        let writes = work.map(|key| {
            async {
                let done = self.bring_up(&key).await;
                (key, done)
            }
            .boxed()
        });
        let all: Vec<_> = stream::iter(writes)
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        for (key, done) in &all {
            account.count(key, done);
        }
        Ok(account)
    }

    /// Makes etcd's copy of one key what ours is now. Reads of the holder pass a held gate.
    async fn bring_up(&self, key: &Key) -> Result<Done, WireError> {
        let ours = get(&self.cx.wire, &self.path(&self.version, key)).await?;
        let copy = self.copy(key).await?;
        match (ours, copy) {
            (Some(ours), copy) => self.write(key, ours, copy).await,
            (None, Some(copy)) => self.delete(key, &copy).await,
            (None, None) => Ok(Done::Nothing),
        }
    }

    /// Everything in etcd.
    async fn copies(&self) -> Result<HashMap<Key, Copy>, WireError> {
        let path = collection(&self.cx.target.group, VERSION, self.resource.plural());
        let mut pages = Pages::new(self.door, path, self.cx.target.settings.page_size, false);
        let mut all = HashMap::new();
        while let Some(page) = pages.next().await? {
            self.cx.pacer.turn().await;
            all.extend(
                page.items
                    .iter()
                    .filter_map(|o| identity(o).map(|i| copy_of(o, i))),
            );
        }
        Ok(all)
    }

    async fn copy(&self, key: &Key) -> Result<Option<Copy>, WireError> {
        let found = get(self.door, &self.path(VERSION, key)).await?;
        Ok(found.and_then(|o| identity(&o).map(|i| copy_of(&o, i).1)))
    }

    /// Deletes the copies of what was deleted at the server. What was never imported is left.
    async fn delete_gone(
        &self,
        etcd: HashMap<Key, Copy>,
        account: &mut Account,
    ) -> Result<(), WireError> {
        if etcd.is_empty() {
            return Ok(());
        }
        let name = self.resource.name();
        let (items, _) = self.cx.control.digest(name, DigestSet::Imported).await?;
        let imported = diff::of_digest(items);
        for (key, copy) in etcd {
            if imported.get(&key).is_some_and(|side| side.uid == copy.uid) {
                let done = self.delete(&key, &copy).await;
                account.count(&key, &done);
            } else {
                tracing::warn!(resource = name, %key, "left in etcd: it was never copied");
            }
        }
        Ok(())
    }

    async fn write(
        &self,
        key: &Key,
        ours: Value,
        mut copy: Option<Copy>,
    ) -> Result<Done, WireError> {
        let mut attempt = 1;
        loop {
            let result = self.write_once(key, &ours, copy.as_ref()).await;
            match result {
                Err(e) if matches!(e.code(), Some(404 | 409)) && attempt < CONFLICTS => {
                    attempt += 1;
                    copy = self.copy(key).await?;
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
        let known = copy.map(|c| (c.uid.as_str(), c.version));
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
        retry(PATIENCE, call).await?;
        if ours.pointer("/metadata/deletionTimestamp").is_some() {
            let options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
            acts::delete(self.door, &self.path(VERSION, key), &options).await?;
        }
        Ok(Done::Written)
    }

    async fn delete(&self, key: &Key, copy: &Copy) -> Result<Done, WireError> {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions":
            {"uid": copy.uid, "resourceVersion": copy.version.to_string()}});
        let path = self.path(VERSION, key);
        match retry(PATIENCE, || acts::delete(self.door, &path, &options)).await {
            Ok(()) => Ok(Done::Deleted),
            Err(e) if e.code() == Some(404) => Ok(Done::Nothing),
            Err(e) => Err(e),
        }
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

fn copy_of(object: &Value, found: Identity) -> (Key, Copy) {
    (
        found.key,
        Copy {
            uid: found.uid,
            version: found.version,
            content: content(object),
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

fn is_namespace_gone(error: &WireError) -> bool {
    match error {
        WireError::Status {
            code: 403, message, ..
        } => message.contains("is being terminated"),
        WireError::Status {
            code: 404, message, ..
        } => message.contains("namespaces"),
        _ => false,
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

/// Checksum of what a client has put into an object; equal on both sides once it is written.
fn content(object: &Value) -> String {
    let mut bare = object.clone();
    if let Some(meta) = bare.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ASSIGNED {
            meta.remove(field);
        }
    }
    checksum(&bare)
}

/// The body of a write: ours, as the door's version, at the state etcd's copy is in.
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

    #[test]
    fn a_namespace_that_goes_away_is_no_refusal() {
        let status = |code, message: &str| WireError::Status {
            method: Method::POST,
            path: String::new(),
            code,
            reason: String::new(),
            message: message.to_owned(),
            retry_after: None,
        };
        let terminating = "unable to create new content in namespace n because it is being \
                           terminated";
        assert!(is_namespace_gone(&status(403, terminating)));
        assert!(is_namespace_gone(&status(
            404,
            "namespaces \"n\" not found"
        )));
        assert!(!is_namespace_gone(&status(
            403,
            "policyreports is forbidden"
        )));
    }
}
