//! A PostgreSQL database that moves to another one, while two servers share it.

mod apart;
mod left;
mod lost;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use crds::control::{DigestSet, GateState, ImportMode, ImportType, MovePhase, move_file};
use pgtest::{Direction, Params, Postgres, Proxy};
use rstest::rstest;
use tempfile::TempDir;

use super::home::{Clients, Home, SERVER, open, place_file, reached, start, state, told};
use crate::store::engine::Engine;
use crate::store::moving::source::Source as _;
use crate::store::postgres::Postgres as PostgresEngine;
use crate::store::postgres::moving::Leaving;
use crate::store::tests::sqlite::{create_large, pages_of_large};
use crate::store::tests::{Bed, Fixture, brief, item, key, reports, suite};
use crate::store::{
    Database, Etcd, MoveOptions, OpenError, PostgresOptions as Options, Store, moving,
};

/// The server with the databases that are moved.
static SOURCE: LazyLock<Postgres> = LazyLock::new(start);

/// Two databases, and the servers that share one of them.
struct Estate {
    directory: TempDir,
    identity: String,
    from: Params,
    to: Params,
}

impl Estate {
    fn new() -> Self {
        Self::between(SOURCE.params(), SERVER.params())
    }

    fn between(from: Params, to: Params) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self {
            directory: tempfile::tempdir().unwrap(),
            identity: format!("between {}", NEXT.fetch_add(1, Ordering::Relaxed)),
            from,
            to,
        }
    }

    /// Returns the same, the other way round.
    fn back(&self) -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            identity: self.identity.clone(),
            from: self.to.clone(),
            to: self.from.clone(),
        }
    }

    /// The directory in which a server finds its order.
    fn orders(&self, server: &str) -> PathBuf {
        self.directory.path().join(server)
    }

    fn tell(&self, server: &str, name: &str, text: &str) {
        place_file(&self.directory, &self.orders(server).join(name), text);
    }

    /// Brings the order to a server.
    fn ask(&self, server: &str) {
        self.ask_by(server, &self.to);
    }

    /// Brings the order to a server, with a way of its own.
    fn ask_by(&self, server: &str, way: &Params) {
        way.write(&self.orders(server)).unwrap();
        self.tell(server, move_file::TARGET, "there");
        self.tell(server, move_file::ORDER, "the first");
        self.tell(server, move_file::CLUSTER_IDENTITY, &self.identity);
    }

    fn place(&self, name: &str, params: &Params) -> Options {
        let directory = self.directory.path().join(name);
        params.write(&directory).unwrap();
        Options::new(directory, &self.identity)
    }

    fn move_options(&self, server: &str) -> MoveOptions {
        let from = self.place("from", &self.from);
        MoveOptions {
            interval: Duration::from_millis(10),
            lease: Duration::from_secs(1),
            ..MoveOptions::between(from, self.orders(server))
        }
    }

    async fn try_open(&self, server: &str) -> Result<Store, OpenError> {
        open(Database::Movable(self.move_options(server))).await
    }

    async fn open(&self, server: &str) -> Bed {
        Home::bed(self.try_open(server).await.unwrap()).await
    }

    async fn pair(&self) -> (Bed, Bed) {
        let first = self.open("a").await;
        first.gate(GateState::Open).await;
        (first, self.open("b").await)
    }

    /// Opens a server that knows nothing of the move, on the database that is moved.
    async fn here(&self) -> Result<Store, OpenError> {
        open(Database::Postgres(self.place("from", &self.from))).await
    }

    /// Opens a server that knows nothing of the move, on the database that it leads to.
    async fn there(&self) -> Result<Store, OpenError> {
        open(Database::Postgres(self.place("to", &self.to))).await
    }
}

