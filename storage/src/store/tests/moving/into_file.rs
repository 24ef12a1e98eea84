//! A PostgreSQL database that moves into a file of the one server that is left on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crds::control::{
    DatabaseEngine, DigestSet, GateState, ImportMode, ImportType, MovePhase, move_file,
};
use pgtest::{Direction, Params, Proxy};
use tempfile::TempDir;

use super::home::{Clients, Home, SERVER, open, place_file, reached, state, told};
use crate::model::packed;
use crate::store::engine::Engine;
use crate::store::tests::{Bed, Fixture, Seen, brief, item, key, reports, seen, suite};
use crate::store::{
    Database, Etcd, MoveOptions, OpenError, PostgresOptions as Options, Store, moving,
};

/// A database of servers, and a volume for one of them.
struct House {
    directory: TempDir,
    identity: String,
    from: Params,
    file: PathBuf,
}

impl House {
    fn new() -> Self {
        Self::from(SERVER.params())
    }

    fn from(from: Params) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let directory = tempfile::tempdir().unwrap();
        let volume = directory.path().join("volume");
        std::fs::create_dir(&volume).unwrap();
        Self {
            directory,
            identity: format!("into a file {}", NEXT.fetch_add(1, Ordering::Relaxed)),
            from,
            file: volume.join("reports.db"),
        }
    }

    /// Returns the way back of an embedded database that has moved, into the same file.
    fn back(home: &Home) -> Self {
        Self {
            identity: home.identity.clone(),
            file: home.file(),
            ..Self::new()
        }
    }

    fn orders(&self) -> PathBuf {
        self.directory.path().join("orders")
    }

    fn tell(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.orders()).unwrap();
        place_file(&self.directory, &self.orders().join(name), text);
    }

    fn ask(&self) {
        self.tell(move_file::TARGET, "the volume");
        self.tell(move_file::ORDER, "the first");
        self.tell(move_file::TO_FILE, "true");
    }

    fn place(&self) -> Options {
        let directory = self.directory.path().join("from");
        self.from.write(&directory).unwrap();
        Options::new(directory, &self.identity)
    }

    fn move_options(&self) -> MoveOptions {
        MoveOptions {
            file: Some(self.file.clone()),
            interval: Duration::from_millis(10),
            lease: Duration::from_millis(200),
            ..MoveOptions::between(self.place(), self.orders())
        }
    }

    async fn try_open(&self) -> Result<Store, OpenError> {
        open(Database::Movable(self.move_options())).await
    }

    async fn open(&self) -> Bed {
        Home::bed(self.try_open().await.unwrap()).await
    }

    async fn serving(&self) -> Bed {
        let bed = self.open().await;
        bed.gate(GateState::Open).await;
        bed
    }

    /// Opens another server, which has no volume.
    async fn other(&self) -> Bed {
        let options = MoveOptions {
            file: None,
            ..self.move_options()
        };
        Home::bed(open(Database::Movable(options)).await.unwrap()).await
    }

    /// Opens a server that knows nothing of moves, on the database that is moved.
    async fn here(&self) -> Result<Store, OpenError> {
        open(Database::Postgres(self.place())).await
    }

    /// Opens an embedded server on the file.
    async fn embedded(&self) -> Bed {
        let store = open(Database::Sqlite(self.file.clone())).await;
        Home::bed(store.unwrap()).await
    }

    /// Has a failover of the database lose that the reports have moved.
    async fn lose_the_mark(&self) {
        let own = format!(
            "(SELECT cluster FROM reports_server.clusters WHERE identity = '{}')",
            self.identity
        );
        let lose = format!(
            "UPDATE reports_server.departures SET moved_at = NULL, seq = NULL, batch = NULL,
                 counter = NULL, here = NULL, there = NULL WHERE cluster = {own};
             UPDATE reports_server.commits SET cluster = -cluster WHERE cluster = -{own}"
        );
        SERVER.sql(&lose).await.unwrap();
    }

    /// Returns the files of the volume.
    fn files(&self) -> Vec<String> {
        let volume = self.file.parent().map(Path::read_dir).unwrap().unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.unwrap().file_name().into_string().unwrap()
        };
        volume.map(name).collect()
    }
}

