//! Announcements of commits between servers; they are hints and nothing more.

use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use super::super::Bed;
use super::Cluster;
use crate::store::tests::next;
use crate::store::{DatabaseInfo, PostgresOptions};

const PATIENCE: Duration = Duration::from_secs(20);

fn info(bed: &Bed) -> DatabaseInfo {
    bed.store.stats().database.unwrap()
}

/// Waits until notifications come through to `bed`, or do not any more.
async fn until_listening(bed: &Bed, listening: bool) {
    let wanted = async {
        while info(bed).notifications != listening {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, wanted).await.unwrap();
}

/// Two servers of one cluster on a database of their own.
struct Pair {
    postgres: pgtest::Postgres,
    _directory: TempDir,
    first: Bed,
    second: Bed,
}

impl Pair {
    async fn new() -> Self {
        let postgres = pgtest::Postgres::start(pgtest::PostgresOptions::quick())
            .await
            .unwrap();
        let directory = tempfile::tempdir().unwrap();
        postgres.params().write(directory.path()).unwrap();
        let cluster = Cluster {
            options: PostgresOptions::new(directory.path(), "a pair"),
        };
        let first = Bed::serving(&cluster).await;
        let second = Bed::open(&cluster).await;
        let pair = Self {
            postgres,
            _directory: directory,
            first,
            second,
        };
        pair.until_listening().await;
        pair
    }

    async fn until_listening(&self) {
        until_listening(&self.first, true).await;
        until_listening(&self.second, true).await;
    }

    /// Waits until a write of the first shows at the second at once: long before it looks by
    /// itself.
    async fn until_told(&self, name: &str) {
        let deadline = Instant::now() + PATIENCE;
        let mut streak = 0;
        for i in 0.. {
            streak = if self.lag(&format!("{name}-{i}")).await < Duration::from_millis(300) {
                streak + 1
            } else {
                0
            };
            if streak == 10 {
                return;
            }
            assert!(Instant::now() < deadline, "the second is not told");
        }
    }

    /// Returns the time that a write of the first takes to show at the second.
    async fn lag(&self, name: &str) -> Duration {
        let reports = &self.second.reports;
        let mut watch = reports.events_from(reports.current_rv()).unwrap();
        // Whatever was seen a moment ago makes it look often.
        sleep(Duration::from_millis(20)).await;
        let rv = self.first.create(name, "u").await.unwrap().rv();
        let began = Instant::now();
        while next(&mut watch, 10).await.iter().all(|e| e.rv() < rv) {}
        began.elapsed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_told_of_the_commits_of_others() {
    let pair = Pair::new().await;
    pair.until_told("r").await;
    // Connections are lost, and come back by themselves.
    pair.postgres.terminate_connections().await.unwrap();
    pair.until_listening().await;
    pair.until_told("s").await;
    pair.first.close().await;
    pair.second.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_counts_those_that_come() {
    let pair = Pair::new().await;
    let client = pair.postgres.superuser().await.unwrap();
    let mut arrivals = pair.first.store.arrivals().unwrap();
    timeout(PATIENCE, arrivals.wait_for(|count| *count == 1))
        .await
        .unwrap()
        .unwrap();
    for (name, count) in [("abc", 2), ("abc", 2), ("abd", 3)] {
        let present = format!("NOTIFY reports_server_1, '{name} present'");
        client.batch_execute(&present).await.unwrap();
        let commit = format!("NOTIFY reports_server_1, '{name} 1'");
        client.batch_execute(&commit).await.unwrap();
        let counted = arrivals.wait_for(|found| *found >= count);
        assert_eq!(*timeout(PATIENCE, counted).await.unwrap().unwrap(), count);
    }
    pair.first.close().await;
    pair.second.close().await;
}

/// Commits that are not there are looked for once, and those that are there are seen all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn false_hints_are_looked_after_once() {
    let pair = Pair::new().await;
    let client = pair.postgres.superuser().await.unwrap();
    let looks = async || -> i64 {
        // What the last statements of a session did shows when it has been idle for a second.
        sleep(Duration::from_millis(1500)).await;
        let sql = "SELECT sum(xact_commit)::bigint FROM pg_stat_database
            WHERE datname = 'reports'";
        client.query_one(sql, &[]).await.unwrap().get(0)
    };
    let before = looks().await;
    for seq in [u64::MAX.to_string(), "9999999".to_owned(), "1".to_owned()] {
        let hint = format!("NOTIFY reports_server_1, 'abc {seq}'");
        client.batch_execute(&hint).await.unwrap();
    }
    for text in ["", "abc", "abc -1", "nothing at all"] {
        let hint = format!("NOTIFY reports_server_1, '{text}'");
        client.batch_execute(&hint).await.unwrap();
    }
    let more = looks().await - before;
    assert!(more < 100, "{more} transactions");
    pair.until_told("r").await;
    pair.first.close().await;
    pair.second.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_database_can_do_is_found_out() {
    let direct = Bed::open(&Cluster::direct()).await;
    until_listening(&direct, true).await;
    let found = info(&direct);
    assert!(found.version.starts_with(char::is_numeric), "{found:?}");
    let yes = [found.prepared_statements, found.partitions, found.lz4];
    assert_eq!((yes, found.pooler), ([true; 3], false), "{found:?}");
    direct.close().await;

    let pooled = Bed::open(&Cluster::pooled()).await;
    // Longer than it takes to try.
    sleep(Duration::from_secs(2)).await;
    let found = info(&pooled);
    let yes = [found.pooler, found.partitions, found.lz4];
    assert_eq!((yes, found.notifications), ([true; 3], false), "{found:?}");
    pooled.close().await;
}
