//! The database is restored from an older backup. What was written since is gone, and nobody may
//! be served a mixture of both.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pgtest::{Postgres, PostgresOptions, Timeline};
use rstest::rstest;
use storage::cache::CursorError;

use super::{CREW, WITHOUT_END};
use crate::support::replica::{Place, Replica};
use crate::support::scene::{self, Scene};
use crate::support::{PATIENCE, eventually, log};

/// Servers notice it themselves: under load, with clients that watch.
#[rstest]
#[case::as_a_volume_snapshot(Timeline::Same)]
#[case::as_an_archive(Timeline::New)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_under_servers(#[case] timeline: Timeline) {
    let scene = super::scene(PostgresOptions::default()).await;
    let backup = scene.server.backup().await.unwrap();
    scene.progress(100).await;
    let served = log::newest_version(&scene.server).await;
    scene.server.restore(&backup, timeline).await.unwrap();
    scene.progress(50).await;
    let newest = log::newest_version(&scene.server).await;
    assert!(newest > served, "{newest} after {served} was served");
    // Those who held an older version cannot go on from it, wherever they come back.
    for slot in scene.slots.iter() {
        let resource = slot.read().await.as_ref().unwrap().resource();
        eventually("the version is refused", async || {
            resource.events_from(served).is_err()
        })
        .await;
    }
    // From here on the rules hold as before.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mark = scene.desk.ledger.begun();
    scene.progress(100).await;
    let readers = scene.slots.len();
    let verdict = scene.end_since(mark, PATIENCE).await;
    assert_eq!(verdict.differing, 0, "{verdict:#?}");
    for (comparison, tally) in &verdict.readers[..readers] {
        assert!(comparison.is_clean(), "{verdict:#?}");
        assert!(tally.expired > 0, "{verdict:#?}");
        assert_eq!((tally.out_of_order, tally.duplicated), (0, 0));
    }
}

/// Nobody was there when it happened: the next server tells by the timeline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_while_no_server_runs() {
    let server = Arc::new(Postgres::start(PostgresOptions::default()).await.unwrap());
    let scene = Scene::begin(&server, vec![Place::at(&server)], CREW, WITHOUT_END).await;
    scene.progress(20).await;
    let backup = server.backup().await.unwrap();
    scene.progress(50).await;
    scene.desk.stop.store(true, Ordering::Relaxed);
    scene.desk.wait_idle().await;
    let newest = log::newest_version(&server).await;
    scene.kill(0).await;
    server.restore(&backup, Timeline::New).await.unwrap();
    let replica = scene::serve(&scene.places[0]).await;
    assert!(replica.resource().events_from(newest).is_err());
    let written = create(&replica, "after").await;
    // Behind everything of the backup; what else was served nobody remembers, and its holders are
    // told to list again.
    assert!(written > replica.resource().horizon());
}

/// A watch that is open does not go on silently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_watch_ends() {
    let server = Postgres::start(PostgresOptions::default()).await.unwrap();
    let place = Place::at(&server);
    let replica = scene::serve(&place).await;
    create(&replica, "kept").await;
    let backup = server.backup().await.unwrap();
    let gone = create(&replica, "gone").await;
    let mut cursor = replica.resource().events_from(gone).unwrap();
    server.restore(&backup, Timeline::Same).await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, cursor.next(1))
        .await
        .unwrap();
    match ended {
        Err(CursorError::Lagged { .. } | CursorError::Closed { .. }) => {}
        other => panic!("{other:?}"),
    }
    eventually("the memory is what the database has", async || {
        replica.resource().snapshot().len() == 1
    })
    .await;
    assert!(create(&replica, "gone").await > gone);
}

/// Creates a report as soon as the server takes it; gives its version.
async fn create(replica: &Replica, name: &str) -> u64 {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match replica.create(name).await {
            Ok(rv) => return rv,
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
