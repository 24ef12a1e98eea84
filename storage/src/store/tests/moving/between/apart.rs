//! A failover, or a backup that is restored, takes something back on one of the two sides.

use std::sync::Arc;
use std::time::Duration;

use crds::control::{GateState, MovePhase, move_file};

use super::super::home::{Home, SERVER, reached, state};
use super::{Estate, SOURCE, told};
use crate::store::engine::Engine as _;
use crate::store::moving::MoveState;
use crate::store::moving::source::{Order, Source as _, Turn};
use crate::store::postgres::Postgres;
use crate::store::postgres::moving::Leaving;
use crate::store::tests::{Bed, RING, Revision, key};
use crate::store::{Database, OpenError, Store, StoreOptions};

/// Versions by which histories that begin anew are ahead, at least.
const AHEAD: u64 = 1 << 20;

impl Estate {
    /// Moves the reports, with one server; returns it.
    async fn moved(&self) -> Bed {
        let bed = self.open("a").await;
        bed.gate(GateState::Open).await;
        bed.create("a", "a").await.unwrap();
        bed.create("b", "b").await.unwrap();
        self.ask("a");
        reached(&bed.store, MovePhase::Moved).await;
        bed
    }

    /// Puts the other database back to the moment before it was opened; `steps` of what was filled in
    /// are lost, too.
    async fn unopen(&self, steps: u32) {
        let own = self.rows_there();
        let back = format!(
            "UPDATE reports_server.moves SET opened_at = NULL, attempt = attempt - {steps}
             WHERE {own};
             UPDATE reports_server.commits SET cluster = -cluster WHERE {own}"
        );
        SERVER.sql(&back).await.unwrap();
    }

    /// Takes the newest commit back in the other database, which has created an object.
    async fn lose_there(&self, name: &str) {
        let own = self.rows_there();
        let newest =
            format!("{own} AND seq = (SELECT max(seq) FROM reports_server.commits WHERE {own})");
        let lose = format!(
            "DELETE FROM reports_server.objects WHERE {own} AND name = '{name}';
             DELETE FROM reports_server.changes WHERE {newest};
             DELETE FROM reports_server.commits WHERE {newest}"
        );
        SERVER.sql(&lose).await.unwrap();
    }

    /// Loses the mark in the database that was moved.
    async fn lose_mark(&self) {
        let own = self.own_rows();
        let lose = format!(
            "UPDATE reports_server.commits SET cluster = -cluster WHERE -cluster IN (
                 SELECT cluster FROM reports_server.departures WHERE {own});
             UPDATE reports_server.departures SET moved_at = NULL, attempt = attempt - 1000,
                 renewed_at = '-infinity', seq = NULL, batch = NULL, counter = NULL, here = NULL,
                 there = NULL
             WHERE {own}"
        );
        SOURCE.sql(&lose).await.unwrap();
    }

    /// Opens a server in a cluster with an etcd.
    async fn open_beside(&self, server: &str, etcd: Revision) -> Result<Bed, OpenError> {
        let options = StoreOptions {
            etcd: Arc::new(etcd),
            ring: RING,
            indexed_labels: vec!["app".to_owned()],
            ..StoreOptions::on(Database::Movable(self.move_options(server)))
        };
        Ok(Home::bed(Store::open(options).await?).await)
    }
}

