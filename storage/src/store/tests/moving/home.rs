//! Embedded databases that can be moved, and their users meanwhile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crds::control::{GateState, MovePhase, move_file};
use pgtest::{Params, Postgres, PostgresOptions};
use tempfile::{NamedTempFile, TempDir};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cache::Event;
use crate::model::StoredObject;
use crate::store::tests::{Bed, RING, Seen, brief, def, key, seen};
use crate::store::{
    Database, MoveOptions, OpenError, PostgresOptions as Options, Store, StoreOptions, WriteError,
};

pub(super) static SERVER: LazyLock<Postgres> = LazyLock::new(start);

/// Starts a server with databases to move.
pub(super) fn start() -> Postgres {
    // A runtime does not start inside another one.
    let start = std::thread::spawn(|| {
        let start = Postgres::start(PostgresOptions::quick());
        Runtime::new().unwrap().block_on(start).unwrap()
    });
    start.join().unwrap()
}

/// Puts a file in its place at once, as the kubelet does: it is looked at all the time. `directory` is
/// on the same file system.
pub(super) fn place_file(directory: &TempDir, path: &Path, text: &str) {
    let file = NamedTempFile::new_in(directory).unwrap();
    std::fs::write(&file, text).unwrap();
    file.persist(path).unwrap();
}

/// An embedded database, and the database it may be moved to.
pub(super) struct Home {
    pub directory: TempDir,
    pub identity: String,
    pub params: Params,
}

impl Home {
    pub fn new() -> Self {
        Self::to(SERVER.params())
    }

    pub fn to(params: Params) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self {
            directory: tempfile::tempdir().unwrap(),
            identity: format!("moved {}", NEXT.fetch_add(1, Ordering::Relaxed)),
            params,
        }
    }

    pub fn orders(&self) -> PathBuf {
        self.directory.path().join("move")
    }

    /// Asks for the move.
    pub fn ask(&self) {
        self.params.write(&self.orders()).unwrap();
        self.tell(move_file::TARGET, "there");
        self.tell(move_file::CLUSTER_IDENTITY, &self.identity);
    }

    pub fn tell(&self, name: &str, text: &str) {
        place_file(&self.directory, &self.orders().join(name), text);
    }

    pub fn options(&self) -> StoreOptions {
        options(Database::Movable(self.move_options()))
    }

    pub fn move_options(&self) -> MoveOptions {
        MoveOptions {
            interval: Duration::from_millis(10),
            ..MoveOptions::new(self.file(), self.orders())
        }
    }

    pub fn file(&self) -> PathBuf {
        self.directory.path().join("reports.db")
    }

    pub async fn open(&self) -> Bed {
        Self::bed(Store::open(self.options()).await.unwrap()).await
    }

    pub async fn bed(store: Store) -> Bed {
        let reports = store.ensure_resource(def()).await.unwrap();
        Bed { store, reports }
    }

    pub async fn serving(&self) -> Bed {
        let bed = self.open().await;
        bed.gate(GateState::Open).await;
        bed
    }

    /// Opens another server, which knows nothing of the move.
    pub async fn other(&self) -> Result<Store, OpenError> {
        let there = Options::new(self.there(), &self.identity);
        open(Database::Postgres(there)).await
    }

    pub fn there(&self) -> PathBuf {
        let directory = self.directory.path().join("there");
        SERVER.params().write(&directory).unwrap();
        directory
    }
}

fn options(database: Database) -> StoreOptions {
    StoreOptions {
        ring: RING,
        indexed_labels: vec!["app".to_owned()],
        ..StoreOptions::on(database)
    }
}

/// Opens a server on a database.
pub(super) async fn open(database: Database) -> Result<Store, OpenError> {
    Store::open(options(database)).await
}

