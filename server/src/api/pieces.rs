//! The pieces of compressed lists that are kept in memory: the deflate of an object's text, in one
//! version of its API.

use std::ptr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use moka::sync::Cache;
use storage::model::{ObjectKey, StoredObject};

use crate::http::gzip::Piece;
use crate::telemetry::PieceMetrics;

/// Most memory of kept pieces, in bytes: enough for a list of more than 10,000 reports of 12 kB.
const BOUND: u64 = 32 << 20;
/// Time after which a piece that no list has used is dropped.
const IDLE: Duration = Duration::from_mins(5);
/// Interval of looks at pieces that are idle.
const SWEEP: Duration = Duration::from_mins(1);
/// Memory of a kept piece beside its own, in bytes: the entry of the cache.
const ENTRY: usize = 400;
/// Largest piece that is kept, in bytes: the cache counts what it was given with a delay of some
/// dozens of entries.
const LARGEST: usize = 64 << 10;

/// The place of a piece: a newer one takes it over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    representation: Arc<str>,
    object: ObjectKey,
}

/// A piece, and the object in the one state that it is of.
pub struct Kept {
    /// Holds the memory of the object without its content, so no other object can be there.
    object: Weak<StoredObject>,
    /// The piece.
    pub piece: Piece,
}

impl Kept {
    /// Returns true when this is the piece of that object, which never changes.
    fn is_of(&self, object: &Arc<StoredObject>) -> bool {
        ptr::eq(self.object.as_ptr(), Arc::as_ptr(object))
    }
}

/// Returns the memory of an entry, in bytes.
fn weight(_: &Place, kept: &Arc<Kept>) -> u32 {
    u32::try_from(ENTRY + kept.piece.memory()).unwrap_or(u32::MAX)
}

/// All kept pieces. Those that lists use most often stay when there is no room for all.
pub struct Pieces {
    cache: Cache<Place, Arc<Kept>>,
    metrics: PieceMetrics,
}

impl Default for Pieces {
    fn default() -> Self {
        Self::new(PieceMetrics::default())
    }
}

impl Pieces {
    /// Returns a memory for pieces, within the usual bounds.
    #[must_use]
    pub fn new(metrics: PieceMetrics) -> Self {
        Self::bounded(BOUND, IDLE, metrics)
    }

    /// Returns a memory of so many bytes for pieces that are used at least so often.
    #[must_use]
    pub fn bounded(bytes: u64, idle: Duration, metrics: PieceMetrics) -> Self {
        let cache = Cache::builder()
            .max_capacity(bytes)
            .time_to_idle(idle)
            .weigher(weight)
            .build();
        Self { cache, metrics }
    }

    /// Drops idle pieces, for ever.
    pub async fn expire(self: Arc<Self>) {
        let mut interval = tokio::time::interval(SWEEP);
        loop {
            interval.tick().await;
            self.settle();
        }
    }

    /// Drops what is idle or beyond the bound, and notes the memory of the rest.
    pub fn settle(&self) {
        self.cache.run_pending_tasks();
        self.metrics.hold(self.cache.weighted_size());
    }

    /// Returns the pieces of one representation: of objects of one resource, in one version.
    pub(super) fn of(self: &Arc<Self>, representation: String) -> Representation {
        Representation {
            pieces: Arc::clone(self),
            name: representation.into(),
        }
    }
}

/// The kept pieces of one representation.
pub struct Representation {
    pieces: Arc<Pieces>,
    name: Arc<str>,
}

impl Representation {
    /// Returns the piece of an object where it is kept.
    pub fn get(&self, object: &Arc<StoredObject>) -> Option<Arc<Kept>> {
        let kept = self.pieces.cache.get(&self.place(object));
        let kept = kept.filter(|kept| kept.is_of(object));
        self.pieces.metrics.needed(kept.is_some());
        kept
    }

    /// Keeps the piece of an object, in place of one of an earlier state.
    pub fn keep(&self, object: &Arc<StoredObject>, piece: Piece) -> Arc<Kept> {
        let kept = Arc::new(Kept {
            object: Arc::downgrade(object),
            piece,
        });
        let place = self.place(object);
        if kept.piece.memory() <= LARGEST {
            self.pieces.cache.insert(place, Arc::clone(&kept));
        }
        kept
    }

    /// See [`Pieces::settle`].
    pub fn settle(&self) {
        self.pieces.settle();
    }

    fn place(&self, object: &StoredObject) -> Place {
        Place {
            representation: Arc::clone(&self.name),
            object: object.key.clone(),
        }
    }
}
