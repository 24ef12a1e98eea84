//! A new verdict with its message leaves the frame of a report as it is.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Bed, key, report};
use super::{Cluster, SERVERS};
use crate::store::{PostgresOptions, Write};

/// Returns a report of which one check says `message`.
fn saying(message: &str, result: &str) -> Value {
    let mut object = report("r", "u", "a");
    let check = |message: &str, result: &str| {
        json!({"message": message, "policy": "p", "result": result,
            "timestamp": {"nanos": 0, "seconds": 1_700_000_000}})
    };
    let mut results = vec![check("what another check says of it", "pass"); 20];
    results[0] = check("", "a");
    results[7] = check(message, result);
    object["results"] = json!(results);
    object
}

async fn put(bed: &Bed, object: Value) -> u64 {
    let write = match bed.reports.get(&key("r")) {
        None => Write::Create {
            key: key("r"),
            object,
        },
        Some(_) => Write::Update {
            key: key("r"),
            expected_rv: None,
            object,
        },
    };
    bed.write(write).await.unwrap().rv()
}

fn said(object: &Value) -> &Value {
    &object["results"][7]["message"]
}

/// A cluster, and a way to ask its database.
struct Database<'a> {
    server: &'a pgtest::Postgres,
    cluster: &'a str,
}

impl<'a> Database<'a> {
    fn of(cluster: &'a Cluster) -> Self {
        Self {
            server: &SERVERS.server,
            cluster: &cluster.options.cluster_identity,
        }
    }

    async fn text(&self, query: &str) -> String {
        let client = self.server.client().await.unwrap();
        let row = client.query_one(query, &[&self.cluster]).await.unwrap();
        row.get(0)
    }

    /// Returns the number of frames.
    async fn frames(&self) -> String {
        self.text(
            "SELECT count(*)::text FROM reports_server.frames f
             JOIN reports_server.clusters c USING (cluster) WHERE c.identity = $1",
        )
        .await
    }

