//! The engine of a server whose database can be moved: the source until the move is done, another
//! PostgreSQL from then on. The layers above it do not notice which.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use tokio::sync::{OnceCell, watch};

use super::renumbered::{Numbers, Renumbered};
use super::request::MoveRequest;
use super::rows::RowKey;
use super::source::Source;
use crate::model::ResourceId;
use crate::store::OpenError;
use crate::store::engine::{Engine, EngineError, corrupt};
use crate::store::postgres::Postgres;
use crate::store::postgres::moving::Filling;

/// See the module's documentation.
pub(crate) struct Movable {
    /// The engine at the beginning.
    pub(super) first: Arc<dyn Engine>,
    /// The same database, as the mover sees it.
    pub(super) source: Arc<dyn Source>,
    /// The directory that names the database to move to.
    directory: PathBuf,
    /// The engine in force.
    pub(super) present: ArcSwap<Present>,
    /// Held by whoever goes over; the last time that this failed, and why.
    going: tokio::sync::Mutex<Option<(Instant, String)>>,
    /// The newest change when the other database came into force here; `None` before.
    over: watch::Sender<Option<u64>>,
    /// True while there is an order to move: another server may carry it out at any moment.
    pub(super) ordered: AtomicBool,
    /// Writes that an attempt has to know of; `None` while there is no attempt.
    watched: Mutex<Option<Watched>>,
}

pub(super) enum Present {
    Source(Arc<dyn Engine>),
    Moved(Box<Moved>),
}

/// The database that the reports were moved to.
pub(super) struct Moved {
    /// The database as this process has filled it; `None` where another one did.
    filled: Option<Filling>,
    pub(super) engine: Renumbered,
    /// Set when the cluster was opened there. It may go away between the mark and this.
    open: OnceCell<()>,
}

/// Writes that cannot be seen in the log of changes.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Keys of imports: their marks and last events may be other ones now.
    pub imported: HashSet<RowKey>,
    /// Resources that are not mirrored any more.
    pub opened: HashSet<ResourceId>,
    /// The change up to which all are copied; those behind it are not dropped.
    pub copied: u64,
}

impl Moved {
    pub(super) async fn opened(&self) -> Result<&Renumbered, EngineError> {
        self.open
            .get_or_try_init(|| async {
                let open = match &self.filled {
                    Some(filled) => filled.open().await?,
                    None => true,
                };
                if open {
                    Ok(())
                } else {
                    Err(EngineError::Parted)
                }
            })
            .await?;
        Ok(&self.engine)
    }
}

impl Movable {
    /// Returns an engine that begins with `engine`, which `source` is the other side of. Files in
    /// `directory` name the database to move to.
    pub fn new(engine: Arc<dyn Engine>, source: Arc<dyn Source>, directory: PathBuf) -> Self {
        Self {
            present: ArcSwap::from_pointee(Present::Source(Arc::clone(&engine))),
            first: engine,
            source,
            directory,
            going: tokio::sync::Mutex::default(),
            over: watch::Sender::new(None),
            ordered: AtomicBool::new(false),
            watched: Mutex::default(),
        }
    }

    /// Returns the database that is moved.
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// Returns the history of the cluster in the database at the beginning; `None` where that is of
    /// this process alone.
    pub fn first_history(&self) -> Option<String> {
        self.first.history()
    }

    /// Notes whether there is an order to move.
    pub fn order(&self, ordered: bool) {
        self.ordered.store(ordered, Ordering::Relaxed);
    }

    /// Returns the newest change of the moment at which the other database came into force here;
    /// none before.
    pub fn over(&self) -> watch::Receiver<Option<u64>> {
        self.over.subscribe()
    }

    /// Returns the present value of [`Movable::over`].
    pub fn moved_at(&self) -> Option<u64> {
        *self.over.borrow()
    }

    /// Watches all writes from now on.
    pub(super) fn watch(&self) {
        *self.watched() = Some(Watched::default());
    }

    /// Ends the watch.
    pub(super) fn unwatch(&self) {
        *self.watched() = None;
    }

    /// Returns the writes since the last call; all of them are committed. `copied` is the change up
    /// to which the log is copied.
    pub(super) fn take(&self, copied: u64) -> Watched {
        let mut watched = self.watched();
        let taken = watched.take().unwrap_or_default();
        *watched = Some(Watched {
            copied,
            ..Watched::default()
        });
        taken
    }

