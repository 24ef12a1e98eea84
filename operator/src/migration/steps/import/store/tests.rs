//! Tests against a real PostgreSQL with the tables of kyverno/reports-server.

use database::Diagnosis;
use pgtest::{Postgres, PostgresOptions};

use super::*;

const OWN: &str = "11111111-1111-1111-1111-111111111111";
const OTHER: &str = "22222222-2222-2222-2222-222222222222";

const TABLES: &str = "
    CREATE TABLE clusters (id UUID NOT NULL PRIMARY KEY, name VARCHAR);
    CREATE TABLE policyreports (name VARCHAR NOT NULL, namespace VARCHAR NOT NULL,
        report JSONB NOT NULL, cluster_id UUID NOT NULL, PRIMARY KEY (cluster_id, name, namespace));
    CREATE TABLE clusterpolicyreports (name VARCHAR NOT NULL, report JSONB NOT NULL,
        cluster_id UUID NOT NULL, PRIMARY KEY (cluster_id, name));";

fn table(plural: &str) -> Table {
    Table {
        group: "wgpolicyk8s.io".to_owned(),
        plural: plural.to_owned(),
        kind: "K".to_owned(),
        versions: vec!["v1alpha2".to_owned()],
        namespaced: !plural.starts_with("cluster"),
    }
}

fn tables() -> [Table; 2] {
    [table("policyreports"), table("clusterpolicyreports")]
}

async fn postgres(tables: &str) -> (Postgres, Client) {
    let postgres = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let superuser = postgres.superuser().await.unwrap();
    superuser.batch_execute(tables).await.unwrap();
    superuser
        .batch_execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC")
        .await
        .unwrap();
    (postgres, superuser)
}

async fn open(postgres: &Postgres) -> Store {
    let parameters = Parameters::from_map(postgres.params().to_map()).unwrap();
    let options = ConnectOptions::new("test");
    Store::connect(&parameters, options, OWN).await.unwrap()
}

/// Returns the keys and sizes of all rows, page by page.
async fn pages(store: &mut Store, table: &Table, limit: u32) -> Vec<Vec<(String, bool)>> {
    let mut place = Place::default();
    let mut pages = Vec::new();
    loop {
        let rows = store.page(table, &place, limit).await.unwrap();
        let Some(last) = rows.last() else {
            return pages;
        };
        place = Place::of(last);
        let row = |row: &Row| (row.key.to_string(), row.report.is_some());
        pages.push(rows.iter().map(row).collect());
    }
}

fn keys(pages: Vec<Vec<(String, bool)>>) -> Vec<String> {
    pages.into_iter().flatten().map(|(key, _)| key).collect()
}

#[tokio::test]
async fn rows_of_one_cluster_are_read_page_by_page_in_the_order_of_the_key() {
    let (postgres, superuser) = postgres(TABLES).await;
    let rows = format!(
        "INSERT INTO policyreports SELECT 'r' || n, 'ns' || m, '{{}}', '{OWN}'
             FROM generate_series(1, 5) n, generate_series(1, 3) m;
         INSERT INTO policyreports VALUES ('r0', 'ns1', '{{}}', '{OTHER}');
         INSERT INTO clusterpolicyreports SELECT 'c' || n, '{{}}', '{OWN}'
             FROM generate_series(1, 5) n;"
    );
    superuser.batch_execute(&rows).await.unwrap();
    let mut store = open(&postgres).await;
    store.check(&tables()).await.unwrap();
    let found = pages(&mut store, &table("policyreports"), 4).await;
    let lengths: Vec<usize> = found.iter().map(Vec::len).collect();
    assert_eq!(lengths, [4, 4, 4, 3]);
    let all = keys(found);
    assert_eq!(all[..4], ["ns1/r1", "ns2/r1", "ns3/r1", "ns1/r2"]);
    let wanted: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(wanted.len(), 15);
    let of_cluster = keys(pages(&mut store, &table("clusterpolicyreports"), 2).await);
    assert_eq!(of_cluster, ["c1", "c2", "c3", "c4", "c5"]);
}

#[tokio::test]
async fn a_page_is_bounded_by_its_bytes_and_a_report_that_is_too_large_is_not_read() {
    let (postgres, superuser) = postgres(TABLES).await;
    let rows = format!(
        "INSERT INTO clusterpolicyreports SELECT name, to_jsonb(repeat('x', size)), '{OWN}'
         FROM (VALUES ('a', 1000000), ('b', 1000000), ('c', 1000000), ('d', 4000000), ('e', 2500000),
             ('f', 10)) AS t (name, size)"
    );
    superuser.batch_execute(&rows).await.unwrap();
    let mut store = open(&postgres).await;
    let found = pages(&mut store, &table("clusterpolicyreports"), 100).await;
    let row = |name: &str, read| (name.to_owned(), read);
    let wanted = [
        vec![row("a", true), row("b", true)],
        vec![row("c", true), row("d", false)],
        vec![row("e", true)],
        vec![row("f", true)],
    ];
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn a_database_of_other_clusters_is_refused_with_their_names() {
    let (postgres, superuser) = postgres(TABLES).await;
    let mut store = open(&postgres).await;
    store.check(&tables()).await.unwrap();
    let rows = format!("INSERT INTO clusterpolicyreports VALUES ('a', '{{}}', '{OTHER}')");
    superuser.batch_execute(&rows).await.unwrap();
    let error = store.check(&tables()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&format!("{OTHER} (1 rows)")), "{text}");
    // A cluster that is known there has no reports of this group.
    let own = format!("INSERT INTO clusters VALUES ('{OWN}', '')");
    superuser.batch_execute(&own).await.unwrap();
    store.check(&tables()).await.unwrap();
}

#[tokio::test]
async fn a_database_without_the_tables_is_refused_and_the_first_is_named() {
    let (postgres, superuser) = postgres("").await;
    let mut store = open(&postgres).await;
    let named = |error: ImportError| match error {
        ImportError::NoTable { table, column, .. } => (table, column),
        other => panic!("{other}"),
    };
    let error = store.check(&tables()).await.unwrap_err();
    assert_eq!(named(error), ("policyreports".to_owned(), "name"));
    // From before rows had a cluster.
    let old = "CREATE TABLE policyreports (name VARCHAR, namespace VARCHAR, report JSONB)";
    superuser.batch_execute(old).await.unwrap();
    let error = store.check(&tables()).await.unwrap_err();
    assert_eq!(named(error), ("policyreports".to_owned(), "cluster_id"));
}

#[tokio::test]
async fn nothing_can_be_written() {
    let (postgres, superuser) = postgres(TABLES).await;
    superuser
        .batch_execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC")
        .await
        .unwrap();
    let mut store = open(&postgres).await;
    let transaction = store.read().await.unwrap();
    let error = transaction
        .execute("DELETE FROM clusters", &[])
        .await
        .unwrap_err();
    assert_eq!(Diagnosis::of(&error), Diagnosis::ReadOnly);
}
