//! Clients that watch, lose their watch, and resume it somewhere else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::RngExt as _;
use storage::cache::{Cursor, CursorError, Event, Resource};
use storage::store::Store;
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;

use super::replica::Replica;

/// Events that are taken at a time.
const PAGE: usize = 1000;
/// Most events of a watch.
const MOVE_AFTER: u64 = 40_000;
const PAUSE: Duration = Duration::from_millis(20);

/// The servers as clients find them; `None` while one is down.
pub type Slots = Arc<Vec<RwLock<Option<Replica>>>>;

/// The observations of one client.
pub struct Seen {
    /// The version of each write's event, by the write's number.
    pub versions: Vec<u64>,
    pub events: u64,
    pub out_of_order: u64,
    pub duplicated: u64,
    /// Number of times that the client had to resume.
    pub resumed: u64,
    /// Number of times that it was told that its version is too old.
    pub expired: u64,
    /// The reason why the last watch that failed did.
    pub trouble: String,
    position: u64,
}

impl Seen {
    pub fn from(rv: u64, capacity: usize) -> Self {
        Self {
            versions: vec![0; capacity],
            events: 0,
            out_of_order: 0,
            duplicated: 0,
            resumed: 0,
            expired: 0,
            trouble: String::new(),
            position: rv,
        }
    }

    /// Notes the event that the write `id` made, with version `rv`.
    pub fn note(&mut self, id: u64, rv: u64) {
        self.events += 1;
        self.out_of_order += u64::from(rv <= self.position);
        self.position = self.position.max(rv);
        let seen = &mut self.versions[usize::try_from(id).unwrap()];
        self.duplicated += u64::from(*seen != 0);
        *seen = rv;
    }
}

/// The number of the write that made `event`.
pub fn id(event: &Event) -> u64 {
    event.object.labels.get("id").unwrap().parse().unwrap()
}

/// The point at which readers are done.
#[derive(Clone, Default)]
pub struct End {
    /// The last version; 0 while it is not known.
    last: Arc<AtomicU64>,
    given_up: CancellationToken,
}

impl End {
    /// The change with this version is the last one.
    pub fn at(&self, rv: u64) {
        self.last.store(rv, Ordering::Release);
    }

    /// Readers that have not seen the last change end as well.
    pub fn give_up(&self) {
        self.given_up.cancel();
    }

    pub fn is_reached(&self, seen: &Seen) -> bool {
        let last = self.last.load(Ordering::Acquire);
        self.given_up.is_cancelled() || (last > 0 && seen.position >= last)
    }
}

/// A client that watches until the end, by whichever server it finds.
pub struct Watcher {
    pub slots: Slots,
    pub end: End,
}

impl Watcher {
    pub async fn run(self, mut seen: Seen) -> Seen {
        while !self.end.is_reached(&seen) {
            if let Some((mut cursor, killed)) = self.open(&mut seen).await {
                self.follow(&mut cursor, &killed, &mut seen).await;
                seen.resumed += 1;
            } else {
                tokio::time::sleep(PAUSE).await;
            }
        }
        seen
    }

    /// A watch at some server that is up, as the API opens it.
    async fn open(&self, seen: &mut Seen) -> Option<(Cursor, CancellationToken)> {
        let at = rand::rng().random_range(0..self.slots.len());
        let (store, resource, killed): (Store, Arc<Resource>, _) = {
            let slot = self.slots[at].read().await;
            let replica = slot.as_ref()?;
            (
                replica.store.clone(),
                replica.resource(),
                replica.killed.clone(),
            )
        };
        let wait = store.wait_for_rv(&resource, seen.position);
        tokio::select! {
            reached = wait => reached.ok()?,
            () = killed.cancelled() => return None,
        }
        if let Ok(cursor) = resource.events_from(seen.position) {
            return Some((cursor, killed));
        }
        // Lists again.
        seen.expired += 1;
        seen.position = resource.snapshot().rv;
        None
    }

    async fn follow(&self, cursor: &mut Cursor, killed: &CancellationToken, seen: &mut Seen) {
        let leave_at = seen.events + rand::rng().random_range(1..MOVE_AFTER);
        while seen.events < leave_at && !self.end.is_reached(seen) {
            let next = cursor.next(PAGE);
            tokio::pin!(next);
            let events = loop {
                tokio::select! {
                    events = &mut next => break events,
                    () = killed.cancelled() => return,
                    () = tokio::time::sleep(PAUSE) => if self.end.is_reached(seen) {
                        return;
                    },
                }
            };
            match events {
                Ok(events) => events.iter().for_each(|e| seen.note(id(e), e.rv())),
                Err(CursorError::Lagged { .. }) => {
                    seen.expired += 1;
                    return;
                }
                Err(CursorError::Closed { .. }) => return,
                Err(CursorError::Log(error)) => {
                    seen.trouble = error.to_string();
                    return;
                }
            }
        }
    }
}
