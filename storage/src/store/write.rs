//! Writes and their outcomes.

use crds::control::GateState;
use serde_json::Value;

use super::StoreError;
use super::engine::{Op, OpKind};
use crate::model::{BodyError, ObjectKey};

/// A write of one object. Objects carry their uid in `metadata.uid`; a resourceVersion in them is
/// ignored.
#[derive(Clone, Debug)]
pub enum Write {
    /// Stores a new object.
    Create {
        /// Namespace and name.
        key: ObjectKey,
        /// The object in its storage version.
        object: Value,
    },
    /// Replaces an object. Its uid must be that of the stored one, else the answer is a conflict.
    Update {
        /// Namespace and name.
        key: ObjectKey,
        /// The version that the stored object must have; `None` replaces any.
        expected_rv: Option<u64>,
        /// The object in its storage version.
        object: Value,
    },
    /// Removes an object.
    Delete {
        /// Namespace and name.
        key: ObjectKey,
        /// The uid that the stored object must have; `None` removes any.
        expected_uid: Option<String>,
        /// The version that the stored object must have; `None` removes any.
        expected_rv: Option<u64>,
        /// The last state, which the event carries. Without `expected_rv` it may be older than the
        /// removed one.
        last: Value,
    },
}

/// The reason why a write was not made. Nothing of it is visible, except where `Store` says so.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There is an object at the key: 409 `AlreadyExists`.
    #[error("{0} already exists")]
    AlreadyExists(ObjectKey),
    /// There is no object at the key: 404.
    #[error("{0} not found")]
    NotFound(ObjectKey),
    /// The stored object has another uid or version than expected: 409 Conflict.
    #[error("{key} was changed: it has uid {uid} and resourceVersion {rv}")]
    Conflict {
        /// Namespace and name.
        key: ObjectKey,
        /// uid of the stored object.
        uid: String,
        /// Version of the stored object.
        rv: u64,
    },
    /// The gate is not open (any more): the request has to wait for it or be refused, by the gate's
    /// state.
    #[error("the resource is not open for writes ({0:?})")]
    Gate(GateState),
    /// The object cannot be stored.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The store did not take the write.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Longest part of a key, in bytes: far above what Kubernetes allows, far below what an index
/// takes.
const MAX_PART: usize = 1024;

impl Op {
    /// Refuses a write that a database cannot hold, so that the writes beside it are not refused
    /// with it.
    ///
    /// # Errors
    /// [`StoreError::Invalid`].
    pub(super) fn check(&self) -> Result<(), StoreError> {
        for (field, part) in [
            ("metadata.namespace", self.key.namespace()),
            ("metadata.name", self.key.name()),
        ] {
            storable(field, part)?;
            if part.len() > MAX_PART {
                let reason = format!("must be no more than {MAX_PART} bytes");
                return Err(invalid(field, &reason));
            }
        }
        storable("metadata.uid", &self.object.uid)?;
        match &self.kind {
            OpKind::Delete {
                expected_uid: Some(uid),
                ..
            } => storable("preconditions.uid", uid),
            _ => Ok(()),
        }
    }
}

/// Checks that PostgreSQL can store a text: its texts hold every character but one.
fn storable(field: &str, text: &str) -> Result<(), StoreError> {
    if text.contains('\0') {
        return Err(invalid(field, NUL));
    }
    Ok(())
}

/// The fault of a text that holds the one character.
pub(super) const NUL: &str = "must not contain a NUL character";

fn invalid(field: &str, reason: &str) -> StoreError {
    StoreError::Invalid {
        field: field.to_owned(),
        reason: reason.to_owned(),
    }
}
