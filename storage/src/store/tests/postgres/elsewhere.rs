//! Parameters of the connection that come to lead to another database.

use std::time::Duration;

use pgtest::Params;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::super::{Bed, Fixture as _, key};
use super::Cluster;
use crate::store::engine::Engine as _;
use crate::store::postgres::Postgres;
use crate::store::{FoundHistories, OpenError, PostgresOptions, StoreError, WriteError};

const PATIENCE: Duration = Duration::from_secs(30);

/// A server with several databases, and the directory that names one of them.
struct House {
    postgres: pgtest::Postgres,
    directory: TempDir,
}

impl House {
    async fn new() -> Self {
        let postgres = pgtest::Postgres::start(pgtest::PostgresOptions::quick())
            .await
            .unwrap();
        let directory = tempfile::tempdir().unwrap();
        let house = Self {
            postgres,
            directory,
        };
        house.params().write(house.directory.path()).unwrap();
        house
    }

    fn params(&self) -> Params {
        self.postgres.params()
    }

    fn options(&self) -> PostgresOptions {
        PostgresOptions::new(self.directory.path(), "ours")
    }

    fn cluster(&self) -> Cluster {
        Cluster {
            options: self.options(),
        }
    }

    /// Makes an empty database.
    async fn make(&self, name: &str) {
        let owner = self.params().get("username").unwrap().to_owned();
        let make = format!("CREATE DATABASE {name} OWNER {owner}");
        self.postgres.sql(&make).await.unwrap();
    }

    /// Returns whether a database has no schema of ours.
    async fn is_empty(&self, name: &str) -> bool {
        let params = self.params();
        let of = |key| params.get(key).unwrap();
        let mut config = tokio_postgres::Config::new();
        config
            .host(of("host"))
            .port(of("port").parse().unwrap())
            .user(of("username"))
            .password(of("password"))
            .dbname(name);
        let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let schema = "SELECT to_regnamespace('reports_server') IS NULL";
        client.query_one(schema, &[]).await.unwrap().get(0)
    }

    /// Makes a copy of the database, and has the parameters lead to it.
    async fn lead_to_copy(&self, name: &str) {
        let params = self.params();
        let (owner, source) = (
            params.get("username").unwrap(),
            params.get("dbname").unwrap(),
        );
        let admin = self.postgres.superuser().await.unwrap();
        // Only a database that nobody uses can be copied.
        let close = format!("ALTER ROLE {owner} NOLOGIN");
        admin.batch_execute(&close).await.unwrap();
        self.postgres.terminate_connections().await.unwrap();
        let copy = format!("CREATE DATABASE {name} TEMPLATE {source} OWNER {owner}");
        admin.batch_execute(&copy).await.unwrap();
        self.lead_to(name);
        let open = format!("ALTER ROLE {owner} LOGIN");
        admin.batch_execute(&open).await.unwrap();
    }

    /// Has the parameters lead to a database.
    fn lead_to(&self, name: &str) {
        let params = self.params().with("dbname", name);
        params.write(self.directory.path()).unwrap();
    }

    /// Has the parameters lead back.
    fn lead_back(&self) {
        self.params().write(self.directory.path()).unwrap();
    }

    /// Returns a server of another cluster on a database.
    async fn other_server(&self, name: &str, identity: &str) -> (Bed, TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let params = self.params().with("dbname", name);
        params.write(directory.path()).unwrap();
        let options = PostgresOptions::new(directory.path(), identity);
        (Bed::serving(&Cluster { options }).await, directory)
    }
}

/// Waits until writes are refused because of another database; returns the reason.
async fn until_refused(bed: &Bed) -> String {
    let refused = async {
        for i in 0.. {
            // The parameters are read again from time to time; this is such a time.
            let _ = bed.store.prepare().await;
            match bed.create(&format!("before{i}"), "u").await {
                Err(WriteError::Store(StoreError::Unavailable { reason, .. }))
                    if reason.contains("lead to another database") =>
                {
                    return reason;
                }
                _ => sleep(Duration::from_millis(50)).await,
            }
        }
        String::new()
    };
    timeout(PATIENCE, refused).await.unwrap()
}

