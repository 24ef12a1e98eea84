//! Servers at work, with clients that write and clients that watch.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pgtest::Postgres;
use tokio::sync::{RwLock, watch};
use tokio::task::JoinHandle;

use super::ledger::{Comparison, FIRST_VERSION};
use super::replica::{Place, Replica};
use super::watcher::{End, Seen, Slots, Watcher};
use super::writers::{self, Crew, Desk};
use super::{eventually, log};

/// Servers in their places, their clients, and a reader of the database's log.
pub struct Scene {
    pub server: Arc<Postgres>,
    pub places: Vec<Place>,
    pub slots: Slots,
    pub desk: Arc<Desk>,
    crew: Crew,
    readers: Vec<JoinHandle<Seen>>,
    end: End,
    /// The database from which the reader of the log reads.
    log: watch::Sender<Arc<Postgres>>,
    began: Instant,
}

/// The findings of a scene.
#[derive(Debug)]
pub struct Verdict {
    pub acknowledged: u64,
    /// Answers that said when to try again.
    pub refused: u64,
    /// Answers that said neither that, nor what was wrong with the request.
    pub unhelpful: u64,
    /// Of each client that watched, and last of one that reads the log itself.
    pub readers: Vec<(Comparison, Tally)>,
    /// Objects in the memory of each server that are not the same in the database.
    pub differing: usize,
    /// Writes a second.
    pub rate: f64,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub out_of_order: u64,
    pub duplicated: u64,
    pub expired: u64,
    pub resumed: u64,
    /// The reason why the last watch that failed did.
    pub trouble: String,
}

impl Verdict {
    /// Nothing was lost, out of order or seen twice, and memory and database agree.
    pub fn assert_clean(&self) {
        for (comparison, tally) in &self.readers {
            assert!(comparison.is_clean(), "{self:#?}");
            let wrong = (tally.out_of_order, tally.duplicated, tally.expired);
            assert_eq!(wrong, (0, 0, 0), "{self:#?}");
        }
        assert_eq!((self.differing, self.unhelpful), (0, 0), "{self:#?}");
        println!(
            "{} writes acknowledged and {} refused, {:.0} a second",
            self.acknowledged, self.refused, self.rate
        );
    }
}

/// A server whose versions are above the ledger's marks.
pub async fn serve(place: &Place) -> Replica {
    let replica = place.serve().await.unwrap();
    let store = replica.store.clone();
    let floor = replica.run(async move { store.raise_floor(FIRST_VERSION).await });
    floor.await.unwrap();
    replica
}

impl Scene {
    /// Starts a server in each place and its clients, until `target` writes are acknowledged.
    pub async fn begin(
        server: &Arc<Postgres>,
        places: Vec<Place>,
        crew: Crew,
        target: u64,
    ) -> Self {
        let slots: Slots = Arc::new(places.iter().map(|_| RwLock::default()).collect());
        for (slot, place) in slots.iter().zip(&places) {
            *slot.write().await = Some(serve(place).await);
        }
        let desk = Desk::new(places.len(), target);
        let end = End::default();
        let log = watch::Sender::new(Arc::clone(server));
        let readers = readers(&log, &slots, &desk, &end).await;
        let scene = Self {
            server: Arc::clone(server),
            places,
            slots,
            desk,
            crew,
            readers,
            end,
            log,
            began: Instant::now(),
        };
        for (at, slot) in scene.slots.iter().enumerate() {
            scene.employ(slot.read().await.as_ref().unwrap(), at);
        }
        scene
    }

    fn employ(&self, replica: &Replica, at: usize) {
        writers::start(replica, at, &self.desk, self.crew);
    }

    /// Kills the server at a place.
    pub async fn kill(&self, at: usize) {
        drop(self.slots[at].write().await.take());
    }

