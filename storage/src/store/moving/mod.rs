//! A database moves to another one while it is served: SQLite or PostgreSQL to a PostgreSQL, or
//! PostgreSQL to a file of the one server that is left on it.
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
pub(super) mod target;

use std::path::Path;
use std::sync::Arc;

use crds::control::MovePhase;
use tokio::sync::watch;

use self::arrival::Ways;
pub(super) use self::engine::Movable;
pub(super) use self::error::MoveError;
pub(super) use self::mover::Mover;
pub use self::options::{MoveOptions, MovedFrom};
use self::request::MoveRequest;
use self::rows::Departure;
use self::source::{Order, Source, Turn};
pub(super) use self::state::{MoveState, Progress};
use super::engine::{Engine, corrupt};
use super::postgres::moving::Leaving;
use super::postgres::{Found, Postgres};
use super::sqlite::Sqlite;
use super::sqlite::arrival::Arrival;
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
    let source = Leaving::new(Arc::clone(&engine), options.lease);
    if let Some(arrival) = left_for(&engine, options).await? {
        tracing::error!("the database has lost that the reports have moved; they are followed");
        let departure = mark_again(&source, &arrival, options).await?;
        source.leave().await;
        engine.close().await;
        return open_moved(&departure, options, etcd).await;
    }
    // Before anything is loaded, which may take long: the move waits for those who are about to serve.
    source.attend(&order_at_hand(options).await).await?;
    Ok(movable(engine, Arc::new(source), options, etcd))
}

/// Returns the move by which the file of this server was filled from the database at hand, and is in
/// use: a failover of that has lost the mark.
async fn left_for(engine: &Postgres, options: &MoveOptions) -> Result<Option<Arrival>, OpenError> {
    let Some(file) = &options.file else {
        return Ok(None);
    };
    let arrival = Sqlite::arrived_at(file).await?;
    let here = engine.history();
    Ok(arrival.filter(|arrival| here.as_ref() == Some(&arrival.source)))
}

/// Sets a mark again that a failover has lost. What was written there since is lost with it.
async fn mark_again(
    source: &Leaving,
    arrival: &Arrival,
    options: &MoveOptions,
) -> Result<Departure, OpenError> {
    let order = Order {
        identity: "",
        name: "",
        id: &arrival.order,
    };
    let Turn::Own(marker) = source.turn(order).await? else {
        let why = "was lost, and another server, or an order, is in the way of setting it again";
        return Err(corrupt(&"the mark of the move", why).into());
    };
    let mut held = source.hold(marker.attempt, options.hold).await?;
    let last = held.last().await?;
    let records = source.snapshot().await?.records().await?;
    let ids = records.iter().map(|record| (record.id, record.id.0));
    let departure = held.mark(last, arrival.attempt, &ids.collect()).await;
    Ok(departure.map_err(|error| corrupt(&"the mark of the move", error))?)
}

/// Returns the order that a server could follow already; empty for none.
async fn order_at_hand(options: &MoveOptions) -> String {
    let directory = &options.directory;
    let request = MoveRequest::read(directory);
    // Nobody follows into a file.
    let request = request.filter(|request| !request.give_up && !request.to_file);
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
    let arrived = Box::pin(Ways::of(options).follow(departure, &**etcd)).await?;
    let (seq, marker) = (departure.last.seq, &departure.marker);
    tracing::info!(
        seq,
        cluster = marker.identity,
        place = arrived.name(),
        "the reports are in another database"
    );
    let request = MoveRequest::read(&options.directory).unwrap_or_default();
    let state = MoveState {
        phase: MovePhase::Moved,
        target: request.target,
        seq,
        ..MoveState::default()
    };
    let (_, progress) = watch::channel(Some(state));
    Ok((arrived.engine(), None, progress))
}

fn movable(
    engine: Arc<dyn Engine>,
    source: Arc<dyn Source>,
    options: &MoveOptions,
    etcd: &Arc<dyn Etcd>,
) -> Opened {
    let ways = Ways::of(options);
    let movable = Arc::new(Movable::new(engine, source, ways, Arc::clone(etcd)));
    let (mover, progress) = Mover::new(Arc::clone(&movable), options.clone());
    (movable, Some(mover), progress)
}