    /// Returns the text of the one report, as SQL reads it.
    async fn report(&self) -> Value {
        let text = self.text(
            "SELECT reports_server.report_text_v1(f.text, o.leaves) FROM reports_server.objects o
             JOIN reports_server.frames f ON f.cluster = o.cluster AND f.id = o.frame
             JOIN reports_server.clusters c ON c.cluster = o.cluster WHERE c.identity = $1",
        );
        serde_json::from_str(&text.await).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_message_writes_no_frame() {
    let cluster = Cluster::direct();
    let bed = Bed::serving(&cluster).await;
    let database = Database::of(&cluster);
    let first = put(&bed, saying("all is well", "pass")).await;
    let messages = [
        r#"a "quoted" \ one: é, \u0000 and "#,
        "all is well",
        "a line\nand another",
        "a line\nand another",
    ];
    let mut last = first;
    for (message, result) in messages.into_iter().zip(["fail", "pass", "error", "fail"]) {
        last = put(&bed, saying(message, result)).await;
        assert_eq!(database.frames().await, "1", "{message}");
        let mut want = saying(message, result);
        assert_eq!(database.report().await, want);
        want["metadata"]["resourceVersion"] = json!(last.to_string());
        let there = Bed::open(&cluster).await;
        let read = there.reports.get(&key("r")).unwrap().value().unwrap();
        assert_eq!(read, want, "another server reads the same");
        there.close().await;
    }
    // The log has all of them, for whoever was away.
    let there = Bed::open(&cluster).await;
    let events = there.events(first, last).await;
    let seen: Vec<Value> = events.iter().map(|e| e.object.value().unwrap()).collect();
    let seen: Vec<&Value> = seen.iter().map(said).collect();
    assert_eq!(seen, messages);
    there.close().await;
    bed.delete("r", None).await.unwrap();
    bed.compact(Duration::ZERO).await;
    assert_eq!(database.frames().await, "0");
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_new_messages_become_a_frame() {
    let cluster = Cluster::direct();
    let bed = Bed::serving(&cluster).await;
    let database = Database::of(&cluster);
    let mut object = saying("all is well", "pass");
    put(&bed, object.clone()).await;
    let mut frames = Vec::new();
    for changed in 8..20 {
        object["results"][changed]["message"] = json!("a message that is new here");
        put(&bed, object.clone()).await;
        assert_eq!(database.report().await, object);
        frames.push(database.frames().await);
    }
    assert_eq!(frames[0], "1");
    assert_ne!(frames[11], "1", "{frames:?}");
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_behind_writes_a_frame() {
    let cluster = Cluster::direct();
    let database = Database::of(&cluster);
    let bed = Bed::serving(&cluster).await;
    put(&bed, saying("all is well", "pass")).await;
    // Somebody else has changed more than messages, and this server has not heard of it.
    let client = SERVERS.server.client().await.unwrap();
    let behind = "UPDATE reports_server.objects o SET frame_hash = 7
                  FROM reports_server.clusters c
                  WHERE c.cluster = o.cluster AND c.identity = $1";
    let identity = &cluster.options.cluster_identity;
    client.execute(behind, &[identity]).await.unwrap();
    let object = saying("nothing is well", "fail");
    put(&bed, object.clone()).await;
    assert_eq!(database.frames().await, "2");
    assert_eq!(database.report().await, object);
    bed.close().await;
}

/// Servers of the release before have no more than the functions of its migrations.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_that_earlier_servers_cannot_read() {
    let server = pgtest::Postgres::start(pgtest::PostgresOptions::quick())
        .await
        .unwrap();
    let options = PostgresOptions::new(server.params_dir().unwrap(), "shared");
    let bed = Bed::serving(&Cluster { options }).await;
    let database = Database {
        server: &server,
        cluster: "shared",
    };
    let client = server.client().await.unwrap();
    let sql = async |statements: &str| client.batch_execute(statements).await.unwrap();
    let least = async || {
        let row = client.query_one("SELECT min_reader FROM reports_server.meta", &[]);
        row.await.unwrap().get::<_, i64>(0)
    };
    assert_eq!(least().await, 3, "there is no earlier server");
    put(&bed, saying("all is well", "pass")).await;

    sql("UPDATE reports_server.meta SET min_reader = 1, older_server_at = now()").await;
    put(&bed, saying("nothing is well", "fail")).await;
    assert_eq!(database.frames().await, "2");
    bed.compact(Duration::from_hours(1)).await;
    assert_eq!(least().await, 1, "one may still be there");

    let long_ago = "UPDATE reports_server.meta SET older_server_at = now() - interval '61 minutes'";
    sql(long_ago).await;
    sql("SELECT reports_server.drop_log_v1(1, 1)").await;
    bed.compact(Duration::from_hours(1)).await;
    assert_eq!(least().await, 1, "one has just been there");

    sql(long_ago).await;
    bed.compact(Duration::from_hours(1)).await;
    assert_eq!(least().await, 3);
    let object = saying("all is well again", "pass");
    put(&bed, object.clone()).await;
    assert_eq!(database.frames().await, "2");
    assert_eq!(database.report().await, object);
    bed.close().await;
}

/// The servers of a database that is in use know its earlier migrations only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_in_use_still_takes_earlier_servers() {
    let server = pgtest::Postgres::start(pgtest::PostgresOptions::quick())
        .await
        .unwrap();
    let client = server.client().await.unwrap();
    for statements in [
        "CREATE SCHEMA reports_server",
        include_str!("../../../../migrations/postgres/0001_init.sql"),
        include_str!("../../../../migrations/postgres/0002_departures.sql"),
        "SELECT reports_server.register_v1('in use', '', '', true)",
        include_str!("../../../../migrations/postgres/0003_messages.sql"),
    ] {
        client.batch_execute(statements).await.unwrap();
    }
    let least = "SELECT min_reader, older_server_at > now() - interval '1 hour'
                 FROM reports_server.meta";
    let row = client.query_one(least, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), (1_i64, true));
}
