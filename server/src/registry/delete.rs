//! `delete` and `deletecollection`: objects removed, or marked while finalizers hold them.

use std::sync::Arc;

use apimachinery::error::ApiError;
use futures::{StreamExt, TryStreamExt, stream};
use storage::model::{ObjectKey, StoredObject};
use storage::store::{Write, WriteError};

use super::DeleteOptions;
use super::collection::{Collection, CommitError, Form, MAX_ATTEMPTS};
use super::strategy::delete::{self, Plan};

/// Most deletions of a collection at a time; together they make one batch of the committer.
const CONCURRENCY: usize = 64;

/// The outcome of a deletion.
#[derive(Debug)]
pub enum Deleted {
    /// The object is gone; this was its uid.
    Gone(Box<str>),
    /// The object is there until its finalizers are taken away.
    Waiting(Form),
}

impl Collection<'_> {
    /// Deletes the object of this name.
    ///
    /// # Errors
    /// 404, 409 for preconditions, and the refusals of the store.
    pub async fn delete(&self, name: &str, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        self.caught_up().await?;
        self.remove(&self.key(name), options).await
    }

    /// Deletes objects that were listed. Somebody else may have deleted some of them since.
    ///
    /// # Errors
    /// The first failure of a deletion; earlier deletions stay then.
    pub async fn delete_all(
        &self,
        keys: Vec<ObjectKey>,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        stream::iter(keys)
            .map(|key| async move {
                match self.remove(&key, options).await {
                    Err(error) if error.code() == 404 => Ok(()),
                    other => other.map(drop),
                }
            })
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await
    }

    async fn remove(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        let name = key.name();
        for _ in 0..MAX_ATTEMPTS {
            let stored = self.resource.get(key);
            let stored = stored.ok_or_else(|| self.not_found(name))?;
            if let Some(deleted) = self.remove_once(&stored, options).await? {
                return Ok(deleted);
            }
        }
        Err(self.modified(name))
    }

    /// Makes one attempt; returns `None` when the object was changed in the meantime.
    async fn remove_once(
        &self,
        stored: &Arc<StoredObject>,
        options: &DeleteOptions,
    ) -> Result<Option<Deleted>, ApiError> {
        let name = stored.key.name();
        let object = self.requested_form(stored.value().map_err(ApiError::internal)?);
        let precondition = options.preconditions.check(&object);
        precondition.map_err(|error| self.refuse(name, error))?;
        let (key, expected_rv) = (stored.key.clone(), Some(stored.rv));
        let gone = || Deleted::Gone(stored.uid.clone());
        let plan = delete::plan(&object, options.propagation, jiff::Timestamp::now());
        let (write, removes) = match plan {
            Plan::Remove if options.dry_run => return Ok(Some(gone())),
            Plan::Mark(marked) if options.dry_run => {
                return Ok(Some(Deleted::Waiting(Form::Unstored(marked))));
            }
            Plan::Mark(marked) if marked == object => {
                return Ok(Some(Deleted::Waiting(Form::Stored(Arc::clone(stored)))));
            }
            Plan::Remove => {
                let write = Write::Delete {
                    key,
                    expected_uid: None,
                    expected_rv,
                    last: self.stored_form(object),
                };
                (write, true)
            }
            Plan::Mark(marked) => {
                let object = self.stored_form(marked);
                let write = Write::Update {
                    key,
                    expected_rv,
                    object,
                };
                (write, false)
            }
        };
        match self.commit(write).await {
            Ok(_) if removes => Ok(Some(gone())),
            Ok(written) => Ok(Some(Deleted::Waiting(Form::of(&written)))),
            Err(CommitError::Write(WriteError::Conflict { .. })) => Ok(None),
            Err(other) => Err(self.not_committed(name, other)),
        }
    }
}
