//! A database that fails, hangs, or loses its answers.

use std::time::Duration;

use futures::future::join_all;
use pgtest::{Direction, Proxy};
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use super::super::Bed;
use super::Cluster;
use crate::store::{PostgresOptions, StoreError, WriteError};

/// A server behind a proxy that can be told to fail.
struct Line {
    postgres: pgtest::Postgres,
    proxy: Proxy,
    cluster: Cluster,
    _directory: TempDir,
}

impl Line {
    async fn new() -> Self {
        let postgres = pgtest::Postgres::start(pgtest::PostgresOptions::quick())
            .await
            .unwrap();
        let proxy = Proxy::start(postgres.port()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let params = postgres.params().at_port(proxy.port());
        params.write(directory.path()).unwrap();
        let cluster = Cluster {
            options: PostgresOptions::new(directory.path(), "line"),
        };
        Self {
            postgres,
            proxy,
            cluster,
            _directory: directory,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_was_lost_is_looked_for() {
    let line = Line::new().await;
    let bed = Bed::serving(&line.cluster).await;
    let start = bed.store.counter();
    for i in 0..10 {
        // The statement arrives; the connection is lost before all of the answer is through.
        line.proxy.cut_after(Direction::ToClient, 1);
        let written = bed.create(&format!("r{i}"), "u").await.unwrap();
        assert_eq!(written.rv(), start + 1 + i);
    }
    let events = bed.events(start, start + 10).await;
    assert_eq!(events.len(), 10, "each was made once");
    assert!(matches!(
        bed.create("r3", "u").await,
        Err(WriteError::AlreadyExists(_))
    ));
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_arrives_late_is_not_made_twice() {
    let line = Line::new().await;
    let bed = Bed::serving(&line.cluster).await;
    let rv = bed.create("r", "u").await.unwrap().rv();
    line.proxy.hold(Direction::ToServer);
    let write = bed.update("r", "u", "b", None);
    let release = async {
        // Behind the time for a statement: the batch was given up by then and is asked for.
        tokio::time::sleep(Duration::from_secs(6)).await;
        line.proxy.release();
    };
    let (written, ()) = tokio::join!(write, release);
    assert_eq!(written.unwrap().rv(), rv + 1);
    let again = bed.update("r", "u", "c", None).await.unwrap();
    assert_eq!(again.rv(), rv + 2);
    assert_eq!(bed.events(rv, rv + 2).await.len(), 2);
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_hangs_is_answered_for_in_time() {
    let line = Line::new().await;
    let bed = Bed::serving(&line.cluster).await;
    let rv = bed.create("r", "u").await.unwrap().rv();
    line.postgres.pause().unwrap();
    let start = Instant::now();
    let (first, second, read) = tokio::join!(
        bed.update("r", "u", "b", Some(rv)),
        bed.create("s", "u"),
        bed.store.consistent(),
    );
    assert!(start.elapsed() < Duration::from_secs(20));
    for write in [first, second] {
        let error = write.unwrap_err();
        assert!(
            matches!(&error, WriteError::Store(StoreError::Unavailable { .. })),
            "{error}"
        );
    }
    assert!(matches!(read, Err(StoreError::Unavailable { .. })));
    assert!(!bed.store.stats().database_up);
    line.postgres.resume().unwrap();

    // Nobody has to do anything: writes work, and what was made meanwhile was made once.
    let again = timeout(Duration::from_secs(20), async {
        loop {
            match bed.create("t", "u").await {
                Ok(written) => break written,
                Err(WriteError::Store(StoreError::Unavailable { retry_after, .. })) => {
                    tokio::time::sleep(retry_after).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
    let last = again.await.unwrap().rv();
    bed.store.consistent().await.unwrap();
    let versions: Vec<u64> = bed.events(rv, last).await.iter().map(|e| e.rv()).collect();
    assert_eq!(versions, (rv + 1..=last).collect::<Vec<_>>());
    assert!(bed.store.stats().database_up);
    bed.close().await;
}

/// Commands that wait for the committer are refused with the first, not one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_are_refused_together_while_the_database_hangs() {
    let line = Line::new().await;
    let bed = Bed::serving(&line.cluster).await;
    line.postgres.pause().unwrap();
    let start = Instant::now();
    let floors = join_all((1..=5).map(|i| bed.store.raise_floor(i)));
    let (floors, write) = tokio::join!(floors, bed.create("r", "u"));
    let took = start.elapsed();
    line.postgres.resume().unwrap();
    for refused in floors {
        assert!(
            matches!(&refused, Err(StoreError::Unavailable { .. })),
            "{refused:?}"
        );
    }
    assert!(matches!(
        write,
        Err(WriteError::Store(StoreError::Unavailable { .. }))
    ));
    // Once the time for a statement, and not five times.
    assert!(took < Duration::from_secs(13), "{took:?}");
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_slept_longer_than_the_history_lists_again() {
    let line = Line::new().await;
    let bed = Bed::serving(&line.cluster).await;
    let direct = tempfile::tempdir().unwrap();
    line.postgres.params().write(direct.path()).unwrap();
    let awake = Bed::open(&Cluster {
        options: PostgresOptions::new(direct.path(), "line"),
    })
    .await;
    bed.create("r", "u").await.unwrap();
    let position = bed.reports.current_rv();
    line.proxy.black_hole();
    awake.store.consistent().await.unwrap();
    for i in 0..20 {
        awake.create(&format!("s{i}"), "u").await.unwrap();
    }
    awake.compact(Duration::ZERO).await;
    let last = awake.create("t", "u").await.unwrap().rv();
    assert!(bed.reports.current_rv() < last);
    line.proxy.release();
    line.proxy.cut();
    timeout(
        Duration::from_secs(20),
        bed.store.wait_for_rv(&bed.reports, last),
    )
    .await
    .unwrap()
    .or_else(|error| {
        // The wait itself is short; what counts is that it gets there.
        (bed.reports.current_rv() >= last)
            .then_some(())
            .ok_or(error)
    })
    .unwrap();
    assert_eq!(bed.reports.snapshot().len(), 22);
    assert!(bed.reports.events_from(position).is_err());
    bed.close().await;
    awake.close().await;
}
