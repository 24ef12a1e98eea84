//! The embedded database moves to PostgreSQL while it is served.
//!
//! One task copies while SQLite goes on, follows what is written meanwhile, and compares. Then the
//! committer holds: for some seconds at most writes wait in the queue while the last changes are
//! copied and everything is compared once more. A mark in SQLite is the moment of the move. Before
//! it, whatever fails, SQLite goes on and the copy is begun anew; behind it, PostgreSQL is the
//! database, also where it cannot be reached. What is in memory stays as it is, so no watch breaks
//! and no version changes.
//!
//! Where to move to is told by files in a directory ([`crds::control::move_file`]): they come and
//! go while the server runs.

mod copy;
mod engine;
mod hand_over;
mod mover;
mod order;
mod renumbered;
pub(super) mod rows;

use std::{path::PathBuf, sync::Arc, time::Duration};

use crds::control::{DatabaseMove, MovePhase};
use tokio::sync::watch;

use self::order::Order;
pub(super) use self::{engine::Movable, mover::Mover};
use super::{
    OpenError,
    engine::{Engine, EngineError},
    postgres::Postgres,
    sqlite::Sqlite,
};

/// An embedded database that can be moved.
#[derive(Clone, Debug)]
pub struct MoveOptions {
    /// The SQLite file; made if it does not exist, in a directory that exists.
    pub file: PathBuf,
    /// Directory that says where to move to, if anywhere.
    pub directory: PathBuf,
    /// Longest time for which writes wait in the last step. What takes longer is given up, and
    /// tried again later.
    pub hold: Duration,
    /// How often the directory is looked at.
    pub interval: Duration,
}

impl MoveOptions {
    /// The defaults.
    #[must_use]
    pub fn new(file: impl Into<PathBuf>, directory: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            directory: directory.into(),
            hold: Duration::from_secs(5),
            interval: Duration::from_secs(1),
        }
    }
}

/// Where a move is; `None` while there is nowhere to move to.
pub(super) type Progress = Option<MoveState>;

/// Where a move is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MoveState {
    pub phase: MovePhase,
    pub target: String,
    pub attempts: u64,
    pub objects_copied: u64,
    pub objects_total: u64,
    pub seq: u64,
    pub held: Option<Duration>,
    pub message: String,
}

impl Default for MoveState {
    fn default() -> Self {
        Self {
            phase: MovePhase::Waiting,
            target: String::new(),
            attempts: 0,
            objects_copied: 0,
            objects_total: 0,
            seq: 0,
            held: None,
            message: String::new(),
        }
    }
}

impl MoveState {
    /// As the control API tells it.
    pub fn describe(&self) -> DatabaseMove {
        DatabaseMove {
            phase: self.phase,
            target: self.target.clone(),
            attempts: self.attempts,
            objects_copied: self.objects_copied,
            objects_total: self.objects_total,
            sequence: self.seq,
            held_milliseconds: self
                .held
                .map(|held| u64::try_from(held.as_millis()).unwrap_or(u64::MAX)),
            message: self.message.clone(),
        }
    }
}

/// Why an attempt came to nothing. SQLite goes on in each case.
#[derive(Debug, thiserror::Error)]
pub(super) enum MoveError {
    /// What is in the directory cannot be used.
    #[error("{0}")]
    Order(String),
    /// The database holds reports under this identity already.
    #[error(
        "the database holds reports of cluster {0} that are not an earlier attempt to move these; \
         they are never overwritten: give another database or spec.clusterIdentity.id, or have \
         whoever put them there remove them"
    )]
    Taken(String),
    /// It could not be opened for the move.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// A statement failed on one of the two sides.
    #[error("{0}")]
    Engine(#[from] EngineError),
    /// An API group is being switched, and its requests are held already.
    #[error("{0} is held for its switch; the move goes on after it")]
    Held(String),
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
    /// [`MoveError::Differs`], where there are differences.
    fn of(differences: &[String]) -> Result<(), Self> {
        match differences {
            [] => Ok(()),
            some => Err(Self::Differs(some.join(", "))),
        }
    }

    /// Whether only somebody else can mend it.
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Taken(_) | Self::Order(_))
    }
}

/// Opens the database that is in force: SQLite, or PostgreSQL where it was moved. Gives who moves
/// it, if it is still to be moved.
pub(super) async fn open(
    options: &MoveOptions,
) -> Result<(Arc<dyn Engine>, Option<Mover>, watch::Receiver<Progress>), OpenError> {
    let sqlite = Sqlite::open(&options.file).await?;
    let marker = sqlite.marker().await?;
    if let Some((marker, seq)) = marker.and_then(|m| m.moved_at.map(|seq| (m, seq))) {
        sqlite.close().await;
        tracing::info!(
            seq,
            cluster = marker.identity,
            "the reports are in PostgreSQL"
        );
        let order = Order::read(&options.directory).unwrap_or_default();
        let postgres = order.options(&options.directory, &marker.identity);
        let engine = Postgres::open_moved(&postgres, &marker).await?;
        let state = MoveState {
            phase: MovePhase::Moved,
            target: order.target,
            seq,
            ..MoveState::default()
        };
        let (_, progress) = watch::channel(Some(state));
        return Ok((Arc::new(engine), None, progress));
    }
    let movable = Arc::new(Movable::new(Arc::new(sqlite)));
    let (mover, progress) = Mover::new(Arc::clone(&movable), options.clone());
    Ok((movable, Some(mover), progress))
}
