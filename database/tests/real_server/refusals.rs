use database::{Diagnosis, ServerVersion};
use pgtest::{Pgbouncer, PgbouncerOptions, Postgres, PostgresOptions};

use super::{ask, open, options, parameters, refused};

#[tokio::test]
async fn a_server_is_connected_to_with_settings_in_force_from_the_first_statement() {
    let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let options = options()
        .statement_timeout(std::time::Duration::from_millis(1234))
        .setting("search_path", "\"a b\", c");
    let session = database::establish(&parameters(&server.params()), &options)
        .await
        .unwrap();
    assert!(session.settings_in_force);
    let expected = ServerVersion::parse(server.version()).unwrap().major;
    assert_eq!(session.version.major, expected);
    let (client, _task) = session.spawn();
    for (setting, expected) in [
        ("statement_timeout", "1234ms"),
        ("search_path", "\"a b\", c"),
        ("application_name", "tests"),
    ] {
        let question = format!("SELECT current_setting('{setting}')");
        let rows = client.query_typed(&question, &[]).await.unwrap();
        assert_eq!(rows[0].get::<_, String>(0), expected);
    }
}

#[tokio::test]
async fn each_refusal_says_what_to_mend() {
    let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let good = server.params();

    let (diagnosis, text) = refused(&good.clone().with("password", "wrong")).await;
    assert_eq!(diagnosis, Diagnosis::WrongPassword, "{text}");
    assert!(text.contains("refuses user \"reports\""), "{text}");
    assert!(!text.contains("wrong\""), "no password is shown: {text}");

    let (diagnosis, text) = refused(&good.clone().without("password")).await;
    assert_eq!(diagnosis, Diagnosis::WrongPassword, "{text}");
    assert!(text.contains("but none is given"), "{text}");

    let (diagnosis, text) = refused(&good.clone().with("username", "nobody")).await;
    assert_eq!(diagnosis, Diagnosis::WrongPassword, "{text}");

    let (diagnosis, text) = refused(&good.clone().with("dbname", "nowhere")).await;
    assert_eq!(diagnosis, Diagnosis::MissingDatabase, "{text}");
    assert!(text.contains("has no database \"nowhere\""), "{text}");

    server
        .sql("REVOKE CONNECT ON DATABASE reports FROM PUBLIC; ALTER DATABASE reports OWNER TO postgres; \
              REVOKE ALL ON DATABASE reports FROM reports")
        .await
        .unwrap();
    let (diagnosis, text) = refused(&good).await;
    assert_eq!(diagnosis, Diagnosis::MissingRights, "{text}");
    assert!(
        text.contains("does not let user \"reports\" connect"),
        "{text}"
    );
}

#[tokio::test]
async fn an_old_server_is_refused_by_its_version() {
    let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let mut options = options();
    options.minimum_major = 99;
    let error = database::establish(&parameters(&server.params()), &options)
        .await
        .unwrap_err();
    assert_eq!(error.diagnosis(), Diagnosis::TooOld);
    let text = error.to_string();
    assert!(text.contains("version 99 or newer is needed"), "{text}");
}

#[tokio::test]
async fn a_server_without_a_free_connection_says_so() {
    let options = PostgresOptions::quick().with("max_connections", 8);
    let server = Postgres::start(options).await.unwrap();
    let held = server.exhaust_connections().await.unwrap();
    let (diagnosis, text) = refused(&server.params()).await;
    assert_eq!(diagnosis, Diagnosis::TooManyConnections, "{text}");
    assert!(diagnosis.may_pass());
    drop(held);
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_passed_over() {
    let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
    server.set_read_only(true).await.unwrap();
    // The setting reaches new sessions a moment later.
    let read_only = server.params().with("target_session_attrs", "any");
    let on = "SELECT current_setting('default_transaction_read_only')";
    while ask(open(&read_only).await.unwrap(), on).await != "on" {
        tokio::task::yield_now().await;
    }
    let (diagnosis, text) = refused(&server.params()).await;
    assert_eq!(diagnosis, Diagnosis::ReadOnly, "{text}");
    assert!(
        text.contains("default_transaction_read_only is on"),
        "{text}"
    );
    // It is a primary all the same.
    open(&server.params().with("target_session_attrs", "primary"))
        .await
        .unwrap();
}

#[tokio::test]
async fn of_several_hosts_the_primary_is_found_and_found_again() {
    let first = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let second = Postgres::standby_of(&first).await.unwrap();
    let both = first
        .params()
        .with("host", "127.0.0.1,127.0.0.1")
        .with("port", format!("{},{}", second.port(), first.port()));
    let session = open(&both).await.unwrap();
    assert_eq!(session.endpoint.port, first.port());

    let (diagnosis, text) = refused(&first.params().at_port(second.port())).await;
    assert_eq!(diagnosis, Diagnosis::ReadOnly, "{text}");
    assert!(text.contains("it is a standby"), "{text}");

    first.kill().await.unwrap();
    let (diagnosis, text) = refused(&both).await;
    // The host that answers tells more than the one that does not.
    assert_eq!(diagnosis, Diagnosis::ReadOnly, "{text}");
    assert!(text.contains("cannot be reached"), "{text}");

    second.promote().await.unwrap();
    let session = open(&both).await.unwrap();
    assert_eq!(session.endpoint.port, second.port());
}

#[tokio::test]
async fn a_pooler_that_takes_no_settings_is_used_without_them() {
    let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let pooler = Pgbouncer::start(&server, PgbouncerOptions::default())
        .await
        .unwrap();
    let options = options().statement_timeout(std::time::Duration::from_secs(7));
    let through = parameters(&pooler.params());
    let session = database::establish(&through, &options).await.unwrap();
    assert!(!session.settings_in_force);
    assert_eq!(ask(session, "SELECT current_user::text").await, "reports");

    let (diagnosis, text) = refused(&pooler.params().with("password", "wrong")).await;
    assert_eq!(diagnosis, Diagnosis::WrongPassword, "{text}");
    // A standby behind it is seen, though it does not tell by itself.
    server.demote().await.unwrap();
    let (diagnosis, text) = refused(&pooler.params()).await;
    assert_eq!(diagnosis, Diagnosis::ReadOnly, "{text}");
}