/// Waits until writes are accepted, and returns the version of the first.
async fn until_accepted(bed: &Bed, name: &str) -> u64 {
    let accepted = async {
        loop {
            match bed.create(name, "u").await {
                Ok(event) => return event.rv(),
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    };
    timeout(PATIENCE, accepted).await.unwrap()
}

/// Makes sure that nothing is taken from the other database and that reads from memory go on; then
/// that all goes on in the right one without a list.
async fn stays_and_goes_on(house: &House, bed: &Bed, name: &str, found: &str) {
    let rv = bed.create(&format!("kept-{name}"), "u").await.unwrap().rv();
    let horizon = bed.reports.horizon();
    house.lead_to(name);
    let reason = until_refused(bed).await;
    assert!(reason.contains(found), "{reason}");
    assert_eq!(bed.store.database().elsewhere, Some(reason));
    let read = bed.store.consistent().await;
    assert!(matches!(read, Err(StoreError::Unavailable { .. })));
    // Followers look about once a second; none of them takes anything over.
    sleep(Duration::from_secs(3)).await;
    assert!(bed.reports.get(&key(&format!("kept-{name}"))).is_some());
    assert!(bed.reports.get(&key("theirs")).is_none());

    house.lead_back();
    let last = until_accepted(bed, &format!("after-{name}")).await;
    bed.store.consistent().await.unwrap();
    assert_eq!(bed.reports.horizon(), horizon, "no list is needed");
    let versions: Vec<u64> = bed.events(rv, last).await.iter().map(|e| e.rv()).collect();
    assert_eq!(versions, (rv + 1..=last).collect::<Vec<_>>());
    assert_eq!(bed.store.database().elsewhere, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_database_is_not_begun_and_the_right_one_goes_on() {
    let house = House::new().await;
    let bed = Bed::serving(&house.cluster()).await;
    house.make("empty").await;
    stays_and_goes_on(&house, &bed, "empty", "no reports at all").await;
    assert!(house.is_empty("empty").await, "nothing was made there");
    bed.close().await;
}

/// Clusters are numbered from 1 on in each database, so the number is that of somebody else there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_another_cluster_under_the_same_number_are_not_taken() {
    let house = House::new().await;
    let bed = Bed::serving(&house.cluster()).await;
    house.make("strange").await;
    let (foreign, _directory) = house.other_server("strange", "theirs").await;
    foreign.create("theirs", "v").await.unwrap();
    let theirs = foreign.store.position().borrow().seq;
    stays_and_goes_on(&house, &bed, "strange", "the reports of theirs").await;
    assert_eq!(foreign.store.position().borrow().seq, theirs);
    assert_eq!(foreign.reports.snapshot().len(), 1);

    house.make("fresh").await;
    let (fresh, _directory) = house.other_server("fresh", "ours").await;
    fresh.create("theirs", "v").await.unwrap();
    stays_and_goes_on(&house, &bed, "fresh", "it holds history").await;
    for bed in [bed, foreign, fresh] {
        bed.close().await;
    }
}

/// A pooler may come to lead elsewhere under connections that stay as they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_looks_where_it_is() {
    let house = House::new().await;
    let bed = Bed::serving(&house.cluster()).await;
    let history = bed.store.database().history.unwrap();
    let other = "UPDATE reports_server.clusters SET history = gen_random_uuid()";
    house.postgres.sql(other).await.unwrap();
    let refused = bed.store.raise_floor(1).await.unwrap_err().to_string();
    assert!(refused.contains("lead to another database"), "{refused}");
    let back = format!("UPDATE reports_server.clusters SET history = '{history}'");
    house.postgres.sql(&back).await.unwrap();
    until_accepted(&bed, "after").await;
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_the_database_is_the_same_one() {
    let house = House::new().await;
    let bed = Bed::serving(&house.cluster()).await;
    let rv = bed.create("kept", "u").await.unwrap().rv();
    let horizon = bed.reports.horizon();
    house.lead_to_copy("copied").await;
    let last = until_accepted(&bed, "after").await;
    assert_eq!(bed.reports.horizon(), horizon);
    assert_eq!(bed.events(rv, last).await.len(), 1);
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_not_begun_anew_under_another_identity() {
    let house = House::new().await;
    let open = async |identity: &str, uid: &str| {
        let mut options = PostgresOptions::new(house.directory.path(), identity);
        uid.clone_into(&mut options.cluster_uid);
        Postgres::open(&options).await
    };
    open("ours", "uid").await.unwrap().close().await;
    for _ in 0..2 {
        let error = open("renamed", "uid").await.err().unwrap();
        let OpenError::OtherIdentity { found, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(found, "ours");
    }
    // Another cluster is one of its own, and may take over what was backed up of this one.
    open("theirs", "another uid").await.unwrap().close().await;
    open("ours", "a third uid").await.unwrap().close().await;
    open("renamed", "uid").await.unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_makes_nothing_where_the_history_is_expected_and_missing() {
    let house = House::new().await;
    let cluster = house.cluster();
    let bed = Bed::serving(&cluster).await;
    let history = bed.store.database().history.unwrap();
    bed.close().await;
    house.make("empty").await;
    let named = house.params().with("history", &history);
    let empty = named.clone().with("dbname", "empty");
    for _ in 0..2 {
        empty.write(house.directory.path()).unwrap();
        let error = Postgres::open(&cluster.options).await.err().unwrap();
        assert!(error.may_pass(), "{error}");
        let OpenError::OtherDatabase(other) = error else {
            panic!("{error}");
        };
        // The second time, too: the first has left nothing.
        assert_eq!(other.found, FoundHistories::Nothing);
    }
    named.write(house.directory.path()).unwrap();
    cluster.open().await.close().await;
}
