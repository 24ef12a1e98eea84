//! A database, SQLite or PostgreSQL, moves to another PostgreSQL while it is served.
//!
//! One task copies while the source goes on, follows the writes of that time, and compares. Then the
//! committer holds: for some seconds at most writes wait in the queue while the last changes are
//! copied and everything is compared once more. A mark in the source is the moment of the move.
//! Before it, whatever fails, the source goes on and the copy is begun anew; after it, the other
//! database counts, also where it cannot be reached. The content of memory stays as it is, so no
//! watch breaks and no version changes.
//!
//! Where several servers share the source, one of them copies at a time, and holds the lock of all
//! writers in the last step. The others find the mark when they are refused, or look, and go on in
//! the other database, too.
//!
//! Files in a directory name the database to move to ([`crds::control::move_file`]): they come and
//! go while the server runs.

mod arrival;
mod attendance;
mod copy;
mod engine;
mod error;
mod forward;
mod hand_over;
mod mover;
mod options;
mod renumbered;
mod request;
pub(super) mod rows;
pub(super) mod source;
mod state;

use std::path::Path;
use std::sync::Arc;

use crds::control::MovePhase;
use tokio::sync::watch;

use self::arrival::arrive;
pub(super) use self::engine::Movable;
pub(super) use self::error::MoveError;
pub(super) use self::mover::Mover;
pub use self::options::{MoveOptions, MovedFrom};
use self::request::MoveRequest;
use self::rows::Departure;
use self::source::Source;
pub(super) use self::state::{MoveState, Progress};
use super::engine::Engine;
use super::postgres::{Found, Postgres};
use super::sqlite::Sqlite;
use super::{Etcd, OpenError, PostgresOptions};

/// A database that is open: its engine, its mover if it is still to be moved, and the progress.
type Opened = (Arc<dyn Engine>, Option<Mover>, watch::Receiver<Progress>);

/// Opens the database that is in force: the source, or PostgreSQL where it was moved. Returns its
/// mover too, if it is still to be moved.
pub(super) async fn open(options: &MoveOptions, etcd: &Arc<dyn Etcd>) -> Result<Opened, OpenError> {
    match &options.from {
        MovedFrom::File(file) => open_file(file, options, etcd).await,
        MovedFrom::Postgres(postgres) => open_shared(postgres, options, etcd).await,
    }
}

async fn open_file(
    file: &Path,
    options: &MoveOptions,
    etcd: &Arc<dyn Etcd>,
) -> Result<Opened, OpenError> {
    let sqlite = Sqlite::open_in_use(file).await?;
    if let Some(departure) = sqlite.departure().await? {
        let opened = open_moved(&departure, options, etcd).await;
        if !is_incomplete(&opened) {
            sqlite.close().await;
            return opened;
        }
        let revision = etcd.revision().await.map_err(OpenError::Revision)?;
        let attempt = departure.marker.attempt;
        sqlite.take_back(attempt, revision).await?;
    }
    let sqlite = Arc::new(sqlite);
    let source = super::sqlite::moving::Leaving(Arc::clone(&sqlite));
    Ok(movable(sqlite, Arc::new(source), options, etcd))
}

async fn open_shared(
    postgres: &PostgresOptions,
    options: &MoveOptions,
    etcd: &Arc<dyn Etcd>,
) -> Result<Opened, OpenError> {
    let departure = match Postgres::find(postgres).await? {
        Found::Moved(departure) => departure,
        Found::Here(engine) => return open_here(*engine, options, etcd).await,
    };
    let opened = open_moved(&departure, options, etcd).await;
    if !is_incomplete(&opened) {
        return opened;
    }
    let revision = etcd.revision().await.map_err(OpenError::Revision)?;
    let left = Postgres::left(postgres).await?;
    let back = left.take_back(departure.marker.attempt, revision).await;
    left.close().await;
    if !back? {
        return opened;
    }
    match Postgres::find(postgres).await? {
        Found::Here(engine) => open_here(*engine, options, etcd).await,
        // Others have moved them again meanwhile.
        Found::Moved(departure) => open_moved(&departure, options, etcd).await,
    }
}

async fn open_here(
    engine: Postgres,
    options: &MoveOptions,
    etcd: &Arc<dyn Etcd>,
) -> Result<Opened, OpenError> {
    let engine = Arc::new(engine);
    let source = super::postgres::moving::Leaving::new(Arc::clone(&engine), options.lease);
    // Before anything is loaded, which may take long: the move waits for those who are about to serve.
    source.attend(&order_at_hand(options).await).await?;
    Ok(movable(engine, Arc::new(source), options, etcd))
}

/// Returns the order that a server could follow already; empty for none.
async fn order_at_hand(options: &MoveOptions) -> String {
    let directory = &options.directory;
    let request = MoveRequest::read(directory).filter(|request| !request.give_up);
    let Some(request) = request else {
        return String::new();
    };
    let there = request.options(directory, &request.identity);
    match Postgres::history_at(&there).await {
        Ok(_) => request.known_as().to_owned(),
        Err(_) => String::new(),
    }
}

fn is_incomplete(opened: &Result<Opened, OpenError>) -> bool {
    matches!(opened, Err(OpenError::Incomplete(_)))
}

/// Opens the database that reports were moved to.
async fn open_moved(
    departure: &Departure,
    options: &MoveOptions,
    etcd: &Arc<dyn Etcd>,
) -> Result<Opened, OpenError> {
    let (seq, marker) = (departure.last.seq, &departure.marker);
    tracing::info!(
        seq,
        cluster = marker.identity,
        "the reports are in PostgreSQL"
    );
    let request = MoveRequest::read(&options.directory).unwrap_or_default();
    let postgres = request.options(&options.directory, &marker.identity);
    let engine = Box::pin(arrive(&postgres, departure, &**etcd)).await?;
    let state = MoveState {
        phase: MovePhase::Moved,
        target: request.target,
        seq,
        ..MoveState::default()
    };
    let (_, progress) = watch::channel(Some(state));
    Ok((Arc::new(engine), None, progress))
}

fn movable(
    engine: Arc<dyn Engine>,
    source: Arc<dyn Source>,
    options: &MoveOptions,
    etcd: &Arc<dyn Etcd>,
) -> Opened {
    let directory = options.directory.clone();
    let movable = Arc::new(Movable::new(engine, source, directory, Arc::clone(etcd)));
    let (mover, progress) = Mover::new(Arc::clone(&movable), options.clone());
    (movable, Some(mover), progress)
}
