use std::time::{Duration, Instant};

use database::Diagnosis;
use pgtest::{Postgres, PostgresOptions, Proxy, Shutdown};

use super::{open, refused};

#[tokio::test]
async fn nobody_there_and_nobody_answering_are_told_in_bounded_time() {
    let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let through = server.params().at_port(proxy.port());
    open(&through).await.unwrap();

    proxy.black_hole();
    let began = Instant::now();
    let (diagnosis, text) = refused(&through).await;
    assert_eq!(diagnosis, Diagnosis::Unreachable, "{text}");
    assert!(text.contains("did not answer within 2 s"), "{text}");
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    proxy.release();

    proxy.refuse(true);
    let (diagnosis, text) = refused(&through).await;
    assert_eq!(diagnosis, Diagnosis::Unreachable, "{text}");
    proxy.refuse(false);
    open(&through).await.unwrap();

    server.pause().unwrap();
    let (diagnosis, text) = refused(&server.params()).await;
    assert_eq!(diagnosis, Diagnosis::Unreachable, "{text}");
    server.resume().unwrap();
    open(&server.params()).await.unwrap();

    server.stop(Shutdown::Fast).await.unwrap();
    let (diagnosis, text) = refused(&server.params()).await;
    assert_eq!(diagnosis, Diagnosis::Unreachable, "{text}");
    assert!(text.contains("cannot be reached"), "{text}");
}

#[tokio::test]
async fn a_name_that_nobody_knows_is_told() {
    let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let (diagnosis, text) = refused(&server.params().with("host", "nowhere.invalid")).await;
    assert_eq!(diagnosis, Diagnosis::Unreachable, "{text}");
    assert!(text.contains("PostgreSQL at nowhere.invalid:"), "{text}");
}

#[tokio::test]
async fn a_unix_socket_needs_no_tls() {
    let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let directory = server.socket_directory();
    let params = server
        .params()
        .with("host", directory.to_str().unwrap())
        .without("sslmode");
    open(&params).await.unwrap();
}
