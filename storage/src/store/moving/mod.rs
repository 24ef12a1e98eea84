//! The embedded database moves to PostgreSQL while it is served.
//!
//! One task copies while SQLite goes on, follows the writes of that time, and compares. Then the
//! committer holds: for some seconds at most writes wait in the queue while the last changes are
//! copied and everything is compared once more. A mark in SQLite is the moment of the move. Before
//! it, whatever fails, SQLite goes on and the copy is begun anew; after it, PostgreSQL is the
//! database, also where it cannot be reached. The content of memory stays as it is, so no watch
//! breaks and no version changes.
//!
//! Files in a directory name the database to move to ([`crds::control::move_file`]): they come and
//! go while the server runs.

mod copy;
mod engine;
mod error;
mod hand_over;
mod mover;
mod options;
mod renumbered;
mod request;
pub(super) mod rows;
mod state;

use std::sync::Arc;

use crds::control::MovePhase;
use tokio::sync::watch;

pub(super) use self::engine::Movable;
pub(super) use self::error::MoveError;
pub(super) use self::mover::Mover;
pub use self::options::MoveOptions;
use self::request::MoveRequest;
pub(super) use self::state::{MoveState, Progress};
use super::OpenError;
use super::engine::Engine;
use super::postgres::Postgres;
use super::sqlite::Sqlite;

/// Opens the database that is in force: SQLite, or PostgreSQL where it was moved. Returns its mover
/// too, if it is still to be moved.
pub(super) async fn open(
    options: &MoveOptions,
) -> Result<(Arc<dyn Engine>, Option<Mover>, watch::Receiver<Progress>), OpenError> {
    let sqlite = Sqlite::open_in_use(&options.file).await?;
    let marker = sqlite.marker().await?;
    if let Some((marker, seq)) = marker.and_then(|m| m.moved_at.map(|seq| (m, seq))) {
        sqlite.close().await;
        tracing::info!(
            seq,
            cluster = marker.identity,
            "the reports are in PostgreSQL"
        );
        let request = MoveRequest::read(&options.directory).unwrap_or_default();
        let postgres = request.options(&options.directory, &marker.identity);
        let engine = Postgres::open_moved(&postgres, &marker).await?;
        let state = MoveState {
            phase: MovePhase::Moved,
            target: request.target,
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