/// Writers and watchers of both servers before, during and after the move.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_both_servers_do_not_notice() {
    let estate = Estate::new();
    let (first, second) = estate.pair().await;
    for n in 0..300 {
        first
            .create(&format!("old-{n}"), &format!("o{n}"))
            .await
            .unwrap();
    }
    second.store.consistent().await.unwrap();
    let from = second.reports.current_rv();
    let clients = Clients::begin(from, &[&first, &second], &[&first, &second, &second]);
    estate.ask("a");
    estate.ask("b");
    reached(&first.store, MovePhase::Moved).await;
    reached(&second.store, MovePhase::Moved).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let made = clients.end().await;
    let newest = made.last().unwrap().1;
    for bed in [&first, &second] {
        bed.store.wait_for_rv(&bed.reports, newest).await.unwrap();
    }
    assert_eq!(state(&first), state(&second));
    // What is left behind is nobody's.
    let refused = estate.here().await.unwrap_err();
    assert!(matches!(refused, OpenError::MovedAway(_)), "{refused}");
    let other = Home::bed(estate.there().await.unwrap()).await;
    assert_eq!(state(&other), state(&first));
    let events = other.events(from, newest).await;
    assert_eq!(events.len(), made.len());
    // Each sees what the others write.
    let rv = second.create("theirs", "t").await.unwrap().rv();
    for bed in [&first, &other] {
        bed.store.wait_for_rv(&bed.reports, rv).await.unwrap();
        assert!(bed.reports.get(&key("theirs")).is_some());
    }
    second.close().await;
    // A server that starts as before finds the mark.
    let again = estate.open("b").await;
    assert_eq!(state(&again), state(&first));
    for bed in [first, again, other] {
        bed.close().await;
    }
}

/// A server that could not follow is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_move_waits_for_servers_that_do_not_know_of_it() {
    let estate = Estate::new();
    let (first, second) = estate.pair().await;
    first.create("a", "a").await.unwrap();
    estate.ask("a");
    told(&first, "have not read the order").await;
    second.create("b", "b").await.unwrap();
    estate.ask("b");
    reached(&first.store, MovePhase::Moved).await;
    reached(&second.store, MovePhase::Moved).await;
    second.store.consistent().await.unwrap();
    assert_eq!(state(&second).len(), 2);
    first.close().await;
    second.close().await;
}

/// A server that does not reach the other database could not follow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_move_waits_for_servers_that_do_not_reach_the_other_database() {
    let estate = Estate::new();
    let (first, second) = estate.pair().await;
    let proxy = Proxy::start(SERVER.port()).unwrap();
    proxy.refuse(true);
    estate.ask("a");
    let way = SERVER.params().at_port(proxy.port());
    estate.ask_by("b", &way);
    told(&first, "have not read the order").await;
    reached(&second.store, MovePhase::Waiting).await;
    second.create("b", "b").await.unwrap();
    proxy.refuse(false);
    reached(&first.store, MovePhase::Moved).await;
    reached(&second.store, MovePhase::Moved).await;
    first.close().await;
    second.close().await;
}

/// An order that leads to where the reports are is carried out at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_way_to_the_same_database_is_no_move() {
    let estate = Estate::between(SOURCE.params(), SOURCE.params());
    let (first, second) = estate.pair().await;
    first.create("a", "a").await.unwrap();
    estate.ask("a");
    estate.ask("b");
    reached(&first.store, MovePhase::Moved).await;
    reached(&second.store, MovePhase::Moved).await;
    second.create("b", "b").await.unwrap();
    let other = Home::bed(estate.here().await.unwrap()).await;
    assert_eq!(state(&other).len(), 2);
    for bed in [first, second, other] {
        bed.close().await;
    }
}