/// Writers and watchers before, during and after the move, and the embedded server behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_do_not_notice() {
    let house = House::new();
    let bed = house.serving().await;
    assert!(bed.store.database().can_move_to_file);
    for n in 0..400 {
        bed.create(&format!("old-{n}"), &format!("o{n}"))
            .await
            .unwrap();
    }
    let from = bed.reports.current_rv();
    let clients = Clients::begin(from, &[&bed; 2], &[&bed; 3]);
    house.ask();
    reached(&bed.store, MovePhase::Moved).await;
    assert_eq!(bed.store.database().engine, DatabaseEngine::Sqlite);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let made = clients.end().await;
    let newest = made.last().unwrap().1;
    // What is left behind is nobody's.
    let refused = house.here().await.unwrap_err();
    assert!(matches!(refused, OpenError::MovedToFile), "{refused}");
    let found = state(&bed);
    bed.close().await;
    // A pod that starts as before finds the mark, and the file.
    let again = house.open().await;
    assert_eq!(again.store.database().engine, DatabaseEngine::Sqlite);
    assert_eq!(state(&again), found);
    again.close().await;
    let embedded = house.embedded().await;
    assert_eq!(state(&embedded), found);
    let events = embedded.events(from, newest).await;
    let events: Vec<Seen> = events.iter().map(|event| seen(event)).collect();
    assert_eq!(events, made, "a watch resumes from an earlier version");
    let written = embedded.create("last", "l").await.unwrap();
    assert_eq!(written.rv(), newest + 1);
    embedded.close().await;
}

/// The memory of a mirror is moved as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_goes_on_where_it_was() {
    let house = House::new();
    let bed = house.open().await;
    let listed = (1..=100).map(|n| item(ImportType::Object, &format!("l{n}"), "u", "a", n));
    bed.import(ImportMode::Mirror, listed.collect())
        .await
        .unwrap();
    let deleted = vec![item(ImportType::Deleted, "l7", "u", "a", 400)];
    bed.import(ImportMode::Mirror, deleted).await.unwrap();
    let before = bed.reports.record();
    house.ask();
    reached(&bed.store, MovePhase::Moved).await;
    assert_eq!(bed.reports.record(), before);
    bed.close().await;
    let bed = house.embedded().await;
    // A listing that was begun earlier must not bring it back.
    let late = vec![item(ImportType::Object, "l7", "u", "a", 7)];
    bed.import(ImportMode::Mirror, late).await.unwrap();
    assert!(bed.reports.get(&key("l7")).is_none());
    let reports = reports();
    let digest = bed.store.digest(&reports, DigestSet::Imported, 0, None);
    assert_eq!(digest.await.unwrap().items.len(), 99);
    bed.close().await;
}

/// A server that is on the database as well could not follow, whatever it has read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_move_waits_until_the_server_is_alone() {
    let house = House::new();
    let bed = house.serving().await;
    let other = house.other().await;
    assert!(!other.store.database().can_move_to_file);
    house.ask();
    told(&other, "no volume").await;
    told(&bed, "cannot follow").await;
    other.create("theirs", "t").await.unwrap();
    assert_eq!(bed.store.database().engine, DatabaseEngine::Postgres);
    other.close().await;
    reached(&bed.store, MovePhase::Moved).await;
    assert!(bed.reports.get(&key("theirs")).is_some());
    bed.close().await;
}

/// Two pods of one node have the volume for a while: the second one starts all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_beside_the_one_that_fills_the_file_starts() {
    let home = Home::new();
    let bed = home.serving().await;
    bed.create("a", "a").await.unwrap();
    home.ask();
    reached(&bed.store, MovePhase::Moved).await;
    bed.close().await;
    let house = House::back(&home);
    let first = house.open().await;
    first.gate(GateState::Open).await;
    first.gate(GateState::Held).await;
    house.ask();
    told(&first, "switch").await;
    let second = house.open().await;
    assert_eq!(second.store.database().engine, DatabaseEngine::Postgres);
    first.gate(GateState::Open).await;
    told(&first, "cannot follow").await;
    first.close().await;
    reached(&second.store, MovePhase::Moved).await;
    assert_eq!(second.store.database().engine, DatabaseEngine::Sqlite);
    assert_eq!(state(&second).len(), 1);
    second.close().await;
}

/// A client that gives the move up in time has everything as before, and nothing stays behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_can_be_given_up() {
    let house = House::new();
    let bed = house.serving().await;
    bed.create("a", "a").await.unwrap();
    bed.gate(GateState::Held).await;
    house.ask();
    told(&bed, "switch").await;
    assert!(house.files().iter().any(|name| name.contains("arriving")));
    house.tell(move_file::GIVE_UP, "");
    reached(&bed.store, MovePhase::GivenUp).await;
    assert_eq!(bed.store.database().move_.unwrap().message, "");
    let files = house.files();
    assert_eq!(files, ["reports.db.lock"]);
    bed.gate(GateState::Open).await;
    bed.create("b", "b").await.unwrap();
    assert_eq!(bed.store.database().engine, DatabaseEngine::Postgres);
    bed.close().await;
    let other = Home::bed(house.here().await.unwrap()).await;
    assert_eq!(state(&other).len(), 2);
    other.close().await;
}

