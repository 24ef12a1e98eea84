//! The engine of a server whose database can be moved: the source until the move is done, the other
//! database from then on. The layers above it do not notice which.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::time::timeout;

use super::arrival::{Arrived, Ways};
use super::renumbered::{Numbers, Renumbered};
use super::rows::{Departure, RowKey};
use super::source::Source;
use crate::model::ResourceId;
use crate::store::engine::{Engine, EngineError, corrupt};
use crate::store::{Etcd, OpenError};

/// Longest time to note in the database that was moved that the other one is in use.
const NOTED: Duration = Duration::from_secs(1);

/// See the module's documentation.
pub(crate) struct Movable {
    /// The engine at the beginning.
    pub(super) first: Arc<dyn Engine>,
    /// The same database, as the mover sees it.
    pub(super) source: Arc<dyn Source>,
    /// The ways to the other database.
    ways: Ways,
    /// The engine in force.
    pub(super) present: ArcSwap<Present>,
    /// The cluster's etcd, whose revision the counter follows.
    etcd: Arc<dyn Etcd>,
    /// The mark that this server has set itself, until it has gone over: the source counts no more.
    left: Mutex<Option<Departure>>,
    /// The time since when the reports are where this server could not follow them to.
    behind: Mutex<Option<Instant>>,
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
    Moved(Renumbered),
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

impl Movable {
    /// Returns an engine that begins with `engine`, which `source` is the other side of, and can be
    /// moved by `ways`.
    pub(super) fn new(
        engine: Arc<dyn Engine>,
        source: Arc<dyn Source>,
        ways: Ways,
        etcd: Arc<dyn Etcd>,
    ) -> Self {
        Self {
            etcd,
            left: Mutex::default(),
            behind: Mutex::default(),
            present: ArcSwap::from_pointee(Present::Source(Arc::clone(&engine))),
            first: engine,
            source,
            ways,
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

    /// Goes on where the reports have moved by the mark that this server has set. Called by the
    /// committer. An error leaves the source behind all the same: the other database is away, and comes
    /// back; or it lacks a part, and the source counts again.
    pub(super) async fn go_over(&self, departure: Departure) -> Result<(), EngineError> {
        *self.left() = Some(departure);
        self.go_after().await.map(drop)
    }

    /// Returns whether this server has set the mark, and has not gone over yet.
    pub(super) fn has_left(&self) -> bool {
        self.left().is_some()
    }

    fn left(&self) -> MutexGuard<'_, Option<Departure>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time since when the reports are where this server could not follow them to.
    pub(super) fn behind(&self) -> MutexGuard<'_, Option<Instant>> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Looks for the mark, and opens the database that it leads to. Returns false where there is none,
    /// or where that database lacks a part, and the source counts again.
    async fn follow(&self) -> Result<bool, EngineError> {
        let Some(departure) = self.departure().await? else {
            *self.left() = None;
            *self.behind() = None;
            return Ok(false);
        };
        self.behind().get_or_insert_with(Instant::now);
        match Box::pin(self.ways.follow(&departure, &*self.etcd)).await {
            Ok(arrived) => {
                self.put(&arrived, &departure);
                // Writes may wait for this, so not for long: it tells only what is old there.
                if timeout(NOTED, self.source.arrived(&departure))
                    .await
                    .is_err()
                {
                    tracing::debug!("the old database does not answer any more");
                }
                Ok(true)
            }
            Err(OpenError::Incomplete(_)) => self.take_back(&departure).await.map(|()| false),
            Err(error) => {
                // Others may have taken the reports back, and the source says so.
                if matches!(error, OpenError::MovedElsewhere(_)) && self.source.is_shared() {
                    *self.left() = None;
                }
                Err(unreachable(error))
            }
        }
    }

    /// Returns where the reports have moved, if they have: as the source says, or by the mark that this
    /// server has set where the source is away, or nobody else has it.
    async fn departure(&self) -> Result<Option<Departure>, EngineError> {
        let own = self.left().clone();
        match own {
            Some(own) if !self.source.is_shared() => Ok(Some(own)),
            // A failover may have lost the mark, and others go on there.
            Some(own) => Ok(self.source.departure().await.unwrap_or(Some(own))),
            None => self.source.departure().await,
        }
    }

    /// Has the source count again, as the other database has lost a part of the copy.
    async fn take_back(&self, departure: &Departure) -> Result<(), EngineError> {
        let revision = self.etcd.revision().await;
        let revision = revision.map_err(|error| unreachable(OpenError::Revision(error)))?;
        if !self.source.take_back(departure, revision).await? {
            let identity = departure.marker.identity.clone();
            return Err(unreachable(OpenError::Incomplete(identity)));
        }
        *self.left() = None;
        *self.behind() = None;
        tracing::error!(
            cluster = departure.marker.identity,
            "the database to which the reports were moved has lost a part of them; they are taken back"
        );
        Ok(())
    }

    fn put(&self, arrived: &Arrived, departure: &Departure) {
        // Last: from here on it goes on from what this server has seen.
        if let Arrived::Postgres(engine) = arrived {
            self.source.hand_on(engine);
        }
        let (seq, marker) = (departure.last.seq, &departure.marker);
        tracing::info!(
            seq,
            cluster = marker.identity,
            place = arrived.name(),
            "the reports are in another database"
        );
        self.unwatch();
        let numbers = Numbers::new(&departure.ids);
        let engine = Renumbered::new(arrived.engine(), numbers);
        self.present.store(Arc::new(Present::Moved(engine)));
        *self.left() = None;
        *self.behind() = None;
        self.over.send_replace(Some(seq));
    }

    /// Returns the engine in force. Where this server has set the mark, it has to go over first.
    pub(super) async fn in_force(&self) -> Result<InForce, EngineError> {
        // Looked at first: whoever goes over has the other one in force before the mark is done with. A
        // file would take writes behind it.
        if self.has_left() {
            self.go_after().await?;
        }
        Ok(InForce(self.present.load_full()))
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

/// An engine, for one call.
pub(super) struct InForce(pub(super) Arc<Present>);

impl InForce {
    /// Returns the engine.
    pub(super) fn engine(&self) -> &dyn Engine {
        match &*self.0 {
            Present::Source(engine) => &**engine,
            Present::Moved(engine) => engine,
        }
    }

    /// Returns whether it is the source.
    pub(super) fn is_source(&self) -> bool {
        matches!(&*self.0, Present::Source(_))
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
