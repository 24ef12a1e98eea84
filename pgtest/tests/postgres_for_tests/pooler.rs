use pgtest::{Pgbouncer, PgbouncerOptions, Postgres, PostgresOptions};

use crate::support::{connect, number};

#[tokio::test]
async fn a_pooler_shares_connections_by_transaction() {
    let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let options = PgbouncerOptions {
        pool_size: 1,
        ..PgbouncerOptions::default()
    };
    let pooler = Pgbouncer::start(&server, options).await.unwrap();
    let one = connect(&pooler.params()).await.unwrap();
    let two = connect(&pooler.params()).await.unwrap();
    let pid = "SELECT pg_backend_pid()::bigint";
    assert_eq!(
        number(&one, pid).await.unwrap(),
        number(&two, pid).await.unwrap()
    );
    let wrong = pooler.params().with("password", "wrong");
    connect(&wrong).await.unwrap_err();
}

#[tokio::test]
async fn a_pooler_follows_passwords_servers_and_restarts() {
    let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let mut pooler = Pgbouncer::start(&server, PgbouncerOptions::default())
        .await
        .unwrap();
    server.set_password("another").await.unwrap();
    pooler.set_password("another").unwrap();
    // The signal is handled when the pooler comes to it.
    while connect(&pooler.params()).await.is_err() {}
    let client = connect(&pooler.params()).await.unwrap();
    assert_eq!(number(&client, "SELECT 1::bigint").await.unwrap(), 1);

    let other = Postgres::start(PostgresOptions::quick()).await.unwrap();
    other.set_password("another").await.unwrap();
    other.sql("CREATE TABLE public.other ()").await.unwrap();
    pooler.retarget(&other).unwrap();
    let found = "SELECT count(*) FROM pg_tables WHERE tablename = 'other'";
    while number(&client, found).await.unwrap() == 0 {}

    pooler.restart().await.unwrap();
    number(&client, found).await.unwrap_err();
    let client = connect(&pooler.params()).await.unwrap();
    assert_eq!(number(&client, found).await.unwrap(), 1);
}
