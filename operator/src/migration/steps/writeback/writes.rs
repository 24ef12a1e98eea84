//! The writing of one object through the side door.

use crds::names::FIELD_MANAGER;
use http::Method;
use serde_json::{Value, json};

use super::copy::{Copy, copy_of, is_deleting, preconditions, prepared};
use super::{
    CONFLICTS, Done, Orphan, PATIENCE, Writer, find_copy, is_namespace_gone, is_object_gone,
};
use crate::migration::cluster::control::{find, retry};
use crate::migration::cluster::door::objects::VERSION;
use crate::migration::cluster::operations;
use crate::migration::cluster::pages::{self, Key, identity};
use crate::migration::cluster::wire::{Reply, WireError, query};

impl Writer<'_> {
    /// Returns our object from its text.
    pub(super) fn parsed(&self, key: &Key, text: &str) -> Result<Value, WireError> {
        pages::parse(text, &self.path(&self.version, key))
    }

    pub(super) async fn put(
        &self,
        key: &Key,
        ours: &str,
        copy: Option<Copy>,
    ) -> Result<Done, WireError> {
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
            if copy.as_ref().is_some_and(|copy| copy.deleting) && !is_deleting(ours) {
                // It would go with the write: ours is another object, which was made since.
                let done = self.delete(key, copy.take()).await?;
                if matches!(done, Done::Orphaned(_) | Done::TakenAway) {
                    return Ok(done);
                }
            }
            let result = self.write_once(key, ours, copy.as_ref()).await;
            match result {
                Err(e) if matches!(e.code(), Some(404 | 409)) && attempt < CONFLICTS => {
                    attempt += 1;
                    copy = self.copy(key).await?;
                    if self.is_taken_away().await? {
                        return Ok(Done::TakenAway);
                    }
                }
                // Whatever is in a namespace that goes away goes with it.
                Err(e) if is_namespace_gone(&e) && copy.is_none() => return Ok(Done::Nothing),
                Err(e) if is_namespace_gone(&e) => return self.delete(key, copy).await,
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
        let found = identity(&written).ok_or_else(|| WireError::Build {
            path,
            message: "the answer to a write is not an object".to_owned(),
        })?;
        if is_deleting(ours) && !is_deleting(&written) {
            let options = json!({"kind": "DeleteOptions", "apiVersion": "v1",
                "preconditions": preconditions(&found.uid, found.version)});
            operations::delete(self.door, &self.path(VERSION, key), &options).await?;
        }
        Ok(Done::Written(copy_of(ours, found, true).1))
    }

    pub(super) async fn flash(&self, key: &Key, last: &str) -> Result<Done, WireError> {
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

    pub(super) async fn delete(
        &self,
        key: &Key,
        mut copy: Option<Copy>,
    ) -> Result<Done, WireError> {
        let mut attempt = 1;
        loop {
            let Some(known) = &copy else {
                return Ok(Done::Nothing);
            };
            match self.delete_once(key, known).await {
                Err(e) if e.code() == Some(409) && attempt < CONFLICTS => {
                    attempt += 1;
                    copy = self.copy(key).await?;
                    if self.is_taken_away().await? {
                        return Ok(Done::TakenAway);
                    }
                }
                done => return done,
            }
        }
    }

    /// Deletes this state of a copy, and no later one: a request that stays with a kube-apiserver
    /// for a while must not delete what was written after it.
    async fn delete_once(&self, key: &Key, copy: &Copy) -> Result<Done, WireError> {
        let path = self.path(VERSION, key);
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1",
            "propagationPolicy": "Background",
            "preconditions": preconditions(&copy.uid, copy.version)});
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
            Err(e) if is_object_gone(&e, &key.name) => return Ok(Done::Nothing),
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
                Err(e) if !is_object_gone(&e, &key.name) => return Err(e),
                _ => {}
            }
        }
        Ok(Done::Deleted)
    }

    /// Returns whether clients may have written the copy that was just read, because an APIService
    /// does not lead to the server any more. Asked after the copy was read, so that it is from before
    /// anybody took over.
    ///
    /// # Errors
    /// If another operator has taken over; see [`WireError`].
    async fn is_taken_away(&self) -> Result<bool, WireError> {
        let ((), ours) = tokio::try_join!(
            self.cx.control.check_fence(self.resource.name()),
            operations::are_ours(self.cx, self.o.ours()),
        )?;
        Ok(!ours)
    }

    /// Returns the text of the server's object.
    pub(super) async fn ours(&self, key: &Key) -> Result<Option<Box<str>>, WireError> {
        let path = self.path(&self.version, key);
        let found = find(PATIENCE, &self.cx.wire, &path).await?;
        let text = |reply: Reply| Ok(reply.json::<Value>()?.to_string().into());
        found.map(text).transpose()
    }

    async fn copy(&self, key: &Key) -> Result<Option<Copy>, WireError> {
        let path = self.path(VERSION, key);
        let found = find_copy(PATIENCE, self.door, &path, &key.name).await?;
        let copy = |found: Value| Some(copy_of(&found, identity(&found)?, true).1);
        Ok(found.and_then(copy))
    }

    pub(super) fn path(&self, version: &str, key: &Key) -> String {
        operations::object_path(self.cx, self.resource, version, key)
    }

    fn collection_of(&self, key: &Key) -> String {
        let path = self.path(VERSION, key);
        path.rsplit_once('/')
            .map(|(collection, _)| collection.to_owned())
            .unwrap_or(path)
    }
}