    pub(super) fn watched(&self) -> MutexGuard<'_, Option<Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on in the database that was filled. Called by the committer, when the source is marked
    /// as moved at `seq`. An error leaves the called engine in force: the database is away, and
    /// comes back.
    pub(super) async fn go_over(&self, filled: Filling, seq: u64) -> Result<(), EngineError> {
        let _going = self.going.lock().await;
        if self.moved().is_none() {
            let numbers = Numbers::new(filled.ids());
            self.put(Moved {
                engine: Renumbered::new(filled.engine(), numbers),
                filled: Some(filled),
                open: OnceCell::new(),
            });
            self.over.send_replace(Some(seq));
        }
        match self.moved() {
            Some(present) => present.opened().await.map(drop),
            None => Ok(()),
        }
    }

    /// Goes on where another server has moved the reports to. Returns false where none has.
    pub(super) async fn go_after(&self) -> Result<bool, EngineError> {
        let asked = Instant::now();
        let mut failed = self.going.lock().await;
        if self.moved().is_some() {
            return Ok(true);
        }
        // Those who waited for an attempt do not each make another one, all behind one another.
        if let Some((at, why)) = &*failed
            && *at > asked
        {
            return Err(corrupt(&"following the reports", why));
        }
        let followed = self.follow().await;
        if let Err(error) = &followed {
            *failed = Some((Instant::now(), error.to_string()));
        }
        followed
    }

    /// Looks for the mark, and opens the database that it leads to.
    async fn follow(&self) -> Result<bool, EngineError> {
        let Some(departure) = self.source.departure().await? else {
            return Ok(false);
        };
        let marker = &departure.marker;
        let request = MoveRequest::read(&self.directory).unwrap_or_default();
        let options = request.options(&self.directory, &marker.identity);
        let opened = Box::pin(Postgres::open_moved(&options, marker)).await;
        let engine = opened.map_err(unreachable)?;
        let goes_on = engine.go_on().await;
        goes_on.map_err(|error| unreachable(error.into()))?;
        self.source.hand_on(&engine);
        self.put(Moved {
            engine: Renumbered::new(Arc::new(engine), Numbers::new(&departure.ids)),
            filled: None,
            open: OnceCell::new(),
        });
        let seq = marker.moved_at.unwrap_or_default();
        tracing::info!(
            seq,
            cluster = marker.identity,
            "following the reports to PostgreSQL"
        );
        self.over.send_replace(Some(seq));
        Ok(true)
    }

    fn put(&self, moved: Moved) {
        self.unwatch();
        self.present
            .store(Arc::new(Present::Moved(Box::new(moved))));
    }

    /// Returns the engine that the reports were moved to, if they were.
    pub(super) fn moved(&self) -> Option<InForce> {
        let present = self.present.load_full();
        matches!(&*present, Present::Moved(_)).then_some(InForce(present))
    }

    /// Returns the engine to call again, after one that has `failed`: the reports may be elsewhere.
    pub(super) async fn instead(&self, failed: EngineError) -> Result<InForce, EngineError> {
        if !matches!(failed, EngineError::Parted) || !self.source.is_shared() {
            return Err(failed);
        }
        match self.go_after().await {
            Ok(true) => self.moved().ok_or(failed),
            Ok(false) => Err(failed),
            // Nothing is lost, and nothing has to be loaded again.
            Err(error) => Err(error),
        }
    }
}

/// The engine that the reports were moved to, for one call.
pub(super) struct InForce(Arc<Present>);

impl InForce {
    pub(super) async fn opened(&self) -> Result<&Renumbered, EngineError> {
        match &*self.0 {
            Present::Moved(moved) => moved.opened().await,
            Present::Source(_) => Err(EngineError::Parted),
        }
    }
}

/// Returns the error that the database to which the reports were moved is not there. It is not one
/// that has memory loaded again.
fn unreachable(error: OpenError) -> EngineError {
    match error {
        OpenError::Database(EngineError::Parted) | OpenError::MovedElsewhere(_) => {
            let what = "the database to which the reports were moved";
            corrupt(&what, "is not the one that is named now")
        }
        OpenError::Database(error) => error,
        OpenError::OtherDatabase(other) => EngineError::OtherDatabase(other),
        other => corrupt(&"the database to which the reports were moved", other),
    }
}
