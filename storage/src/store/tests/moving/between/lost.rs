//! What is lost, or left behind, does not stay.

use std::time::Duration;

use crds::control::{GateState, MovePhase, move_file};
use pgtest::Proxy;

use super::super::home::{Home, reached, state};
use super::{Estate, SOURCE, open};
use crate::store::tests::{Bed, key};
use crate::store::{Database, MoveOptions, MovedFrom};

impl Estate {
    /// Returns the condition for rows of the cluster in the database that is moved.
    fn own_rows(&self) -> String {
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
