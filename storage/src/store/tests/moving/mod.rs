//! An embedded database that moves: nothing is lost, nothing comes twice, no version changes.

mod between;
mod home;
mod into_file;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crds::control::{DatabaseEngine, GateState, ImportMode, ImportType, MovePhase, move_file};
use home::{Clients, Home, SERVER, reached, state};
use pgtest::{Postgres, PostgresOptions, Proxy};
use rstest::rstest;

use super::sqlite::create_large;
use super::{Bed, Fixture, Seen, item, key, reports, seen, suite};
use crate::store::engine::Engine;
use crate::store::{Database, Etcd, MoveOptions, OpenError, Store, StoreOptions, moving};

/// Writers and watchers before, during and after the move, and a server that comes later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_and_watchers_do_not_notice() {
    let home = Home::new();
    let bed = home.serving().await;
    for n in 0..600 {
        bed.create(&format!("old-{n}"), &format!("o{n}"))
            .await
            .unwrap();
    }
    for n in 0..50 {
        bed.delete(&format!("old-{n}"), None).await.unwrap();
    }
    let from = bed.reports.current_rv();
    let clients = Clients::begin(from, &[&bed; 2], &[&bed; 3]);
    home.ask();
    reached(&bed.store, MovePhase::Moved).await;
    assert_eq!(bed.store.database().engine, DatabaseEngine::Postgres);
    // Another server joins while the first goes on.
    let other = Home::bed(home.other().await.unwrap()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let made = clients.end().await;
    let newest = made.last().unwrap().1;
    // A client resumes at the other server, from a version from before the move.
    other
        .store
        .wait_for_rv(&other.reports, newest)
        .await
        .unwrap();
    let events = other.events(from, newest).await;
    let events: Vec<Seen> = events.iter().map(|event| seen(event)).collect();
    assert_eq!(events, made);
    assert_eq!(state(&other), state(&bed));
    // Each sees what the other writes.
    let written = other.create("theirs", "t").await.unwrap();
    let rv = written.rv();
    bed.store.wait_for_rv(&bed.reports, rv).await.unwrap();
    assert!(bed.reports.get(&key("theirs")).is_some());
    let held = bed.store.database().move_.unwrap().held_milliseconds;
    println!("{} writes, held for {held:?} ms", made.len());
    // What is projected of reports that were queued, copied and written is there for all.
    bed.close().await;
    let refused = Store::open(StoreOptions::new(home.file())).await;
    assert!(matches!(refused, Err(OpenError::Moved(_))), "{refused:?}");
    // The embedded server that starts again goes on in PostgreSQL.
    let again = home.open().await;
    assert_eq!(again.store.database().engine, DatabaseEngine::Postgres);
    assert_eq!(state(&again), state(&other));
    again.close().await;
    other.close().await;
}

/// Pages end by their bytes, at the same object on both sides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_reports_are_moved_in_small_pages() {
    let home = Home::new();
    let bed = home.serving().await;
    for n in 0..20 {
        create_large(&bed, &format!("large-{n}")).await;
    }
    let expected = state(&bed);
    home.ask();
    reached(&bed.store, MovePhase::Moved).await;
    let other = Home::bed(home.other().await.unwrap()).await;
    assert_eq!(state(&other), expected);
    other.close().await;
    bed.close().await;
}