/// Reports that are nowhere else are never written over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_taken_is_refused() {
    let house = House::new();
    let theirs = house.embedded().await;
    theirs.gate(GateState::Open).await;
    theirs.create("theirs", "t").await.unwrap();
    theirs.close().await;
    let bed = house.serving().await;
    bed.create("ours", "o").await.unwrap();
    house.ask();
    reached(&bed.store, MovePhase::Refused).await;
    told(&bed, "never overwritten").await;
    bed.create("more", "m").await.unwrap();
    bed.close().await;
    let theirs = house.embedded().await;
    assert_eq!(state(&theirs).len(), 1);
    theirs.close().await;
}

/// The order lies beside the embedded server for a while, which has the reports already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_server_has_nothing_to_do() {
    let home = Home::new();
    let bed = home.serving().await;
    std::fs::create_dir_all(home.orders()).unwrap();
    home.tell(move_file::TARGET, "the volume");
    home.tell(move_file::TO_FILE, "true");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(bed.store.database().move_, None);
    bed.create("a", "a").await.unwrap();
    bed.close().await;
}

/// Reports that came from the file go back into it, and on from there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_way_back_and_on_again_is_open() {
    let home = Home::new();
    let bed = home.serving().await;
    bed.create("a", "a").await.unwrap();
    home.ask();
    reached(&bed.store, MovePhase::Moved).await;
    bed.create("b", "b").await.unwrap();
    bed.close().await;
    let house = House::back(&home);
    let bed = house.open().await;
    bed.create("c", "c").await.unwrap();
    // A commit without a change of an object is the last one.
    bed.gate(GateState::Held).await;
    bed.gate(GateState::Open).await;
    house.ask();
    reached(&bed.store, MovePhase::Moved).await;
    let found = state(&bed);
    assert_eq!(found.len(), 3);
    let counter = bed.store.counter();
    bed.close().await;
    // The earlier embedded server, with the order by which the reports left once.
    let bed = home.open().await;
    assert_eq!(state(&bed), found);
    assert!(bed.store.counter() >= counter);
    reached(&bed.store, MovePhase::Moved).await;
    assert_eq!(bed.store.database().engine, DatabaseEngine::Postgres);
    bed.create("d", "d").await.unwrap();
    let other = Home::bed(home.other().await.unwrap()).await;
    assert_eq!(state(&other), state(&bed));
    other.close().await;
    bed.close().await;
    // What is in the file now is no reason to go there.
    std::fs::remove_dir_all(house.orders()).unwrap();
    let late = house.open().await;
    assert_eq!(late.store.database().engine, DatabaseEngine::Postgres);
    assert_eq!(state(&late).len(), 4);
    late.close().await;
}

/// A failover of the database that was moved loses the mark: it is set again, and what is in the file
/// counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_that_is_lost_is_set_again() {
    let house = House::new();
    let bed = house.serving().await;
    bed.create("a", "a").await.unwrap();
    house.ask();
    reached(&bed.store, MovePhase::Moved).await;
    bed.create("b", "b").await.unwrap();
    let found = state(&bed);
    bed.close().await;
    house.lose_the_mark().await;
    // The turn of the server that is gone passes.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let bed = house.open().await;
    assert_eq!(bed.store.database().engine, DatabaseEngine::Sqlite);
    assert_eq!(state(&bed), found);
    let refused = house.here().await.unwrap_err();
    assert!(matches!(refused, OpenError::MovedToFile), "{refused}");
    bed.close().await;
}

/// The writes of that time are lost, as with every failover that loses commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_list_again_where_others_wrote_without_the_mark() {
    let house = House::new();
    let bed = house.serving().await;
    bed.create("a", "a").await.unwrap();
    house.ask();
    reached(&bed.store, MovePhase::Moved).await;
    let found = state(&bed);
    bed.close().await;
    house.lose_the_mark().await;
    let other = Home::bed(house.here().await.unwrap()).await;
    other.create("lost", "l").await.unwrap();
    let counter = other.store.counter();
    other.close().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let bed = house.open().await;
    assert_eq!(bed.store.database().engine, DatabaseEngine::Sqlite);
    assert_eq!(state(&bed), found);
    assert!(bed.reports.events_from(counter).is_err());
    let rv = bed.create("b", "b").await.unwrap().rv();
    assert!(rv > counter + 1000, "no version is given twice");
    bed.close().await;
    // Once: the next start has nothing to begin anew.
    let again = house.open().await;
    assert!(again.reports.events_from(rv).is_ok());
    assert_eq!(state(&again).len(), 2);
    again.close().await;
}

