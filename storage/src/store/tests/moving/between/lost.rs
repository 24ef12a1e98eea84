//! The parts of a move that are lost, or left behind: they do not stay.

use std::time::Duration;

use crds::control::{GateState, MovePhase, move_file};
use pgtest::Proxy;

use super::super::home::{Home, reached, state};
use super::{Estate, SERVER, SOURCE, open, told};
use crate::store::moving::rows::Marker;
use crate::store::postgres::Postgres;
use crate::store::postgres::moving::{Begun, Filling};
use crate::store::tests::{Bed, key};
use crate::store::{Database, MoveOptions, MovedFrom};

impl Estate {
    /// Returns the condition for rows of the cluster in the database that it is moved to.
    pub(super) fn rows_there(&self) -> String {
        self.own_rows()
    }

    /// Returns the condition for rows of the cluster in the database that is moved.
    pub(super) fn own_rows(&self) -> String {
        let identity = &self.identity;
        format!(
            "cluster = (SELECT cluster FROM reports_server.clusters WHERE identity = '{identity}')"
        )
    }
}

/// Waits until a server has an object, or has it no more.
async fn has(bed: &Bed, name: &str, expected: bool) {
    let wait = async {
        while bed.reports.get(&key(name)).is_some() != expected {
            // It may find now that what it has is lost.
            let _ = bed.store.consistent().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    waited.unwrap_or_else(|_| panic!("{name}: {:?}", bed.store.database()));
}

/// A server that has seen what a failover of the old database lost, and reaches it again only
/// behind the move, does not keep it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_old_database_lost_before_the_move_is_nowhere() {
    let estate = Estate::new();
    let first = estate.open("a").await;
    first.gate(GateState::Open).await;
    let proxy = Proxy::start(SOURCE.port()).unwrap();
    let way = SOURCE.params().at_port(proxy.port());
    let options = MoveOptions {
        from: MovedFrom::Postgres(estate.place("from-b", &way)),
        ..estate.move_options("b")
    };
    let second = Home::bed(open(Database::Movable(options)).await.unwrap()).await;
    first.create("kept", "k").await.unwrap();
    first.create("lost", "l").await.unwrap();
    has(&second, "lost", true).await;
    proxy.refuse(true);
    let own = estate.own_rows();
    let newest =
        format!("{own} AND seq = (SELECT max(seq) FROM reports_server.commits WHERE {own})");
    let lose = format!(
        "DELETE FROM reports_server.objects WHERE {own} AND name = 'lost';
         DELETE FROM reports_server.changes WHERE {newest};
         UPDATE reports_server.commits SET batch = 1, changes = 0 WHERE {newest}"
    );
    SOURCE.sql(&lose).await.unwrap();
    has(&first, "lost", false).await;
    first.create("new", "n").await.unwrap();
    estate.ask("a");
    // The second one is not heard of, and not waited for.
    reached(&first.store, MovePhase::Moved).await;
    assert!(second.reports.get(&key("lost")).is_some());
    estate.ask("b");
    proxy.refuse(false);
    reached(&second.store, MovePhase::Moved).await;
    has(&second, "lost", false).await;
    has(&second, "new", true).await;
    assert_eq!(state(&second), state(&first));
    first.close().await;
    second.close().await;
}

/// Servers that died without a farewell are forgotten, also where nothing is moved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_gone_are_forgotten() {
    let estate = Estate::new();
    let bed = estate.open("a").await;
    let own = estate.own_rows();
    let died = format!(
        "INSERT INTO reports_server.followers (cluster, server, order_id, seen_at)
         SELECT cluster, 'dead', '', now() - interval '1 hour'
         FROM reports_server.clusters WHERE {own}"
    );
    SOURCE.sql(&died).await.unwrap();
    let client = SOURCE.superuser().await.unwrap();
    let left = format!("SELECT FROM reports_server.followers WHERE {own} AND server = 'dead'");
    let forgotten = async {
        while !client.query(left.as_str(), &[]).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), forgotten)
        .await
        .unwrap();
    bed.close().await;
}