/// A page ends where its texts are large, as with an embedded database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_reports_are_moved_in_small_pages() {
    let estate = Estate::new();
    let (first, second) = estate.pair().await;
    let from = first.store.position().borrow().seq;
    for n in 0..12 {
        create_large(&first, &format!("large-{n}")).await;
    }
    let place = estate.place("from", &estate.from);
    let engine = Arc::new(PostgresEngine::open(&place).await.unwrap());
    let leaving = Leaving::new(Arc::clone(&engine), Duration::from_secs(1));
    let mut snapshot = leaving.snapshot().await.unwrap();
    let mut keys = pages_of_large(&mut *snapshot, first.reports.record().id).await;
    for (behind, expected) in [(from, 8), (from + 8, 4)] {
        let log = snapshot.log(behind, 500).await.unwrap();
        assert_eq!((log.commits.len(), log.changes.len()), (expected, expected));
    }
    keys.insert(4, (keys[0].0, key("gone")));
    let (rows, looked) = snapshot.objects_at(&keys, 250).await.unwrap();
    assert_eq!((rows.len(), looked), (8, 9));
    let (rows, looked) = snapshot.objects_at(&keys[looked..], 250).await.unwrap();
    assert_eq!((rows.len(), looked), (4, 4));
    let (rows, looked) = snapshot.objects_at(&keys, 3).await.unwrap();
    assert_eq!((rows.len(), looked), (3, 3));
    drop(snapshot);
    leaving.leave().await;
    engine.close().await;
    let expected = state(&first);
    estate.ask("a");
    estate.ask("b");
    reached(&first.store, MovePhase::Moved).await;
    reached(&second.store, MovePhase::Moved).await;
    let other = Home::bed(estate.there().await.unwrap()).await;
    assert_eq!(state(&other), expected);
    for bed in [first, second, other] {
        bed.close().await;
    }
}

/// An order that one server gives up is given up for all, whatever they have read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_gives_up_for_all() {
    let estate = Estate::new();
    let (first, second) = estate.pair().await;
    first.create("a", "a").await.unwrap();
    first.gate(GateState::Held).await;
    estate.ask("a");
    estate.ask("b");
    told(&first, "switch").await;
    estate.tell("b", move_file::GIVE_UP, "");
    reached(&second.store, MovePhase::GivenUp).await;
    reached(&first.store, MovePhase::GivenUp).await;
    first.gate(GateState::Open).await;
    first.create("b", "b").await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(estate.here().await.is_ok());
    // The identity is free again.
    let other = Home::bed(estate.there().await.unwrap()).await;
    assert_eq!(state(&other).len(), 0);
    other.close().await;
    first.close().await;
    second.close().await;
}

/// The kubelet may bring two orders that were taken back, and nothing between them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_given_up_also_after_another_one() {
    let estate = Estate::new();
    let bed = estate.open("a").await;
    bed.gate(GateState::Open).await;
    bed.gate(GateState::Held).await;
    estate.ask("a");
    told(&bed, "switch").await;
    estate.tell("a", move_file::GIVE_UP, "");
    reached(&bed.store, MovePhase::GivenUp).await;
    estate.tell("a", move_file::ORDER, "the second");
    estate.tell("a", move_file::TARGET, "elsewhere");
    let wait = async {
        while bed.store.database().move_.map(|m| m.target).as_deref() != Some("elsewhere") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), wait).await;
    assert!(waited.is_ok(), "{:?}", bed.store.database());
    reached(&bed.store, MovePhase::GivenUp).await;
    bed.close().await;
}

/// Marks that come by another server are copied as well, although nobody here is told of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn marks_of_another_servers_imports_are_copied() {
    let estate = Estate::new();
    let first = estate.open("a").await;
    let second = estate.open("b").await;
    estate.ask("a");
    // The move waits for the second one, which imports meanwhile.
    told(&first, "have not read the order").await;
    let listed = (1..=50).map(|n| item(ImportType::Object, &format!("l{n}"), "u", "a", n));
    second
        .import(ImportMode::Mirror, listed.collect())
        .await
        .unwrap();
    let deleted = vec![item(ImportType::Deleted, "l7", "u", "a", 400)];
    second.import(ImportMode::Mirror, deleted).await.unwrap();
    estate.ask("b");
    reached(&first.store, MovePhase::Moved).await;
    reached(&second.store, MovePhase::Moved).await;
    // A listing that was begun earlier must not bring it back.
    let late = vec![item(ImportType::Object, "l7", "u", "a", 7)];
    first.import(ImportMode::Mirror, late).await.unwrap();
    assert!(first.reports.get(&key("l7")).is_none());
    let digest = first
        .store
        .digest(&reports(), DigestSet::Imported, 0, None)
        .await;
    assert_eq!(digest.unwrap().items.len(), 49);
    first.close().await;
    second.close().await;
}

