//! Clients that write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use storage::cache::Resource;
use storage::model::ObjectKey;
use storage::store::{Store, Write, WriteError};

use super::ledger::Ledger;
use super::replica::Replica;
use super::{eventually, report, reports};

/// One write in so many deletes.
const DELETE_EVERY: u32 = 10;
/// Before the cache has what the database had.
const PAUSE: Duration = Duration::from_millis(5);
/// Before a write that was refused for now is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// The place where clients write down what they do, and learn when to stop.
pub struct Desk {
    pub ledger: Ledger,
    pub stop: AtomicBool,
    /// Acknowledged writes, by the place of the server.
    acknowledged: Vec<AtomicU64>,
    /// The longest that a client has waited for an answer, in milliseconds.
    slowest: AtomicU64,
    /// Writes that were refused for now, with a hint when to try again.
    refused: AtomicU64,
    /// Answers that leave a client without any hint what to do.
    unhelpful: AtomicU64,
    /// Acknowledged writes after which clients stop by themselves.
    target: u64,
    /// Clients that have not stopped.
    busy: Arc<()>,
}

impl Desk {
    /// For servers in `places` places.
    pub fn new(places: usize, target: u64) -> Arc<Self> {
        // Room for what is refused or never answered.
        let capacity = usize::try_from(2 * target).unwrap() + 400_000;
        Arc::new(Self {
            ledger: Ledger::new(capacity),
            stop: AtomicBool::new(false),
            acknowledged: (0..places).map(|_| AtomicU64::new(0)).collect(),
            slowest: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unhelpful: AtomicU64::new(0),
            target,
            busy: Arc::default(),
        })
    }

    /// Waits until all clients have stopped, or died with their servers.
    pub async fn wait_idle(&self) {
        eventually("all clients stop", async || {
            Arc::strong_count(&self.busy) == 1
        })
        .await;
    }

    /// Acknowledged writes of the server at `place`.
    pub fn acknowledged_at(&self, place: usize) -> u64 {
        self.acknowledged[place].load(Ordering::Relaxed)
    }

    /// The longest that a client has waited for an answer since this was last asked.
    pub fn take_slowest(&self) -> Duration {
        Duration::from_millis(self.slowest.swap(0, Ordering::Relaxed))
    }

    /// Writes that were refused for now.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Answers that left a client without any hint what to do.
    pub fn unhelpful(&self) -> u64 {
        self.unhelpful.load(Ordering::Relaxed)
    }

    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.ledger.acknowledged() >= self.target
    }
}

/// The clients of one server.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    pub clients: usize,
    /// Objects of each client.
    pub keys: usize,
    /// Pause of a client between two writes.
    pub pace: Duration,
}

/// Starts the clients of `replica` at `place`. They live and die with the server.
pub fn start(replica: &Replica, place: usize, desk: &Arc<Desk>, crew: Crew) {
    for number in 0..crew.clients {
        let client = Client {
            store: replica.store.clone(),
            resource: replica.resource(),
            desk: Arc::clone(desk),
            place,
        };
        let names: Vec<_> = (0..crew.keys)
            .map(|key| format!("r{place}-{number}-{key}"))
            .collect();
        let busy = Arc::clone(&desk.busy);
        replica.runtime().spawn(async move {
            for name in names.iter().cycle() {
                if client.desk.is_over() {
                    break;
                }
                client.write(name).await;
                if !crew.pace.is_zero() {
                    tokio::time::sleep(crew.pace).await;
                }
            }
            drop(busy);
        });
    }
}

/// A client of one server.
struct Client {
    store: Store,
    resource: Arc<Resource>,
    desk: Arc<Desk>,
    place: usize,
}

impl Client {
    /// Makes one write of the object `name`, which is no other client's.
    async fn write(&self, name: &str) {
        let ledger = &self.desk.ledger;
        let Some(id) = ledger.begin() else {
            // The verdict tells that the target was not reached.
            self.desk.stop.store(true, Ordering::Relaxed);
            return;
        };
        let began = Instant::now();
        let result = self.store.write(&reports(), &self.choose(name, id)).await;
        let waited = u64::try_from(began.elapsed().as_millis()).unwrap();
        self.desk.slowest.fetch_max(waited, Ordering::Relaxed);
        match result {
            Ok(written) => {
                ledger.acknowledge(id, written.rv());
                self.desk.acknowledged[self.place].fetch_add(1, Ordering::Relaxed);
            }
            Err(
                WriteError::AlreadyExists(_)
                | WriteError::NotFound(_)
                | WriteError::Conflict { .. },
            ) => {
                // An earlier write of this client was made after all, and reaches the cache soon.
                ledger.refuse(id);
                tokio::time::sleep(PAUSE).await;
            }
            // Whether it was made is not known. Clients of tests are less patient than they should.
            Err(WriteError::Store(error)) if error.retry_after().is_some() => {
                self.desk.refused.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => {
                println!("an answer without a hint: {error}");
                self.desk.unhelpful.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    fn choose(&self, name: &str, id: u64) -> Write {
        let key = ObjectKey::new("ns", name);
        let Some(stored) = self.resource.get(&key) else {
            let object = report(name, &format!("u-{id}"), id);
            return Write::Create { key, object };
        };
        let object = report(name, &stored.uid, id);
        if rand::rng().random_ratio(1, DELETE_EVERY) {
            return Write::Delete {
                key,
                expected_rv: Some(stored.rv),
                last: object,
                expected_uid: Some(stored.uid.to_string()),
            };
        }
        Write::Update {
            key,
            expected_rv: Some(stored.rv),
            object,
        }
    }
}