/// The memory of a mirror is moved as well: marks, last events, versions, horizon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_goes_on_where_it_was() {
    let home = Home::new();
    let bed = home.open().await;
    let listed = (1..=300).map(|n| item(ImportType::Object, &format!("l{n}"), "u", "a", n));
    bed.import(ImportMode::Mirror, listed.collect())
        .await
        .unwrap();
    let deleted = vec![item(ImportType::Deleted, "l7", "u", "a", 400)];
    bed.import(ImportMode::Mirror, deleted).await.unwrap();
    let before = bed.reports.record();
    home.ask();
    reached(&bed.store, MovePhase::Moved).await;
    assert_eq!(bed.reports.record(), before);
    // A listing that was begun earlier must not bring it back.
    let late = vec![item(ImportType::Object, "l7", "u", "a", 7)];
    bed.import(ImportMode::Mirror, late).await.unwrap();
    assert!(bed.reports.get(&key("l7")).is_none());
    let known = vec![item(ImportType::Object, "l8", "u", "a", 8)];
    let result = bed.import(ImportMode::Mirror, known).await.unwrap();
    assert_eq!((result.imported, result.unchanged), (0, 1));
    bed.gate(GateState::Open).await;
    let imported = crds::control::DigestSet::Imported;
    let digest = bed.store.digest(&reports(), imported, 0, None).await;
    assert_eq!(digest.unwrap().items.len(), 299);
    bed.create("own", "o").await.unwrap();
    bed.close().await;
}

/// The database goes away at any moment, for good or for a while: SQLite goes on, or PostgreSQL is
/// waited for. Then the process is gone as well, and the next one finds out.
#[rstest]
#[case(0)]
#[case(1)]
#[case(2)]
#[case(3)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_cut_at_every_step(#[case] part: u64) {
    // Bytes of a whole move, as the database is sent them.
    const STEPS: u64 = 12;
    const SPAN: u64 = 96 << 10;
    for step in (0..STEPS).filter(|step| step % 4 == part) {
        let proxy = Proxy::start(SERVER.port()).unwrap();
        let home = Home::to(SERVER.params().at_port(proxy.port()));
        let bed = home.serving().await;
        for n in 0..60 {
            bed.create(&format!("n{n}"), &format!("u{n}"))
                .await
                .unwrap();
        }
        let expected = state(&bed);
        proxy.cut_after(pgtest::Direction::ToServer, step * SPAN / STEPS);
        home.ask();
        // What is acknowledged counts, wherever it is.
        let mut made = BTreeMap::new();
        for n in 0..40 {
            let name = format!("m{n}");
            if let Ok(written) = bed.create(&name, "m").await {
                let (name, uid, app) = super::brief(&written.object);
                made.insert(name, (written.rv(), uid, app));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let counter = bed.store.counter();
        // The process dies as it is.
        drop(bed);
        proxy.release();
        let bed = loop {
            match Store::open(home.options()).await {
                Ok(store) => break Home::bed(store).await,
                // The cut may come as late as here.
                Err(error) if passes(&error) => {
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
        let written = bed.create("last", "l").await.unwrap();
        assert!(written.rv() > counter);
        let other = Home::bed(home.other().await.unwrap()).await;
        assert_eq!(state(&other), state(&bed), "step {step}");
        other.close().await;
        bed.close().await;
    }
}

/// The database goes away around the moment of the move and stays away while the process dies and
/// starts again: whichever database counts, nothing that was acknowledged is missing in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_counts_has_everything() {
    let (mut stayed, mut moved) = (0, 0);
    // The last one waits until it has moved, however slow the machine is.
    let waits = [0, 4, 8, 12, 16, 24, 32, 64].map(Some);
    for wait in waits.into_iter().chain([None]) {
        let proxy = Proxy::start(SERVER.port()).unwrap();
        let home = Home::to(SERVER.params().at_port(proxy.port()));
        let bed = home.serving().await;
        for n in 0..40 {
            bed.create(&format!("n{n}"), &format!("u{n}"))
                .await
                .unwrap();
        }
        home.ask();
        let over = async {
            while !bed
                .store
                .database()
                .move_
                .is_some_and(|m| matches!(m.phase, MovePhase::HandingOver | MovePhase::Moved))
            {
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), over)
            .await
            .unwrap();
        match wait {
            Some(wait) => tokio::time::sleep(Duration::from_millis(wait)).await,
            None => reached(&bed.store, MovePhase::Moved).await,
        }
        proxy.refuse(true);
        let expected = state(&bed);
        let counter = bed.store.counter();
        bed.close().await;
        match Store::open(home.options()).await {
            Ok(store) => {
                stayed += 1;
                let bed = Home::bed(store).await;
                assert_eq!(state(&bed), expected);
                bed.create("later", "l").await.unwrap();
                bed.close().await;
            }
            Err(error) => {
                moved += 1;
                assert!(error.may_pass(), "{error}");
            }
        }
        proxy.refuse(false);
        let bed = home.open().await;
        reached(&bed.store, MovePhase::Moved).await;
        let found = state(&bed);
        for (name, object) in &expected {
            assert_eq!(found.get(name), Some(object), "{wait:?} ms: {name}");
        }
        assert!(bed.create("last", "l").await.unwrap().rv() > counter);
        bed.close().await;
    }
    println!("{stayed} times SQLite went on, {moved} times PostgreSQL was waited for");
    assert!(moved > 0, "the move was never made before the cut");
}

/// Somebody else's reports are never written over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_taken_is_refused() {
    let home = Home::new();
    let theirs = Home::bed(home.other().await.unwrap()).await;
    theirs.gate(GateState::Open).await;
    theirs.create("theirs", "t").await.unwrap();
    let bed = home.serving().await;
    bed.create("ours", "o").await.unwrap();
    home.ask();
    reached(&bed.store, MovePhase::Refused).await;
    let message = bed.store.database().move_.unwrap().message;
    assert!(message.contains("never overwritten"), "{message}");
    bed.create("more", "m").await.unwrap();
    assert_eq!(state(&theirs).len(), 1);
    theirs.create("still", "s").await.unwrap();
    bed.close().await;
    theirs.close().await;
}

/// While a cluster is filled, no server serves it, and another embedded one cannot take it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_copy_is_nobodys() {
    let home = Home::new();
    let bed = home.serving().await;
    bed.create("a", "a").await.unwrap();
    // A group is being switched: the last step waits for it.
    bed.gate(GateState::Held).await;
    home.ask();
    let held = async {
        while !bed
            .store
            .database()
            .move_
            .is_some_and(|m| m.message.contains("switch"))
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), held)
        .await
        .unwrap();
    let refused = home.other().await.unwrap_err();
    assert!(matches!(refused, OpenError::BeingFilled(_)), "{refused}");
    assert!(refused.may_pass());
    let mut another = Home::new();
    another.identity.clone_from(&home.identity);
    let rival = another.serving().await;
    another.ask();
    reached(&rival.store, MovePhase::Refused).await;
    rival.close().await;
    bed.gate(GateState::Open).await;
    reached(&bed.store, MovePhase::Moved).await;
    bed.close().await;
}

