//! SQLite takes part in the suite, and in what only it has to do.

use std::{path::PathBuf, sync::Arc};

use sqlx::{Connection as _, Row as _, SqliteConnection};
use tempfile::TempDir;

use super::{Bed, Fixture, report, suite};
use crate::store::{OpenError, Store, StoreOptions, engine::Engine, sqlite::Sqlite};

struct File {
    dir: TempDir,
}

impl File {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("reports.db")
    }
}

#[async_trait::async_trait]
impl Fixture for File {
    async fn open(&self) -> Arc<dyn Engine> {
        Arc::new(Sqlite::open(&self.path()).await.unwrap())
    }
}

suite::on_engine!(File::new());

#[test]
fn random_histories_are_kept() {
    super::history::check(&|| Box::new(File::new()));
}

#[test]
fn random_mirrors_are_taken_over() {
    super::mirror::check(&|| Box::new(File::new()));
}

#[tokio::test]
async fn a_second_process_is_refused_in_words() {
    let file = File::new();
    let bed = Bed::open(&file).await;
    let error = Store::open(StoreOptions::new(file.path()))
        .await
        .unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    bed.close().await;
    Store::open(StoreOptions::new(file.path()))
        .await
        .unwrap()
        .close()
        .await;
}

#[tokio::test]
async fn a_newer_database_and_one_that_is_none_are_refused() {
    let file = File::new();
    Bed::open(&file).await.close().await;
    let mut connection = SqliteConnection::connect(file.path().to_str().unwrap())
        .await
        .unwrap();
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'later', 1, x'00', 0)",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    let error = Store::open(StoreOptions::new(file.path()))
        .await
        .unwrap_err();
    assert!(matches!(error, OpenError::Newer(_)), "{error}");

    let other = File::new();
    std::fs::write(
        other.path(),
        "not a database at all, but long enough to look at",
    )
    .unwrap();
    let error = Store::open(StoreOptions::new(other.path()))
        .await
        .unwrap_err();
    assert!(matches!(error, OpenError::Database(_)), "{error}");
}

#[tokio::test]
async fn a_copy_of_the_files_holds_every_acknowledged_write() {
    let file = File::new();
    let bed = Bed::serving(&file).await;
    for i in 0..20 {
        bed.create(&format!("r{i}"), &format!("u{i}"))
            .await
            .unwrap();
    }
    // What a kill leaves behind: the files as they are, the log not folded in, the store still
    // at work.
    let copy = File::new();
    for suffix in ["", "-wal"] {
        let name = format!("reports.db{suffix}");
        std::fs::copy(file.dir.path().join(&name), copy.dir.path().join(&name)).unwrap();
    }
    let other = Bed::open(&copy).await;
    assert_eq!(other.reports.snapshot().len(), 20);
    assert_eq!(other.store.counter(), bed.store.counter());
    bed.close().await;
    other.close().await;
}

#[tokio::test]
async fn bodies_can_be_read_with_sql() {
    let file = File::new();
    let bed = Bed::serving(&file).await;
    bed.create("r", "u").await.unwrap();
    bed.close().await;
    let mut connection = SqliteConnection::connect(file.path().to_str().unwrap())
        .await
        .unwrap();
    let row = sqlx::query("SELECT name, body ->> '$.results[0].result' AS result FROM objects")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(
        (row.get::<&str, _>("name"), row.get::<&str, _>("result")),
        ("r", "a")
    );
    let body: String = sqlx::query_scalar("SELECT body FROM changes")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(body, report("r", "u", "a").to_string());
}

#[tokio::test]
async fn keys_are_found_by_the_index() {
    let file = File::new();
    Bed::open(&file).await.close().await;
    let mut connection = SqliteConnection::connect(file.path().to_str().unwrap())
        .await
        .unwrap();
    for (statement, index) in [
        (
            "SELECT o.uid FROM json_each('[]') k CROSS JOIN objects o WHERE o.resource_id =
             k.value ->> 0 AND o.namespace = k.value ->> 1 AND o.name = k.value ->> 2",
            "USING INDEX objects_key (resource_id=? AND namespace=? AND name=?)",
        ),
        (
            "SELECT c.* FROM changes c LEFT JOIN changes p ON p.resource_id = c.resource_id
             AND p.rv = c.prev_rv AND p.effect <> 2
             WHERE c.resource_id = 1 AND c.rv > 1 AND c.effect <> 2 ORDER BY c.rv LIMIT 5",
            "USING INDEX changes_event (resource_id=? AND rv>?)",
        ),
    ] {
        let plan: Vec<String> = sqlx::query(sqlx::AssertSqlSafe(format!(
            "EXPLAIN QUERY PLAN {statement}"
        )))
        .fetch_all(&mut connection)
        .await
        .unwrap()
        .iter()
        .map(|row| row.get("detail"))
        .collect();
        assert!(plan.iter().any(|line| line.contains(index)), "{plan:?}");
        assert!(
            !plan.iter().any(|line| line.contains("TEMP B-TREE")),
            "{plan:?}"
        );
    }
}