/// A volume that is gone is not taken for an empty database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_gone_is_missed() {
    let house = House::new();
    let bed = house.serving().await;
    bed.create("a", "a").await.unwrap();
    house.ask();
    reached(&bed.store, MovePhase::Moved).await;
    bed.close().await;
    std::fs::remove_file(&house.file).unwrap();
    let refused = house.try_open().await.unwrap_err();
    assert!(matches!(refused, OpenError::FileGone { .. }), "{refused}");
    assert!(!refused.may_pass());
}

/// The process dies between the mark and the moment at which the file has its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_has_not_its_name_yet_is_found() {
    let house = House::new();
    let bed = house.serving().await;
    bed.create("a", "a").await.unwrap();
    house.ask();
    reached(&bed.store, MovePhase::Moved).await;
    let found = state(&bed);
    bed.close().await;
    let client = SERVER.superuser().await.unwrap();
    let attempt = format!(
        "SELECT attempt FROM reports_server.departures d
         JOIN reports_server.clusters c ON c.cluster = d.cluster WHERE c.identity = '{}'",
        house.identity
    );
    let rows = client.query(attempt.as_str(), &[]).await.unwrap();
    let attempt: i64 = rows[0].get(0);
    let copy = house
        .file
        .with_file_name(format!("reports.db.arriving-{attempt}"));
    std::fs::rename(&house.file, copy).unwrap();
    let bed = house.open().await;
    assert_eq!(state(&bed), found);
    bed.close().await;
    assert!(house.file.exists());
}

/// The connections to the database are cut at any moment, and the process dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_cut_at_every_step() {
    // Bytes of a whole move, as the database is sent them.
    const STEPS: u64 = 8;
    const SPAN: u64 = 24 << 10;
    for step in 0..STEPS {
        let proxy = Proxy::start(SERVER.port()).unwrap();
        let house = House::from(SERVER.params().at_port(proxy.port()));
        let bed = house.serving().await;
        for n in 0..60 {
            bed.create(&format!("n{n}"), &format!("u{n}"))
                .await
                .unwrap();
        }
        let expected = state(&bed);
        proxy.cut_after(Direction::ToServer, step * SPAN / STEPS);
        house.ask();
        // What is acknowledged counts, wherever it is.
        let mut made = BTreeMap::new();
        for n in 0..40 {
            let name = format!("m{n}");
            if let Ok(written) = bed.create(&name, "m").await {
                let (name, uid, app) = brief(&written.object);
                made.insert(name, (written.rv(), uid, app));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let counter = bed.store.counter();
        // The process dies as it is.
        drop(bed);
        proxy.release();
        // What is written from now on is not written to be cut.
        proxy.cut_after(Direction::ToServer, u64::MAX);
        let deadline = Instant::now() + Duration::from_secs(30);
        let bed = loop {
            match house.try_open().await {
                Ok(store) => break Home::bed(store).await,
                // What died is not gone at once.
                Err(OpenError::Database(_) | OpenError::Locked { .. })
                    if Instant::now() < deadline =>
                {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("step {step}: {error}"),
            }
        };
        assert!(bed.store.counter() >= counter, "step {step}");
        reached(&bed.store, MovePhase::Moved).await;
        let found = state(&bed);
        for (name, object) in expected.iter().chain(&made) {
            assert_eq!(found.get(name), Some(object), "step {step}: {name}");
        }
        assert!(bed.create("last", "l").await.unwrap().rv() > counter);
        let found = state(&bed);
        bed.close().await;
        let embedded = house.embedded().await;
        assert_eq!(state(&embedded), found, "step {step}");
        embedded.close().await;
    }
}

/// An engine that has moved into a file does what every engine does.
struct Moved(House);

#[async_trait::async_trait]
impl Fixture for Moved {
    async fn open(&self) -> Arc<dyn Engine> {
        let options = self.0.move_options();
        let etcd: Arc<dyn Etcd> = Arc::new(());
        let deadline = Instant::now() + Duration::from_mins(1);
        let (engine, mover) = loop {
            match moving::open(&options, &etcd).await {
                Ok((engine, mover, _)) => break (engine, mover),
                Err(error) if Instant::now() < deadline && error.may_pass() => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error}"),
            }
        };
        let Some(mover) = mover else {
            return engine;
        };
        let bed = Bed::on(Arc::clone(&engine)).await;
        self.0.ask();
        Box::pin(mover.move_now(&bed.store)).await;
        // The suite opens a store of its own on the engine, which this one leaves alone.
        bed.store.rest();
        std::mem::forget(bed);
        engine
    }

    fn logged(&self, text: &str) -> usize {
        packed::pack(text).unwrap().len()
    }
}

suite::on_engine!(Moved(House::new()));
