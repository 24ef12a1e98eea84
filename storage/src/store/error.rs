//! Errors that every function of the store may return.

use std::time::Duration;

use super::{EngineError, OtherDatabase, RevisionError};
use crate::model::GroupResource;

/// The reason why the store did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The resource was never stored: see [`super::Store::ensure_resource`].
    #[error("{0} is not stored here")]
    UnknownResource(GroupResource),
    /// The resource is stored with another kind or scope.
    #[error("{resource} is stored as {stored}; it cannot become {wanted}")]
    Mismatch {
        /// The resource.
        resource: GroupResource,
        /// Kind and scope in the database.
        stored: String,
        /// Kind and scope that were asked for.
        wanted: String,
    },
    /// The present state does not allow it: 409.
    #[error("{0}")]
    Refused(String),
    /// A field of the order is not usable: 422.
    #[error("{field}: {reason}")]
    Invalid {
        /// Path of the field in the body, such as `items[3].object.metadata.uid`.
        field: String,
        /// The fault of the field.
        reason: String,
    },
    /// Too many requests wait to be committed: 429.
    #[error("too many writes are waiting; try again in {} s", retry_after.as_secs())]
    Overloaded {
        /// The time after which the queue should have room again.
        retry_after: Duration,
    },
    /// The database does not work: 503. In rare cases it is not known whether the write was made;
    /// then it is in the cache, or will be, like any other.
    #[error("the database is unavailable: {reason}")]
    Unavailable {
        /// The time after which to try again.
        retry_after: Duration,
        /// The error of the database.
        reason: String,
    },
}

impl StoreError {
    /// Returns the time that a client should wait before it tries again, where trying again may
    /// help.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Overloaded { retry_after } | Self::Unavailable { retry_after, .. } => {
                Some(*retry_after)
            }
            Self::UnknownResource(_)
            | Self::Mismatch { .. }
            | Self::Refused(_)
            | Self::Invalid { .. } => None,
        }
    }
}

/// The reason why the store could not be opened. Each text says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the database open.
    #[error(
        "{path} is in use by another process: SQLite takes one server only; \
         stop the other one, or use PostgreSQL for several replicas"
    )]
    Locked {
        /// The lock file.
        path: String,
    },
    /// The lock file cannot be made.
    #[error("cannot lock {path}: {source}; check that the directory exists and is writable")]
    Lock {
        /// The lock file.
        path: String,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// A database was in use here, and its file is gone.
    #[error(
        "{path} is missing or empty, and {mark} says that it was in use: restore a backup, or \
         delete {mark} to begin with an empty database"
    )]
    Lost {
        /// The database.
        path: String,
        /// The mark of a database in use.
        mark: String,
    },
    /// The database was made by a newer release.
    #[error("the database is of a newer release ({0}); start that release or a later one")]
    Newer(String),
    /// The database lacks a property that everything here depends on.
    #[error("the database cannot be used: {0}; use PostgreSQL 14 or newer")]
    Unsuitable(String),
    /// The database is being filled by the server that still has the cluster's reports.
    #[error(
        "the reports of cluster {0} are being moved into this database by the servers that have \
         them; wait until that is done, or give the move up there"
    )]
    BeingFilled(String),
    /// The reports are in another database now.
    #[error(
        "the reports of cluster {0} were moved from this database to PostgreSQL; start the server \
         with --database-dir, or with --move-database-dir as before"
    )]
    Moved(String),
    /// The database's content was moved to another PostgreSQL.
    #[error(
        "the reports of cluster {0} were moved from this database to another PostgreSQL; name that \
         one, or start the server with --move-database-dir as before"
    )]
    MovedAway(String),
    /// The database's content was moved to a file of a server.
    #[error(
        "the reports were moved from this database to the volume of one server; start that server \
         with --database, and no other one"
    )]
    MovedToFile,
    /// The reports were moved to a file, which is not there.
    #[error(
        "the reports were moved to {path}, and no file there is the one: bring the volume back that \
         has it, or restore a backup"
    )]
    FileGone {
        /// The file.
        path: String,
    },
    /// The reports were moved to a database, and this is another one.
    #[error(
        "the reports of cluster {0} were moved to another database than the one that is named now; \
         name that one again"
    )]
    MovedElsewhere(String),
    /// The database to which the reports were moved has lost a part of them.
    #[error(
        "the database to which the reports of cluster {0} were moved lacks a part of them: it was \
         put back to an earlier state; restore a newer backup of it"
    )]
    Incomplete(String),
    /// The database holds the cluster under another identity.
    #[error(
        "the database holds the reports of this Kubernetes cluster under the identity {found}, and \
         none under {wanted}; start the server with --cluster-identity={found}, or name another \
         database"
    )]
    OtherIdentity {
        /// The identity in the database.
        found: String,
        /// The identity that was looked for.
        wanted: String,
    },
    /// The database does not have the history that it has to have. Nothing was made there.
    #[error(transparent)]
    OtherDatabase(Box<OtherDatabase>),
    /// The database was put back to an earlier state, and it is not known which versions clients
    /// hold.
    #[error(
        "the database was restored, and the kube-apiserver does not tell etcd's revision, above \
         which its versions have to begin: {0}"
    )]
    Revision(#[source] RevisionError),
    /// The database cannot be opened or read.
    #[error("cannot open the database: {0}; check the volume, or restore it from a backup")]
    Database(#[source] EngineError),
}

impl From<EngineError> for OpenError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::OtherDatabase(other) => Self::OtherDatabase(other),
            error => Self::Database(error),
        }
    }
}

impl OpenError {
    /// Returns whether time alone may end the error: the database cannot be reached, or accepts no
    /// connection now.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::BeingFilled(_)
            | Self::OtherDatabase(_)
            | Self::Revision(_)
            | Self::Incomplete(_) => true,
            Self::Database(EngineError::Postgres(error)) => error.diagnosis().may_pass(),
            _ => false,
        }
    }
}
