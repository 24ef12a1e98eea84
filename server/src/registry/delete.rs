//! `delete` and `deletecollection`: objects removed, or marked while finalizers hold them.

use std::sync::Arc;

use apimachinery::error::ApiError;
use futures::{StreamExt, TryStreamExt, stream};
use storage::model::{ObjectKey, StoredObject};
use storage::store::{Write, WriteError};

use super::DeleteOptions;
use super::collection::{Collection, CommitError, Form, MAX_ATTEMPTS};
use super::strategy::delete::{self, Plan};
use super::update::Basis;

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

/// The consequence of a deletion.
enum Planned {
    /// Nothing is written.
    Unwritten(Deleted),
    /// The object is removed, or replaced by one that is marked.
    Write {
        /// The write.
        write: Write,
        /// True when the object is removed.
        removes: bool,
    },
}

impl Collection<'_> {
    /// Deletes the object of this name.
    ///
    /// # Errors
    /// 404, 409 for preconditions, and the refusals of the store.
    pub async fn delete(&self, name: &str, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        let key = self.key(name);
        if let Some(stored) = self.resource.get(&key) {
            let deleted = self.remove_once(&stored, Basis::Known, options).await?;
            if let Some(deleted) = deleted {
                return Ok(deleted);
            }
        }
        self.caught_up().await?;
        self.remove(&key, options).await
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
            let deleted = self.remove_once(&stored, Basis::Newest, options).await?;
            if let Some(deleted) = deleted {
                return Ok(deleted);
            }
        }
        Err(self.modified(name))
    }

    /// Makes one attempt; returns `None` when the object was changed in the meantime.
    async fn remove_once(
        &self,
        stored: &Arc<StoredObject>,
        basis: Basis,
        options: &DeleteOptions,
    ) -> Result<Option<Deleted>, ApiError> {
        let planned = self.planned(stored, options);
        let is_written = matches!(planned, Ok(Planned::Write { .. }));
        if !is_written && !self.is_certain(stored, basis).await? {
            return Ok(None);
        }
        let (write, removes) = match planned? {
            Planned::Unwritten(deleted) => return Ok(Some(deleted)),
            Planned::Write { write, removes } => (write, removes),
        };
        match self.commit(write).await {
            Ok(_) if removes => Ok(Some(Deleted::Gone(stored.uid.clone()))),
            Ok(written) => Ok(Some(Deleted::Waiting(Form::of(&written)))),
            Err(CommitError::Write(WriteError::Conflict { .. })) => Ok(None),
            Err(other) => Err(self.not_committed(stored.key.name(), other)),
        }
    }

    /// Returns the consequence of a deletion of an object.
    ///
    /// # Errors
    /// 409 for preconditions, and 500 when the text of the object cannot be read.
    fn planned(
        &self,
        stored: &Arc<StoredObject>,
        options: &DeleteOptions,
    ) -> Result<Planned, ApiError> {
        let object = self.requested_form(stored.value().map_err(ApiError::internal)?);
        let precondition = options.preconditions.check(&object);
        precondition.map_err(|error| self.refuse(stored.key.name(), error))?;
        let (key, expected_rv) = (stored.key.clone(), Some(stored.rv));
        let plan = delete::plan(&object, options.propagation, jiff::Timestamp::now());
        Ok(match plan {
            Plan::Remove if options.dry_run => {
                Planned::Unwritten(Deleted::Gone(stored.uid.clone()))
            }
            Plan::Mark(marked) if options.dry_run => {
                Planned::Unwritten(Deleted::Waiting(Form::Unstored(marked)))
            }
            Plan::Mark(marked) if marked == object => {
                Planned::Unwritten(Deleted::Waiting(Form::Stored(Arc::clone(stored))))
            }
            Plan::Remove => Planned::Write {
                write: Write::Delete {
                    key,
                    expected_uid: None,
                    expected_rv,
                    last: self.stored_form(object),
                },
                removes: true,
            },
            Plan::Mark(marked) => Planned::Write {
                write: Write::Update {
                    key,
                    expected_rv,
                    object: self.stored_form(marked),
                },
                removes: false,
            },
        })
    }
}
