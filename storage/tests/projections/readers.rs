//! Who may read what.

use std::sync::Arc;

use pgtest::{Postgres, PostgresOptions};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use super::bed::{Bed, store};
use super::manual::Manual;

/// Gives the group role a login, and connects as it.
pub async fn reader(server: &Postgres) -> Client {
    server
        .sql("ALTER ROLE reports_reader LOGIN PASSWORD 'secret'")
        .await
        .unwrap();
    let config = format!(
        "host={} port={} user=reports_reader password=secret dbname={}",
        server.socket_directory().display(),
        server.port(),
        pgtest::DATABASE,
    );
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn reads_views_and_nothing_else(server: &Postgres) {
    let client = reader(server).await;
    for view in [
        "clusters",
        "policy_reports",
        "results",
        "findings",
        "summary",
        "summary_by_policy",
        "summary_by_namespace",
    ] {
        let query = format!("SELECT * FROM reports.{view} LIMIT 1");
        client.query(&query, &[]).await.unwrap();
    }
    for table in ["changes", "objects", "findings", "clusters"] {
        let query = format!("SELECT 1 FROM reports_server.{table} LIMIT 1");
        let error = client.query(&query, &[]).await.unwrap_err();
        assert_eq!(
            error.code(),
            Some(&SqlState::INSUFFICIENT_PRIVILEGE),
            "{table}"
        );
    }
    for (setting, want) in [
        ("statement_timeout", "1min"),
        ("idle_in_transaction_session_timeout", "1min"),
        ("default_transaction_read_only", "on"),
    ] {
        let row = client
            .query_one(&format!("SHOW {setting}"), &[])
            .await
            .unwrap();
        assert_eq!(row.get::<_, &str>(0), want, "{setting}");
    }
}

/// Returns whether the role exists.
async fn role_exists(server: &Postgres) -> bool {
    let client = server.superuser().await.unwrap();
    let query = "SELECT to_regrole('reports_reader') IS NOT NULL";
    client.query_one(query, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn without_the_right_to_make_roles_an_administrator_makes_the_reader() {
    let bed = Bed::open().await;
    assert!(!role_exists(&bed.server).await);
    for statements in Manual::read().blocks("sql administrator") {
        bed.server.sql(&statements).await.unwrap();
    }
    reads_views_and_nothing_else(&bed.server).await;
    bed.store.close().await;
}

#[tokio::test]
async fn the_reader_is_made_where_roles_may_be_made() {
    let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let server = Arc::new(server);
    server
        .sql(&format!("ALTER ROLE {} CREATEROLE", pgtest::USER))
        .await
        .unwrap();
    let store = store(&server, "kind").await;
    assert!(role_exists(&server).await);
    reads_views_and_nothing_else(&server).await;
    store.close().await;
}