    /// Starts a server in a place that has none, as often as it takes.
    pub async fn start(&self, at: usize) {
        let replica = loop {
            // What strikes others may strike a start as well.
            match self.places[at].serve().await {
                Ok(replica) => break replica,
                Err(error) => println!("a server does not start: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        self.employ(&replica, at);
        *self.slots[at].write().await = Some(replica);
    }

    /// Kills the server at a place and starts another.
    pub async fn replace(&self, at: usize) {
        self.kill(at).await;
        self.start(at).await;
    }

    /// Waits until every server has had `writes` more writes acknowledged.
    pub async fn progress(&self, writes: u64) {
        let all: Vec<_> = (0..self.places.len()).collect();
        self.progress_at(&all, writes).await;
    }

    /// Waits until each of these servers has had `writes` more writes acknowledged.
    pub async fn progress_at(&self, places: &[usize], writes: u64) {
        for &at in places {
            let wanted = self.desk.acknowledged_at(at) + writes;
            eventually(&format!("server {at} commits"), async || {
                self.desk.acknowledged_at(at) >= wanted
            })
            .await;
        }
    }

    /// Waits until so many more writes were refused.
    pub async fn refusals(&self, writes: u64) {
        let wanted = self.desk.refused() + writes;
        eventually("writes are refused", async || self.desk.refused() >= wanted).await;
    }

    /// The database is somewhere else from now on.
    pub fn moved_to(&mut self, server: &Arc<Postgres>) {
        self.server = Arc::clone(server);
        self.log.send_replace(Arc::clone(server));
    }

    /// As [`Scene::end_since`], with all writes.
    pub async fn end(self, patience: Duration) -> Verdict {
        self.end_since(0, patience).await
    }

    /// Judges the writes behind number `since`. Ends the clients that write, and those that watch
    /// as soon as they have seen everything, but after `patience` in any case.
    pub async fn end_since(self, since: u64, patience: Duration) -> Verdict {
        self.desk.stop.store(true, Ordering::Relaxed);
        self.desk.wait_idle().await;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let rate = self.desk.ledger.acknowledged() as f64 / self.began.elapsed().as_secs_f64();
        self.end.at(log::newest_version(&self.server).await);
        let give_up = self.end.clone();
        let watchdog = tokio::spawn(async move {
            tokio::time::sleep(patience).await;
            give_up.give_up();
        });
        let mut readers = Vec::new();
        for reader in self.readers {
            let seen = reader.await.unwrap();
            let tally = Tally {
                out_of_order: seen.out_of_order,
                duplicated: seen.duplicated,
                expired: seen.expired,
                resumed: seen.resumed,
                trouble: seen.trouble,
            };
            readers.push((self.desk.ledger.compare(&seen.versions, since), tally));
        }
        watchdog.abort();
        Verdict {
            acknowledged: self.desk.ledger.acknowledged(),
            refused: self.desk.refused(),
            unhelpful: self.desk.unhelpful(),
            readers,
            differing: differing(&self.server, &self.slots).await,
            rate,
        }
    }
}

/// As many clients that watch as there are servers, and one that reads the log.
async fn readers(
    server: &watch::Sender<Arc<Postgres>>,
    slots: &Slots,
    desk: &Desk,
    end: &End,
) -> Vec<JoinHandle<Seen>> {
    let capacity = desk.ledger.capacity();
    let resource = slots[0].read().await.as_ref().unwrap().resource();
    let position = resource.current_rv();
    let newest = Arc::clone(&server.borrow());
    let seq = log::newest_seq(&newest).await;
    let seen = || Seen::from(position, capacity);
    let mut readers: Vec<_> = (0..slots.len())
        .map(|_| {
            let watcher = Watcher {
                slots: Arc::clone(slots),
                end: end.clone(),
            };
            tokio::spawn(watcher.run(seen()))
        })
        .collect();
    let log = log::read(server.subscribe(), end.clone(), seq, seen());
    readers.push(tokio::spawn(log));
    readers
}

/// Returns the number of objects that are not the same everywhere.
pub async fn differing(server: &Postgres, slots: &Slots) -> usize {
    let stored = log::objects(server).await;
    let mut differing = 0;
    for slot in slots.iter() {
        let slot = slot.read().await;
        let Some(replica) = slot.as_ref() else {
            continue;
        };
        let store = replica.store.clone();
        if let Err(error) = replica.run(async move { store.consistent().await }).await {
            println!("a server has not caught up: {error}");
        }
        let held: BTreeSet<_> = replica
            .resource()
            .snapshot()
            .range(None, None)
            .map(|object| (object.key.name().to_owned(), object.rv))
            .collect();
        differing += held.symmetric_difference(&stored).count();
    }
    differing
}
