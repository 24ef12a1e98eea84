//! Servers and copies that a move leaves behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crds::control::{GateState, MovePhase, move_file};

use super::super::home::{Home, SERVER, reached, state};
use super::{Estate, told};
use crate::store::tests::key;
use crate::store::{Etcd, OpenError, moving};

/// A server that cannot follow says so, rather than serve what is old.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_follow_ends_its_watches() {
    let estate = Estate::new();
    let first = estate.open("a").await;
    first.gate(GateState::Open).await;
    let behind = Home::bed(estate.here().await.unwrap()).await;
    let rv = first.create("a", "a").await.unwrap().rv();
    behind.store.wait_for_rv(&behind.reports, rv).await.unwrap();
    let mut cursor = behind.reports.events_from(rv).unwrap();
    assert!(!behind.store.is_left_behind());
    estate.ask("a");
    reached(&first.store, MovePhase::Moved).await;
    first.create("b", "b").await.unwrap();
    let ended = async {
        // An end comes as a list without an event, or as an error.
        cursor.next(3).await.is_ok_and(|events| !events.is_empty())
    };
    let news = tokio::time::timeout(Duration::from_secs(30), ended).await;
    assert!(!news.unwrap(), "it has no news");
    assert!(behind.store.is_left_behind());
    assert!(!first.store.is_left_behind());
    first.close().await;
    behind.close().await;
}

/// A server that has not loaded everything yet could not follow either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loads_is_waited_for() {
    let estate = Estate::new();
    let first = estate.open("a").await;
    assert!(first.store.database().can_move);
    let etcd: Arc<dyn Etcd> = Arc::new(());
    let options = estate.move_options("b");
    let (loading, mover, _) = moving::open(&options, &etcd).await.unwrap();
    estate.ask("a");
    told(&first, "have not read the order").await;
    drop(mover);
    loading.close().await;
    reached(&first.store, MovePhase::Moved).await;
    let ended = async {
        while first.store.database().can_move {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
    assert!(ended.is_ok(), "nobody moves them from there");
    first.close().await;
}

/// The last step that cannot be made leaves the copy as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_step_that_fails_is_made_again_with_the_same_copy() {
    let estate = Estate::new();
    let (first, second) = estate.pair().await;
    first.create("a", "a").await.unwrap();
    first.gate(GateState::Held).await;
    estate.ask("a");
    estate.ask("b");
    told(&first, "switch").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.gate(GateState::Open).await;
    second.create("b", "b").await.unwrap();
    first.create("c", "c").await.unwrap();
    for bed in [&first, &second] {
        reached(&bed.store, MovePhase::Moved).await;
    }
    let attempts = [&first, &second].map(|bed| bed.store.database().move_.unwrap().attempts);
    assert_eq!(attempts.into_iter().max(), Some(1));
    assert_eq!(state(&first).len(), 3);
    assert_eq!(state(&first), state(&second));
    first.close().await;
    second.close().await;
}

/// A reader of the other database is in the way of removing the copy, and nobody waits behind that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_is_given_up_once_the_copy_is_gone() {
    let estate = Estate::new();
    let bed = estate.open("a").await;
    bed.gate(GateState::Open).await;
    bed.create("a", "a").await.unwrap();
    bed.gate(GateState::Held).await;
    let neighbour = Home::bed(Estate::new().there().await.unwrap()).await;
    neighbour.gate(GateState::Open).await;
    estate.ask("a");
    told(&bed, "switch").await;
    let reader = SERVER.superuser().await.unwrap();
    let read = "BEGIN; SELECT count(*) FROM reports_server.changes";
    reader.batch_execute(read).await.unwrap();
    estate.tell("a", move_file::GIVE_UP, "");
    let began = Instant::now();
    for n in 0.. {
        let asked = Instant::now();
        neighbour.create(&format!("n{n}"), "n").await.unwrap();
        assert!(asked.elapsed() < Duration::from_secs(2));
        let phase = bed.store.database().move_.map(|m| m.phase);
        assert_ne!(phase, Some(MovePhase::GivenUp));
        if began.elapsed() > Duration::from_secs(3) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    reader.batch_execute("COMMIT").await.unwrap();
    reached(&bed.store, MovePhase::GivenUp).await;
    assert_eq!(bed.store.database().move_.unwrap().message, "");
    let left = format!(
        "SELECT FROM reports_server.clusters WHERE identity = '{}'",
        estate.identity
    );
    assert!(reader.query(left.as_str(), &[]).await.unwrap().is_empty());
    neighbour.close().await;
    bed.close().await;
}

/// The way back is begun and given up: where the reports are stays known in the database where they
/// were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_back_that_is_given_up_leaves_the_mark() {
    let estate = Estate::new();
    let bed = estate.open("a").await;
    bed.gate(GateState::Open).await;
    bed.create("a", "a").await.unwrap();
    estate.ask("a");
    reached(&bed.store, MovePhase::Moved).await;
    bed.close().await;
    let back = estate.back();
    let bed = back.open("c").await;
    bed.create("b", "b").await.unwrap();
    bed.gate(GateState::Held).await;
    back.ask("c");
    told(&bed, "switch").await;
    let filled = estate.here().await.unwrap_err();
    assert!(matches!(filled, OpenError::MovedAway(_)), "{filled}");
    back.tell("c", move_file::GIVE_UP, "");
    reached(&bed.store, MovePhase::GivenUp).await;
    bed.gate(GateState::Open).await;
    let refused = estate.here().await.unwrap_err();
    assert!(matches!(refused, OpenError::MovedAway(_)), "{refused}");
    let late = estate.open("a").await;
    assert!(late.reports.get(&key("b")).is_some());
    assert_eq!(state(&late), state(&bed));
    late.close().await;
    bed.close().await;
}