/// A client that gives the move up in time has everything as before, and nothing stays behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_can_be_given_up() {
    let home = Home::new();
    let bed = home.serving().await;
    bed.create("a", "a").await.unwrap();
    bed.gate(GateState::Held).await;
    home.ask();
    reached(&bed.store, MovePhase::Waiting).await;
    home.tell(move_file::GIVE_UP, "");
    reached(&bed.store, MovePhase::GivenUp).await;
    let message = bed.store.database().move_.unwrap().message;
    assert_eq!(message, "");
    // The identity is free again.
    let other = Home::bed(home.other().await.unwrap()).await;
    assert_eq!(state(&other).len(), 0);
    other.close().await;
    bed.gate(GateState::Open).await;
    bed.create("b", "b").await.unwrap();
    assert_eq!(bed.store.database().engine, DatabaseEngine::Sqlite);
    // The next order can be given up before this server has read it.
    home.tell(move_file::TARGET, "elsewhere");
    let again = async {
        while bed.store.database().move_.unwrap().target != "elsewhere" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), again)
        .await
        .unwrap();
    reached(&bed.store, MovePhase::GivenUp).await;
    std::fs::remove_dir_all(home.orders()).unwrap();
    let forgotten = async {
        while bed.store.database().move_.is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), forgotten)
        .await
        .unwrap();
    bed.close().await;
}