/// The other database loses the last steps of the copy before it is opened: nothing of it counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_other_database_lost_before_it_was_opened_is_taken_back() {
    let estate = Estate::new();
    let bed = estate.moved().await;
    let (expected, counter) = (state(&bed), bed.store.counter());
    bed.close().await;
    estate.unopen(1).await;
    // It was in use, as far as is known: what is in the old one is old.
    let in_use = estate.try_open("a").await.unwrap_err();
    assert!(matches!(in_use, OpenError::Incomplete(_)), "{in_use}");
    assert!(in_use.may_pass());
    let forget = format!(
        "UPDATE reports_server.departures SET arrived_at = NULL WHERE {}",
        estate.own_rows()
    );
    SOURCE.sql(&forget).await.unwrap();
    let incomplete = estate
        .open_beside("a", Revision(None))
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(incomplete, OpenError::Revision(_)), "{incomplete}");
    let bed = estate.open("a").await;
    // It may have been in use, and have given versions.
    assert!(bed.store.counter() >= counter + AHEAD);
    assert_eq!(state(&bed), expected);
    assert!(bed.reports.events_from(counter).is_err());
    bed.create("c", "c").await.unwrap();
    // The order is carried out all the same.
    reached(&bed.store, MovePhase::Moved).await;
    let there = Home::bed(estate.there().await.unwrap()).await;
    assert_eq!(state(&there), state(&bed));
    assert_eq!(state(&there).len(), 3);
    there.close().await;
    bed.close().await;
}

/// The same, noticed by servers that run: they are refused by the old database, find the other one
/// without its last steps, and go on where they were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_run_take_the_reports_back() {
    let estate = Estate::new();
    let (first, second) = estate.pair().await;
    first.create("a", "a").await.unwrap();
    estate.ask("a");
    told(&first, "have not read the order").await;
    let counter = first.store.counter();
    let own = estate.own_rows();
    let depart = format!(
        "SELECT reports_server.depart_v1(d.cluster, d.attempt, d.holder, d.attempt + 1000000, k.seq,
             k.batch, '{{}}', '{{}}')
         FROM (SELECT * FROM reports_server.departures WHERE {own}) d CROSS JOIN LATERAL (
             SELECT k.seq, k.batch FROM reports_server.commits k
             WHERE k.cluster = d.cluster ORDER BY k.seq DESC LIMIT 1) k"
    );
    SOURCE.sql(&depart).await.unwrap();
    let wait = async {
        loop {
            match first.create("b", "b").await {
                Ok(written) => return written.rv(),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    assert!(waited.unwrap() > counter + AHEAD);
    second.store.consistent().await.unwrap();
    assert!(second.reports.events_from(counter).is_err());
    assert_eq!(state(&second), state(&first));
    estate.ask("b");
    for bed in [&first, &second] {
        reached(&bed.store, MovePhase::Moved).await;
    }
    let there = Home::bed(estate.there().await.unwrap()).await;
    assert_eq!(state(&there), state(&first));
    for bed in [first, second, there] {
        bed.close().await;
    }
}

/// The other database is put back to the moment before it was opened, while a server uses it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_put_back_before_its_opening_is_opened_again() {
    let estate = Estate::new();
    let bed = estate.moved().await;
    let late = bed.create("late", "l").await.unwrap().rv();
    estate.lose_there("late").await;
    estate.unopen(0).await;
    let wait = async {
        while bed.reports.get(&key("late")).is_some() {
            let _ = bed.store.consistent().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait)
        .await
        .unwrap();
    assert!(bed.create("next", "n").await.unwrap().rv() > late + AHEAD);
    assert!(bed.reports.events_from(late).is_err());
    bed.close().await;
}

/// A server that begins after that knows of no version, but of etcd's revision.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_to_a_database_that_was_put_back_begins_above_etcd() {
    const REVISION: u64 = 70_000_000;
    let estate = Estate::new();
    let bed = estate.moved().await;
    bed.create("late", "l").await.unwrap();
    bed.close().await;
    estate.lose_there("late").await;
    estate.unopen(0).await;
    // As another server or timeline has it.
    let other = format!(
        "UPDATE reports_server.clusters SET origin = 'other/1' WHERE {}",
        estate.rows_there()
    );
    SERVER.sql(&other).await.unwrap();
    let unknown = estate
        .open_beside("a", Revision(None))
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(unknown, OpenError::Revision(_)), "{unknown}");
    let bed = estate
        .open_beside("a", Revision(Some(REVISION)))
        .await
        .unwrap();
    assert!(bed.store.counter() > REVISION);
    assert!(bed.reports.events_from(REVISION).is_err());
    assert_eq!(state(&bed).len(), 2);
    bed.close().await;
}

