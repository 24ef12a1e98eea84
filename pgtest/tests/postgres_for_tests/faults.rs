use std::time::Duration;

use pgtest::{Disk, Postgres, PostgresOptions, Shutdown, Timeline};
use tokio_postgres::error::SqlState;

use crate::support::{connect, number};

const COUNT: &str = "SELECT count(*) FROM t";

async fn server_with_a_table(options: PostgresOptions) -> Postgres {
    let server = Postgres::start(options).await.unwrap();
    let client = server.client().await.unwrap();
    let sql =
        "CREATE SCHEMA s; CREATE TABLE s.t (id bigint); ALTER ROLE reports SET search_path = s";
    client.batch_execute(sql).await.unwrap();
    server
}

async fn insert(server: &Postgres, rows: u32) {
    let client = server.client().await.unwrap();
    let sql = format!("INSERT INTO t SELECT generate_series(1, {rows})");
    client.batch_execute(&sql).await.unwrap();
}

async fn count(server: &Postgres) -> i64 {
    number(&server.client().await.unwrap(), COUNT)
        .await
        .unwrap()
}

#[tokio::test]
async fn stops_and_kills_keep_what_was_committed() {
    let server = server_with_a_table(PostgresOptions::default()).await;
    let port = server.port();
    insert(&server, 1).await;
    server.restart(Shutdown::Fast).await.unwrap();
    insert(&server, 1).await;
    server.restart(Shutdown::Immediate).await.unwrap();
    insert(&server, 1).await;
    let open = connect(&server.params()).await.unwrap();
    server.kill().await.unwrap();
    number(&open, COUNT).await.unwrap_err();
    server.client().await.unwrap_err();
    server.start_again().await.unwrap();
    assert_eq!(count(&server).await, 3);
    assert_eq!(server.port(), port);
}

#[tokio::test]
async fn a_paused_server_answers_later() {
    let server = server_with_a_table(PostgresOptions::quick()).await;
    let client = connect(&server.params()).await.unwrap();
    server.pause().unwrap();
    let answer = number(&client, COUNT);
    tokio::pin!(answer);
    tokio::time::timeout(Duration::from_millis(300), &mut answer)
        .await
        .unwrap_err();
    server.resume().unwrap();
    assert_eq!(answer.await.unwrap(), 0);
}

#[tokio::test]
async fn connections_run_out_and_come_back() {
    let options = PostgresOptions::quick().with("max_connections", 10);
    let server = server_with_a_table(options).await;
    let held = server.exhaust_connections().await.unwrap();
    assert!((1..=10).contains(&held.count()), "{}", held.count());
    let refused = connect(&server.params()).await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::TOO_MANY_CONNECTIONS));
    drop(held);
    while connect(&server.params()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn connections_are_ended() {
    let server = server_with_a_table(PostgresOptions::quick()).await;
    let client = connect(&server.params()).await.unwrap();
    assert!(server.terminate_connections().await.unwrap() >= 1);
    number(&client, COUNT).await.unwrap_err();
    connect(&server.params()).await.unwrap();
}

#[tokio::test]
async fn a_read_only_server_refuses_writes() {
    let server = server_with_a_table(PostgresOptions::quick()).await;
    server.set_read_only(true).await.unwrap();
    let client = connect(&server.params()).await.unwrap();
    let refused = client
        .batch_execute("INSERT INTO t VALUES (1)")
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::READ_ONLY_SQL_TRANSACTION));
    server.set_read_only(false).await.unwrap();
    insert(&server, 1).await;
    server.demote().await.unwrap();
    let client = connect(&server.params()).await.unwrap();
    let refused = client
        .batch_execute("INSERT INTO t VALUES (1)")
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::READ_ONLY_SQL_TRANSACTION));
    assert_eq!(number(&client, COUNT).await.unwrap(), 1);
    server.promote().await.unwrap();
    insert(&server, 1).await;
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_it_is_freed() {
    let options = PostgresOptions::default()
        .with("max_wal_size", "64MB")
        .on(Disk::Limited { megabytes: 200 });
    let server = server_with_a_table(options).await;
    insert(&server, 10).await;
    server.fill_disk().unwrap();
    let client = server.client().await.unwrap();
    let many = "INSERT INTO t SELECT generate_series(1, 1000000)";
    client.batch_execute(many).await.unwrap_err();
    server.free_disk().unwrap();
    // A log that cannot be written ends the server; it recovers by itself or not at all.
    if server.superuser().await.is_err() {
        server.wait_end().await.unwrap();
        server.start_again().await.unwrap();
    }
    assert_eq!(count(&server).await, 10);
    insert(&server, 10).await;
}

#[tokio::test]
async fn a_backup_brings_the_past_back() {
    for timeline in [Timeline::Same, Timeline::New] {
        let server = server_with_a_table(PostgresOptions::default()).await;
        insert(&server, 1).await;
        let backup = server.backup().await.unwrap();
        insert(&server, 5).await;
        server.restore(&backup, timeline).await.unwrap();
        assert_eq!(count(&server).await, 1);
        insert(&server, 1).await;
        assert_eq!(count(&server).await, 2);
        let client = server.superuser().await.unwrap();
        let sql = "SELECT timeline_id::bigint FROM pg_control_checkpoint()";
        client.batch_execute("CHECKPOINT").await.unwrap();
        let expected = if timeline == Timeline::New { 2 } else { 1 };
        assert_eq!(number(&client, sql).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_standby_follows_and_takes_over() {
    let primary = server_with_a_table(PostgresOptions::quick()).await;
    insert(&primary, 1).await;
    let standby = Postgres::standby_of(&primary).await.unwrap();
    insert(&primary, 1).await;
    while count(&standby).await < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let client = connect(&standby.params()).await.unwrap();
    client
        .batch_execute("INSERT INTO t VALUES (1)")
        .await
        .unwrap_err();
    primary.stop(Shutdown::Immediate).await.unwrap();
    standby.promote().await.unwrap();
    insert(&standby, 1).await;
    assert_eq!(count(&standby).await, 3);
}
