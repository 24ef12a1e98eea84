//! The errors of a move.

use std::path::PathBuf;
use std::time::Duration;

use crate::store::engine::EngineError;
use crate::store::{OpenError, StoreError};

/// The reason why an attempt failed. The database that is moved goes on in each case.
#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum MoveError {
    /// The content of the directory cannot be used.
    #[error("{0}")]
    Request(String),
    /// The database holds reports under this identity already.
    #[error(
        "the database holds reports of cluster {0} that are not an earlier attempt to move these; \
         they are never overwritten: give another database or spec.clusterIdentity.id, or have \
         whoever put them there remove them"
    )]
    Taken(String),
    /// The file holds reports already.
    #[error(
        "{} holds reports that were not moved away from there; they are never overwritten: give the \
         move up, and remove the claim of the volume if nobody needs them",
        .0.display()
    )]
    Occupied(PathBuf),
    /// The server has no file that reports can be moved to.
    #[error("this server has no volume for the reports; the one that has it moves them")]
    NoFile,
    /// It could not be opened for the move.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// A statement failed on one of the two sides.
    #[error("{0}")]
    Engine(#[from] EngineError),
    /// An API group is being switched, and its requests are held already.
    #[error("{0} is held for its switch; the move goes on after it")]
    Held(String),
    /// Another server has begun the move anew, or it was given up.
    #[error("another server goes on with the move")]
    TakenOver,
    /// The order was carried out already: a failover of the database that was moved has lost the mark.
    #[error("the reports are in the other database already, since a moment that this one has lost")]
    Opened(i64),
    /// The other database has lost a part of the copy before it was opened.
    #[error("the other database has lost a part of the copy; the reports are where they were")]
    TakenBack,
    /// The mark of the move may be set, or come to be.
    #[error("it is not known yet whether the reports have moved: {0}")]
    Unknown(EngineError),
    /// Other servers could not follow.
    #[error(
        "{0} other servers have not read the order yet; the kubelet brings it within two minutes"
    )]
    Unaware(i64),
    /// Other servers are there, and could not follow into a file.
    #[error(
        "{0} other servers are on the database, and cannot follow the reports into a file; the move \
         goes on when they are gone"
    )]
    Others(i64),
    /// The committer did not take the order.
    #[error("{0}")]
    Order(#[from] StoreError),
    /// The last step would have made writes wait for too long.
    #[error("the last step took more than {} s; writes went on without it", .0.as_secs_f32())]
    Late(Duration),
    /// The copy is not the same.
    #[error("the copy differs: {0}")]
    Differs(String),
    /// The server ends.
    #[error("the server is shutting down")]
    Stopped,
}

impl MoveError {
    /// Returns [`MoveError::Differs`] where there are differences.
    pub(super) fn of(differences: &[String]) -> Result<(), Self> {
        match differences {
            [] => Ok(()),
            some => Err(Self::Differs(some.join(", "))),
        }
    }

    /// Returns whether the copy is good for another last step.
    pub(super) fn keeps_copy(&self) -> bool {
        match self {
            Self::Held(_) | Self::Unaware(_) | Self::Others(_) | Self::Order(_) | Self::Late(_) => {
                true
            }
            Self::Engine(error) => matches!(error, EngineError::Postgres(_)),
            _ => false,
        }
    }

    /// Returns whether only somebody else can end the error.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Taken(_) | Self::Occupied(_) | Self::Request(_))
    }
}