/// A failover of the old database loses the mark: servers go on there beside the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_that_was_lost_is_set_again() {
    let estate = Estate::new();
    let first = estate.moved().await;
    first.create("there", "t").await.unwrap();
    estate.lose_mark().await;
    let beside = Home::bed(estate.here().await.unwrap()).await;
    let given = beside.create("beside", "b").await.unwrap().rv();
    beside.close().await;
    let second = estate.open("b").await;
    assert!(second.reports.get(&key("beside")).is_some());
    estate.ask("b");
    reached(&second.store, MovePhase::Moved).await;
    second.store.consistent().await.unwrap();
    assert_eq!(state(&second).len(), 3, "{:?}", state(&second));
    assert!(second.reports.get(&key("there")).is_some());
    // What was served here is not given again to something else.
    let rv = second.create("next", "n").await.unwrap().rv();
    assert!(rv > given + AHEAD, "{rv}, {given}");
    first.store.wait_for_rv(&first.reports, rv).await.unwrap();
    assert_eq!(state(&first), state(&second));
    let refused = estate.here().await.unwrap_err();
    assert!(matches!(refused, OpenError::MovedAway(_)), "{refused}");
    first.close().await;
    second.close().await;
}

/// The same, where the move is to be given up by servers that do not know that it is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_whose_mark_was_lost_is_not_given_up() {
    let estate = Estate::new();
    let first = estate.moved().await;
    estate.lose_mark().await;
    let second = estate.open("b").await;
    estate.to.write(&estate.orders("b")).unwrap();
    estate.tell("b", move_file::GIVE_UP, "");
    estate.ask("b");
    reached(&second.store, MovePhase::Moved).await;
    let rv = second.create("next", "n").await.unwrap().rv();
    first.store.wait_for_rv(&first.reports, rv).await.unwrap();
    assert_eq!(state(&first), state(&second));
    first.close().await;
    second.close().await;
}

/// Two servers with one number, as after a failover that has lost the row of one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_belongs_to_one_server() {
    let estate = Estate::new();
    let bed = estate.open("a").await;
    let place = estate.place("from", &estate.from);
    let mut servers = Vec::new();
    for _ in 0..2 {
        let engine = Arc::new(Postgres::open(&place).await.unwrap());
        let leaving = Leaving::new(Arc::clone(&engine), Duration::from_secs(1));
        servers.push((engine, leaving));
    }
    let order = Order {
        identity: &estate.identity,
        name: "",
        id: "an order",
    };
    let [(_, one), (_, other)] = &servers[..] else {
        panic!("two");
    };
    let attempt = async || match one.turn(order).await.unwrap() {
        Turn::Own(marker) => marker.attempt,
        turn => panic!("{turn:?}"),
    };
    let first = attempt().await;
    let next = attempt().await;
    assert!(next - first >= 1 << 32, "there is room for its steps");
    let told = MoveState::default().describe();
    let limit = Duration::from_secs(1);
    assert!(one.renew(next, 0, &told).await.unwrap());
    assert!(!other.renew(next, 0, &told).await.unwrap());
    assert!(one.hold(next, limit).await.is_ok());
    assert!(other.hold(next, limit).await.is_err());
    for (engine, leaving) in servers {
        leaving.leave().await;
        engine.close().await;
    }
    bed.close().await;
}

/// Servers that come back at one time forget others, and each other, without waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_tell_of_themselves_do_not_wait_for_each_other() {
    let estate = Estate::new();
    let bed = estate.open("a").await;
    let place = estate.place("from", &estate.from);
    let engine = Arc::new(Postgres::open(&place).await.unwrap());
    let servers: Vec<_> = (0..6)
        .map(|_| Leaving::new(Arc::clone(&engine), Duration::from_millis(1)))
        .collect();
    for _ in 0..30 {
        let all = servers.iter().map(|server| server.attend("an order"));
        for attended in futures::future::join_all(all).await {
            attended.unwrap();
        }
    }
    for server in &servers {
        server.leave().await;
    }
    engine.close().await;
    bed.close().await;
}
