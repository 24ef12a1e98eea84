//! Rows on their way from one database to the other, as both understand them.

use std::collections::HashMap;
use std::time::SystemTime;

use crate::model::{ObjectKey, ResourceId};

/// The place of a row, under the resource's number in the database that is moved.
pub(crate) type RowKey = (ResourceId, ObjectKey);

/// The record of a move in the database that is moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// A name that tells it from every other database that is moved.
    pub source: String,
    /// The newest attempt; once it has moved, the number under which the other database is opened.
    pub attempt: i64,
    /// True if later attempts have higher numbers.
    pub is_ordered: bool,
    /// The cluster's identity in the other database; empty where that is a file of the server.
    pub identity: String,
    /// Name of the cluster for people.
    pub name: String,
    /// The newest seq when the other database took over; `None` until it did.
    pub moved_at: Option<u64>,
}

impl Marker {
    /// Returns whether the reports are moved to a file of the server that moves them.
    pub fn leads_to_file(&self) -> bool {
        self.identity.is_empty()
    }
}

/// The last commit of a database that was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastCommit {
    /// The number.
    pub seq: u64,
    /// The random name; `None` where commits are not kept.
    pub batch: Option<i64>,
    /// The newest version that was given by then.
    pub counter: u64,
}

/// A cluster that has moved to another database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    /// The record of the move.
    pub marker: Marker,
    /// The last commit before it.
    pub last: LastCommit,
    /// Numbers of the resources: in the database that was moved, and in the other one.
    pub ids: HashMap<ResourceId, i64>,
}

/// A commit, as the log has it.
#[derive(Clone, Debug)]
pub(crate) struct CommitRow {
    pub seq: i64,
    pub counter: i64,
    pub batch: i64,
    pub changes: i32,
    pub records: bool,
    pub bytes: i64,
    pub committed_at: SystemTime,
    /// JSON.
    pub refused: Option<String>,
}

/// A part of the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogRows {
    pub changes: Vec<ChangeRow>,
    /// The commits that made the changes, and those without changes between; none where the
    /// database does not keep them.
    pub commits: Vec<CommitRow>,
}

impl LogRows {
    /// Returns number and name of the last commit.
    pub fn last_commit(&self) -> Option<(u64, i64)> {
        let last = self.commits.last()?;
        Some((last.seq.cast_unsigned(), last.batch))
    }

    /// Returns the number of the last change or commit.
    pub fn last(&self) -> Option<i64> {
        let change = self.changes.last().map(|change| change.seq);
        let commit = self.commits.last().map(|commit| commit.seq);
        change.max(commit)
    }
}

/// An object.
#[derive(Clone, Debug)]
pub(crate) struct ObjectRow {
    pub key: RowKey,
    pub uid: String,
    pub rv: i64,
    pub as_imported: bool,
    /// JSON object.
    pub labels: String,
    /// JSON without resourceVersion.
    pub body: String,
    /// JSON array of the findings in it, each with the time when it was first seen; `None` where
    /// the database does not know.
    pub first_seen: Option<String>,
}

/// A change, as the log has it.
#[derive(Clone, Debug)]
pub(crate) struct ChangeRow {
    pub seq: i64,
    pub key: RowKey,
    pub rv: i64,
    pub prev_rv: Option<i64>,
    /// 0: ADDED, 1: MODIFIED, 2: DELETED.
    pub type_: i16,
    /// 0: event and state, 1: event, 2: state.
    pub effect: i16,
    pub as_imported: bool,
    /// JSON object.
    pub prev_labels: Option<String>,
    /// Milliseconds since the epoch.
    pub committed_at: i64,
    pub body: Option<String>,
}

/// A copy of etcd that was imported and is not pruned yet.
#[derive(Clone, Debug)]
pub(crate) struct MarkRow {
    pub key: RowKey,
    pub uid: String,
    pub rv: i64,
}

/// The last imported event of a key.
#[derive(Clone, Debug)]
pub(crate) struct EventRow {
    pub key: RowKey,
    pub rv: i64,
    pub deleted: bool,
    /// JSON object.
    pub labels: String,
    /// Milliseconds since the epoch.
    pub imported_at: i64,
}
