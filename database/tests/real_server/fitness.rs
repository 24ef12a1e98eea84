use database::{Diagnosis, inspect};
use pgtest::{Pgbouncer, PgbouncerOptions, Postgres, PostgresOptions};
use tokio_postgres::Client;

use super::{Params, open};

async fn server() -> Postgres {
    Postgres::start(PostgresOptions::quick()).await.unwrap()
}

async fn client(params: &Params) -> Client {
    open(params).await.unwrap().spawn().0
}

async fn schemas(client: &Client) -> i64 {
    let question = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'reports%'";
    client.query_typed(question, &[]).await.unwrap()[0].get(0)
}

#[tokio::test]
async fn a_database_of_its_own_is_fit_and_nothing_stays_of_the_question() {
    let server = server().await;
    let client = client(&server.params()).await;
    inspect::fitness(&client).await.unwrap();
    assert_eq!(schemas(&client).await, 0);
    let empty = inspect::contents(&client).await.unwrap();
    assert_eq!((empty.bytes, empty.schema_version), (0, None));

    // As a server leaves it behind.
    client
        .batch_execute(
            "CREATE SCHEMA reports_server; CREATE SCHEMA reports;
             CREATE TABLE reports_server.migrations (version bigint PRIMARY KEY);
             INSERT INTO reports_server.migrations VALUES (1), (3)",
        )
        .await
        .unwrap();
    inspect::fitness(&client).await.unwrap();
    let contents = inspect::contents(&client).await.unwrap();
    assert_eq!(contents.schema_version, Some(3));
    assert!(contents.bytes >= 8192, "{contents:?}");
}

#[tokio::test]
async fn the_clusters_that_are_held_are_named_own_ones_first() {
    let server = server().await;
    let client = client(&server.params()).await;
    let nothing = inspect::held(&client, "own", "uid").await.unwrap();
    assert!(nothing.is_empty(), "{nothing:?}");
    // As a server leaves it behind, as far as it is asked for.
    client
        .batch_execute(
            "CREATE SCHEMA reports_server;
             CREATE TABLE reports_server.clusters (cluster int, identity text, history uuid,
                 cluster_uid text);
             INSERT INTO reports_server.clusters
             SELECT i, 'other' || i, gen_random_uuid(), 'another' FROM generate_series(1, 20) AS i;
             INSERT INTO reports_server.clusters VALUES
                 (21, 'uid', gen_random_uuid(), ''), (22, 'former', gen_random_uuid(), 'uid'),
                 (23, 'own', '6f1c0f0e-3d0e-4f5a-9a51-0d4d7c1b2a33', 'uid');
             CREATE TABLE reports_server.commits (cluster int);
             INSERT INTO reports_server.commits SELECT cluster FROM reports_server.clusters;
             INSERT INTO reports_server.clusters VALUES (24, 'own', gen_random_uuid(), 'uid')",
        )
        .await
        .unwrap();
    let held = inspect::held(&client, "own", "uid").await.unwrap();
    let identities: Vec<&str> = held.iter().map(|held| held.identity.as_str()).collect();
    // The last one is filled by a move, or has moved away.
    assert_eq!(identities[..4], ["own", "uid", "former", "other1"]);
    assert_eq!(held.len(), 10);
    assert_eq!(held[0].history, "6f1c0f0e-3d0e-4f5a-9a51-0d4d7c1b2a33");
    assert_eq!(held[0].cluster_uid, "uid");
}

#[tokio::test]
async fn rights_are_asked_for_through_a_pooler_too() {
    let server = server().await;
    let pooler = Pgbouncer::start(&server, PgbouncerOptions::default())
        .await
        .unwrap();
    let client = client(&pooler.params()).await;
    inspect::fitness(&client).await.unwrap();
    inspect::contents(&client).await.unwrap();
    assert_eq!(schemas(&client).await, 0);
}

#[tokio::test]
async fn each_right_that_is_missing_is_named_with_its_remedy() {
    let server = server().await;
    server
        .sql("ALTER DATABASE reports OWNER TO postgres")
        .await
        .unwrap();
    let client = client(&server.params()).await;
    let unfit = inspect::fitness(&client).await.unwrap_err();
    let text = unfit.to_string();
    assert_eq!(unfit.diagnosis(), Diagnosis::MissingRights, "{text}");
    assert!(
        text.contains("may not create schemas: GRANT CREATE ON DATABASE"),
        "{text}"
    );

    // The session is of use after the question.
    assert_eq!(schemas(&client).await, 0);
    server
        .sql("GRANT CREATE ON DATABASE reports TO reports")
        .await
        .unwrap();
    inspect::fitness(&client).await.unwrap();
}

#[tokio::test]
async fn schemas_of_somebody_else_are_named() {
    let server = server().await;
    let application = client(&server.params()).await;
    let superuser = {
        let params = server.params().without("password");
        let directory = server.socket_directory();
        let params = params
            .with("host", directory.to_str().unwrap())
            .with("username", "postgres");
        client(&params).await
    };
    superuser
        .batch_execute("CREATE SCHEMA reports_server; CREATE SCHEMA reports AUTHORIZATION reports")
        .await
        .unwrap();
    let text = inspect::fitness(&application)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("may not create tables in schema reports_server"),
        "{text}"
    );

    superuser
        .batch_execute(
            "GRANT ALL ON SCHEMA reports_server TO reports; \
             CREATE TABLE reports_server.clusters (cluster int)",
        )
        .await
        .unwrap();
    let unfit = inspect::fitness(&application).await.unwrap_err();
    let text = unfit.to_string();
    assert_eq!(unfit.diagnosis(), Diagnosis::MissingRights, "{text}");
    assert!(text.contains("does not own the tables"), "{text}");
    assert!(text.contains("\"postgres\" does"), "{text}");

    superuser
        .batch_execute(
            "ALTER SCHEMA reports OWNER TO postgres; \
             ALTER TABLE reports_server.clusters OWNER TO reports",
        )
        .await
        .unwrap();
    let text = inspect::fitness(&application)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("may not create views in schema reports"),
        "{text}"
    );
}

#[tokio::test]
async fn an_encoding_that_does_not_take_everything_is_refused() {
    let server = server().await;
    server
        .sql("CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE_PROVIDER libc LOCALE 'C' \
              OWNER reports")
        .await
        .unwrap();
    let client = client(&server.params().with("dbname", "bytes")).await;
    let unfit = inspect::fitness(&client).await.unwrap_err();
    let text = unfit.to_string();
    assert_eq!(unfit.diagnosis(), Diagnosis::Unsuitable, "{text}");
    assert!(
        text.contains("has encoding SQL_ASCII, but UTF8 is needed"),
        "{text}"
    );
}