/// The reports move on to where they were once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_way_back_is_open() {
    let estate = Estate::new();
    let (first, second) = estate.pair().await;
    first.create("a", "a").await.unwrap();
    estate.ask("a");
    estate.ask("b");
    reached(&first.store, MovePhase::Moved).await;
    reached(&second.store, MovePhase::Moved).await;
    first.create("b", "b").await.unwrap();
    first.close().await;
    second.close().await;
    let back = estate.back();
    let bed = back.open("c").await;
    let rv = bed.create("c", "c").await.unwrap().rv();
    back.ask("c");
    reached(&bed.store, MovePhase::Moved).await;
    let refused = back.here().await.unwrap_err();
    assert!(matches!(refused, OpenError::MovedAway(_)), "{refused}");
    let other = Home::bed(estate.here().await.unwrap()).await;
    assert_eq!(state(&other), state(&bed));
    assert_eq!(other.create("d", "d").await.unwrap().rv(), rv + 1);
    // A server that could move them again does not, as nobody asks for it.
    let late = estate.open("late").await;
    assert_eq!(state(&late).len(), 4);
    for bed in [bed, other, late] {
        bed.close().await;
    }
}

/// The connections to one of the two databases are cut at any moment, and the processes die.
#[rstest]
#[case::there_early(false, 0)]
#[case::there_late(false, 1)]
#[case::here_early(true, 0)]
#[case::here_late(true, 1)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_cut_at_every_step(#[case] here: bool, #[case] part: u64) {
    // Bytes of a whole move, as the database is sent them.
    const STEPS: u64 = 10;
    const SPAN: u64 = 96 << 10;
    for step in (0..STEPS).filter(|step| step % 2 == part) {
        let server = if here { &*SOURCE } else { &*SERVER };
        let proxy = Proxy::start(server.port()).unwrap();
        let cut = server.params().at_port(proxy.port());
        let estate = if here {
            Estate::between(cut, SERVER.params())
        } else {
            Estate::between(SOURCE.params(), cut)
        };
        let (first, second) = estate.pair().await;
        for n in 0..60 {
            first
                .create(&format!("n{n}"), &format!("u{n}"))
                .await
                .unwrap();
        }
        let expected = state(&first);
        proxy.cut_after(Direction::ToServer, step * SPAN / STEPS);
        estate.ask("a");
        estate.ask("b");
        // What is acknowledged counts, wherever it is.
        let mut made = BTreeMap::new();
        for n in 0..40 {
            let name = format!("m{n}");
            let bed = if n % 2 == 0 { &first } else { &second };
            if let Ok(written) = bed.create(&name, "m").await {
                let (name, uid, app) = brief(&written.object);
                made.insert(name, (written.rv(), uid, app));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let counter = first.store.counter().max(second.store.counter());
        // The processes die as they are.
        drop(first);
        drop(second);
        proxy.release();
        if here {
            // What is written from now on is not written to be cut.
            proxy.cut_after(Direction::ToServer, u64::MAX);
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        let bed = loop {
            match estate.try_open("a").await {
                Ok(store) => break Home::bed(store).await,
                // The cut may come as late as here.
                Err(OpenError::Database(_)) if Instant::now() < deadline => {
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
        let other = Home::bed(estate.there().await.unwrap()).await;
        assert_eq!(state(&other), state(&bed), "step {step}");
        other.close().await;
        bed.close().await;
    }
}

/// An engine that another PostgreSQL was moved to does what every engine does.
struct Moved(Estate);

#[async_trait::async_trait]
impl Fixture for Moved {
    async fn open(&self) -> Arc<dyn Engine> {
        let options = self.0.move_options("a");
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
        self.0.ask("a");
        Box::pin(mover.move_now(&bed.store)).await;
        // The suite opens a store of its own on the engine, which this one leaves alone.
        bed.store.rest();
        std::mem::forget(bed);
        engine
    }
}

suite::on_engine!(Moved(Estate::new()));