/// Writes are not held for longer than was allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_step_that_takes_too_long_is_given_up() {
    let home = Home::new();
    let mut options = home.options();
    options.database = Database::Movable(MoveOptions {
        hold: Duration::from_micros(10),
        ..home.move_options()
    });
    let bed = Home::bed(Store::open(options).await.unwrap()).await;
    bed.gate(GateState::Open).await;
    bed.create("a", "a").await.unwrap();
    home.ask();
    reached(&bed.store, MovePhase::Waiting).await;
    let message = bed.store.database().move_.unwrap().message;
    assert!(message.contains("writes went on"), "{message}");
    bed.create("b", "b").await.unwrap();
    bed.close().await;
    let bed = home.open().await;
    reached(&bed.store, MovePhase::Moved).await;
    assert_eq!(state(&bed).len(), 2);
    bed.close().await;
}

/// The other database loses the last step of the copy before it was opened: the file counts again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_database_lost_before_it_was_opened_is_taken_back() {
    let home = Home::new();
    let bed = home.serving().await;
    bed.create("a", "a").await.unwrap();
    home.ask();
    reached(&bed.store, MovePhase::Moved).await;
    let (expected, counter) = (state(&bed), bed.store.counter());
    bed.close().await;
    let own = format!(
        "cluster = (SELECT cluster FROM reports_server.clusters WHERE identity = '{}')",
        home.identity
    );
    let lose = format!(
        "UPDATE reports_server.moves SET opened_at = NULL, attempt = attempt - 1 WHERE {own};
         UPDATE reports_server.commits SET cluster = -cluster WHERE {own}"
    );
    SERVER.sql(&lose).await.unwrap();
    let bed = home.open().await;
    assert_eq!(state(&bed), expected);
    // It may have been in use, and have given versions.
    assert!(bed.reports.events_from(counter).is_err());
    assert!(bed.create("b", "b").await.unwrap().rv() > counter + 1000);
    reached(&bed.store, MovePhase::Moved).await;
    let other = Home::bed(home.other().await.unwrap()).await;
    assert_eq!(state(&other), state(&bed));
    assert_eq!(state(&other).len(), 2);
    other.close().await;
    bed.close().await;
}

/// Once moved, the database is the one that was moved to, and no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_database_is_not_taken_for_the_one() {
    let home = Home::new();
    let bed = home.serving().await;
    bed.create("a", "a").await.unwrap();
    home.ask();
    reached(&bed.store, MovePhase::Moved).await;
    bed.close().await;
    let empty = Postgres::start(PostgresOptions::quick()).await.unwrap();
    empty.params().write(&home.orders()).unwrap();
    let refused = Store::open(home.options()).await.unwrap_err();
    assert!(matches!(refused, OpenError::MovedElsewhere(_)), "{refused}");
}

/// Returns whether it opens when it is tried again.
fn passes(error: &OpenError) -> bool {
    error.may_pass() || matches!(error, OpenError::Locked { .. })
}

/// An engine that has moved does what every engine does, under numbers that are not its own.
struct Moved(Home);

impl Moved {
    /// Opens the engine as the server does: again, while the database cannot be reached in time.
    async fn open_engine(&self) -> (Arc<dyn Engine>, Option<moving::Mover>) {
        let options = self.0.move_options();
        let etcd: Arc<dyn Etcd> = Arc::new(());
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            match moving::open(&options, &etcd).await {
                Ok((engine, mover, _)) => return (engine, mover),
                Err(error) if Instant::now() < deadline && error.may_pass() => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[async_trait::async_trait]
impl Fixture for Moved {
    async fn open(&self) -> Arc<dyn Engine> {
        let (engine, mover) = self.open_engine().await;
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
}

suite::on_engine!(Moved(Home::new()));

#[test]
fn random_histories_are_kept() {
    super::history::check(&|| Box::new(Moved(Home::new())));
}