/// The end of an order is not told as that of the next one, by a server that waits for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_was_given_up_says_nothing_of_the_next() {
    let estate = Estate::new();
    let (first, second) = estate.pair().await;
    // The move waits for a server that does not know of it.
    let third = estate.open("c").await;
    estate.ask("a");
    estate.ask("b");
    for server in ["a", "b"] {
        estate.tell(server, move_file::GIVE_UP, "");
    }
    for bed in [&first, &second] {
        reached(&bed.store, MovePhase::GivenUp).await;
    }
    for server in ["a", "b"] {
        std::fs::remove_file(estate.orders(server).join(move_file::GIVE_UP)).unwrap();
        estate.tell(server, move_file::ORDER, "the second");
        estate.tell(server, move_file::TARGET, "again");
    }
    let mut told = 0;
    for _ in 0..100 {
        for bed in [&first, &second] {
            let state = bed.store.database().move_.unwrap();
            if state.target == "again" {
                assert_ne!(state.phase, MovePhase::GivenUp, "{state:?}");
                told += 1;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(told > 0);
    for bed in [first, second, third] {
        bed.close().await;
    }
}

/// A server that was kept waiting between its turn and its first step in the other database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_was_passed_takes_nothing_over() {
    let estate = Estate::new();
    let place = estate.place("to", &estate.to);
    let marker = |attempt, is_ordered| Marker {
        source: "a source".to_owned(),
        attempt,
        is_ordered,
        identity: estate.identity.clone(),
        name: String::new(),
        moved_at: None,
    };
    let fill = async |attempt, is_ordered| {
        let begun = Postgres::fill(&place, &marker(attempt, is_ordered), "an order").await;
        begun.unwrap()
    };
    let later = filling(fill(2, true).await);
    let passed = fill(1, true).await;
    assert!(matches!(passed, Begun::Passed(2)));
    later.clear(0).await.unwrap();
    // A file that was put in the place of a later one has no order.
    let earlier = filling(fill(1, false).await);
    assert!(later.clear(0).await.is_err());
    earlier.clear(0).await.unwrap();
    earlier.abandon().await.unwrap();
    later.close().await;
    earlier.close().await;
}

fn filling(begun: Begun) -> Filling {
    match begun {
        Begun::Filling(filling) => filling,
        _ => panic!("it cannot be filled"),
    }
}

/// Two servers ask at one time, and the one with the earlier attempt waits behind the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_is_compared_behind_the_lock() {
    let estate = Estate::new();
    let place = estate.place("to", &estate.to);
    let marker = |attempt| Marker {
        source: "a source".to_owned(),
        attempt,
        is_ordered: true,
        identity: estate.identity.clone(),
        name: String::new(),
        moved_at: None,
    };
    let first = filling(Postgres::fill(&place, &marker(1), "o").await.unwrap());
    let client = SERVER.superuser().await.unwrap();
    let identity = &estate.identity;
    let later = format!(
        "BEGIN; SELECT reports_server.begin_move_v2('{identity}', '', 'a source', 900, true, 'o')"
    );
    client.batch_execute(&later).await.unwrap();
    let (earlier, ()) = tokio::join!(
        async { Postgres::fill(&place, &marker(500), "o").await.unwrap() },
        async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            client.batch_execute("COMMIT").await.unwrap();
        }
    );
    assert!(matches!(earlier, Begun::Passed(900)));
    assert!(first.clear(0).await.is_err());
    first.close().await;
}

/// A failover of the other database in the middle of the copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_the_other_database_loses_is_missed() {
    let estate = Estate::new();
    let place = estate.place("to", &estate.to);
    let marker = Marker {
        source: "a source".to_owned(),
        attempt: 7,
        is_ordered: true,
        identity: estate.identity.clone(),
        name: String::new(),
        moved_at: None,
    };
    let filling = filling(Postgres::fill(&place, &marker, "o").await.unwrap());
    filling.clear(0).await.unwrap();
    let before = filling.last_step();
    assert!(before > 7);
    let lose = format!(
        "UPDATE reports_server.moves SET attempt = attempt - 1 WHERE {}",
        estate.rows_there()
    );
    SERVER.sql(&lose).await.unwrap();
    assert!(filling.clear(0).await.is_err());
    assert!(filling.abandon().await.is_err());
    filling.close().await;
}

/// All is copied and compared, and waits for a server that has not read the order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_lost_after_it_was_copied_is_copied_anew() {
    let estate = Estate::new();
    let (first, second) = estate.pair().await;
    first.create("kept", "k").await.unwrap();
    first.create("lost", "l").await.unwrap();
    second.store.consistent().await.unwrap();
    estate.ask("a");
    told(&first, "have not read the order").await;
    let own = estate.own_rows();
    let newest =
        format!("{own} AND seq = (SELECT max(seq) FROM reports_server.commits WHERE {own})");
    // Another commit is in its place, of the same number and with as many changes.
    let lose = format!(
        "UPDATE reports_server.objects SET uid = 'other' WHERE {own} AND name = 'lost';
         UPDATE reports_server.commits SET batch = 1 WHERE {newest}"
    );
    SOURCE.sql(&lose).await.unwrap();
    estate.ask("b");
    reached(&first.store, MovePhase::Moved).await;
    reached(&second.store, MovePhase::Moved).await;
    let attempts = first.store.database().move_.unwrap().attempts;
    let others = second.store.database().move_.unwrap().attempts;
    assert!(attempts.max(others) > 1, "{attempts}, {others}");
    assert_eq!(state(&second), state(&first));
    first.close().await;
    second.close().await;
}

/// The kubelet brings the end of an order to one server later than another order to all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_order_that_was_given_up_stays_so() {
    let estate = Estate::new();
    let first = estate.open("a").await;
    let begin = |order| {
        format!("reports_server.begin_departure_v1(-7, 's', 1, 'i', 'n', 'a', '{order}', 20)")
    };
    let give_up = |order, server| {
        format!(
            "reports_server.give_up_departure_v1(-7, 's', 1, 'i', 'n', '{server}', '{order}', 20)"
        )
    };
    let is_clean = "(SELECT is_clean FROM reports_server.departures WHERE cluster = -7)".to_owned();
    let facts = [
        format!("{} = 0", begin("one")),
        format!("{} = 0", give_up("one", "b")),
        // Another server removes the copy.
        format!("{} = 1", give_up("one", "a")),
        format!("{} = 0", give_up("one", "b")),
        format!("NOT {is_clean}"),
        format!("{} = 2", begin("one")),
        // It is not the one that is carried out.
        format!("{} = 2", give_up("four", "a")),
        format!("{} = 2", begin("four")),
    ];
    let facts = facts.map(|fact| format!("ASSERT {fact};")).join("\n");
    SOURCE
        .sql(&format!("DO $$ BEGIN {facts} END $$"))
        .await
        .unwrap();
    let clean = "DELETE FROM reports_server.departures WHERE cluster = -7";
    SOURCE.sql(clean).await.unwrap();
    first.close().await;
}