/// Waits until the message of a move has some words.
pub(super) async fn told(bed: &Bed, words: &str) {
    let wait = async {
        let has = |message: String| message.contains(words);
        while !bed.store.database().move_.is_some_and(|m| has(m.message)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    waited.unwrap_or_else(|_| panic!("{words}: {:?}", bed.store.database()));
}

pub(super) async fn reached(store: &Store, phase: MovePhase) {
    let wait = async {
        while store.database().move_.map(|m| m.phase) != Some(phase) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let limit = Duration::from_mins(1);
    let waited = tokio::time::timeout(limit, wait).await;
    waited.unwrap_or_else(|_| panic!("{phase:?}: {:?}", store.database()));
}

/// Returns name → version, uid, label, as a store serves it.
pub(super) fn state(bed: &Bed) -> BTreeMap<String, (u64, String, String)> {
    let snapshot = bed.reports.snapshot();
    let objects = snapshot.range(Some("ns"), None);
    let whole = |object: &Arc<StoredObject>| {
        let (name, uid, app) = brief(object);
        (name, (object.rv, uid, app))
    };
    objects.map(whole).collect()
}

/// Clients that write and watch before, during and after a move.
pub(super) struct Clients {
    from: u64,
    stop: Arc<AtomicBool>,
    end: watch::Sender<u64>,
    watchers: Vec<JoinHandle<Vec<Seen>>>,
    writers: Vec<JoinHandle<Vec<Seen>>>,
}

impl Clients {
    /// Begins them: one that watches from `from` on at each of `watched`, and a writer at each of
    /// `written`.
    pub fn begin(from: u64, watched: &[&Bed], written: &[&Bed]) -> Self {
        let (end, last) = watch::channel(0);
        let stop = Arc::default();
        let watchers = watched.iter().map(|bed| watcher(bed, from, last.clone()));
        let writers = (0..).zip(written).map(|(n, bed)| writer(bed, n, &stop));
        Self {
            from,
            watchers: watchers.collect(),
            writers: writers.collect(),
            end,
            stop,
        }
    }

    /// Ends them, and returns what they have made, in order: each version once, and every watcher has
    /// seen all of it.
    pub async fn end(self) -> Vec<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        let mut made = Vec::new();
        for writer in self.writers {
            made.extend(writer.await.unwrap());
        }
        made.sort_by_key(|seen| seen.1);
        let newest = made.last().unwrap().1;
        self.end.send_replace(newest);
        for watcher in self.watchers {
            assert_eq!(watcher.await.unwrap(), made);
        }
        let versions: Vec<u64> = made.iter().map(|seen| seen.1).collect();
        let expected: Vec<u64> = (self.from + 1..=newest).collect();
        assert_eq!(versions, expected, "each version once, and in order");
        made
    }
}

/// Writes until it is told to stop; returns the writes that were acknowledged.
fn writer(bed: &Bed, number: u32, stop: &Arc<AtomicBool>) -> JoinHandle<Vec<Seen>> {
    let (bed, stop) = (
        Bed {
            store: bed.store.clone(),
            reports: Arc::clone(&bed.reports),
        },
        Arc::clone(stop),
    );
    tokio::spawn(async move {
        let mut made = Vec::new();
        let name = |n: u32| format!("w{number}-{}", n % 7);
        for n in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let name = name(n);
            let there = bed.reports.get(&key(&name)).is_some();
            let written: Result<Arc<Event>, WriteError> = match (n % 5, there) {
                (_, false) => bed.create(&name, &format!("u{number}-{n}")).await,
                (4, true) => bed.delete(&name, None).await,
                (_, true) => {
                    let uid = bed.reports.get(&key(&name)).unwrap().uid.to_string();
                    bed.update(&name, &uid, &format!("a{n}"), None).await
                }
            };
            if let Ok(written) = written {
                made.push(seen(&written));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        made
    })
}

/// Reads all events that come, until `last`.
fn watcher(bed: &Bed, from: u64, last: watch::Receiver<u64>) -> JoinHandle<Vec<Seen>> {
    let mut cursor = bed.reports.events_from(from).unwrap();
    tokio::spawn(async move {
        let mut events: Vec<Seen> = Vec::new();
        loop {
            let end = *last.borrow();
            if end > 0 && events.last().is_some_and(|event| event.1 >= end) {
                return events;
            }
            let more = tokio::time::timeout(Duration::from_millis(100), cursor.next(3)).await;
            let Ok(more) = more else { continue };
            events.extend(more.unwrap().iter().map(|event: &Arc<Event>| seen(event)));
        }
    })
}
