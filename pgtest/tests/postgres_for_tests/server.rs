use std::time::{Duration, Instant};

use pgtest::{Authority, Postgres, PostgresOptions, Tls};
use tempfile::tempdir;

use crate::support::{connect, number, psql};

#[tokio::test]
async fn a_server_starts_quickly_and_leaves_nothing() {
    drop(Postgres::start(PostgresOptions::default()).await.unwrap());
    // The template exists by now.
    let began = Instant::now();
    let server = Postgres::start(PostgresOptions::default()).await.unwrap();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}");
    let client = connect(&server.params()).await.unwrap();
    client
        .batch_execute("CREATE SCHEMA mine; CREATE TABLE mine.t (id int)")
        .await
        .unwrap();
    let row = client
        .query_one("SELECT current_setting('fsync'), 'a' < 'B', usesuper FROM pg_user WHERE usename = current_user", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, String>(0), "on");
    assert!(row.get::<_, bool>(1), "text is to sort by language");
    assert!(!row.get::<_, bool>(2));
    let (data, port) = (server.data(), server.port());
    drop(server);
    assert!(!data.exists());
    std::net::TcpStream::connect(("127.0.0.1", port)).unwrap_err();
}

#[tokio::test]
async fn servers_stand_side_by_side() {
    let one = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let two = Postgres::start(PostgresOptions::quick()).await.unwrap();
    one.sql("CREATE TABLE only_here (id int)").await.unwrap();
    two.sql("SELECT * FROM only_here").await.unwrap_err();
    connect(&two.params().with("password", one.password()))
        .await
        .unwrap_err();
}

#[tokio::test]
async fn settings_of_a_test_win() {
    let options = PostgresOptions::quick()
        .with("fsync", "on")
        .with("application_name", "it's");
    let server = Postgres::start(options).await.unwrap();
    let client = server.superuser().await.unwrap();
    let row = client
        .query_one("SELECT current_setting('fsync')", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, String>(0), "on");
}

#[tokio::test]
async fn a_password_changes_for_new_connections() {
    let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let old = server.params();
    let open = connect(&old).await.unwrap();
    server.set_password("another").await.unwrap();
    connect(&old).await.unwrap_err();
    connect(&server.params()).await.unwrap();
    assert_eq!(number(&open, "SELECT 1::bigint").await.unwrap(), 1);
}

#[tokio::test]
async fn tls_is_required_and_verified() {
    let options = PostgresOptions::quick().with_tls(Tls::Required);
    let server = Postgres::start(options).await.unwrap();
    let directory = tempdir().unwrap();
    let params = server.params();
    assert_eq!(params.get("sslmode"), Some("verify-full"));
    assert_eq!(
        psql(&params, directory.path()).await.unwrap(),
        "true reports"
    );
    let plain = params.clone().without("ca.crt").with("sslmode", "disable");
    let refused = psql(&plain, directory.path()).await.unwrap_err();
    assert!(refused.contains("no encryption"), "{refused}");
    let stranger = Authority::new("a stranger").unwrap();
    let params = params.with("ca.crt", stranger.pem());
    let refused = psql(&params, directory.path()).await.unwrap_err();
    assert!(refused.contains("certificate verify failed"), "{refused}");
    // Now it is the server that changes sides.
    let pair = stranger.server(&["127.0.0.1"]).unwrap();
    server.set_certificate(&pair).await.unwrap();
    assert_eq!(
        psql(&params, directory.path()).await.unwrap(),
        "true reports"
    );
    let pair = stranger.server(&["elsewhere.example"]).unwrap();
    server.set_certificate(&pair).await.unwrap();
    let refused = psql(&params, directory.path()).await.unwrap_err();
    assert!(refused.contains("does not match host name"), "{refused}");
}

#[tokio::test]
async fn client_certificates_take_the_place_of_passwords() {
    let options = PostgresOptions::quick().with_tls(Tls::ClientCertificate);
    let server = Postgres::start(options).await.unwrap();
    let directory = tempdir().unwrap();
    let params = server.params();
    assert_eq!(params.get("password"), None);
    assert_eq!(
        psql(&params, directory.path()).await.unwrap(),
        "true reports"
    );
    let other = server.authority().unwrap().client("somebody").unwrap();
    let wrong = params
        .clone()
        .with("tls.crt", other.certificate)
        .with("tls.key", other.key);
    let refused = psql(&wrong, directory.path()).await.unwrap_err();
    assert!(
        refused.contains("certificate authentication failed"),
        "{refused}"
    );
    let authority = Authority::new("the next").unwrap();
    server.set_client_authorities(&[&authority]).await.unwrap();
    psql(&params, directory.path()).await.unwrap_err();
    let pair = authority.client("reports").unwrap();
    let params = params
        .with("tls.crt", pair.certificate)
        .with("tls.key", pair.key);
    assert_eq!(
        psql(&params, directory.path()).await.unwrap(),
        "true reports"
    );
}
