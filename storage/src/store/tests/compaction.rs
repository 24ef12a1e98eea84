//! Changes of an embedded database that are dropped.

use std::time::Duration;

use sqlx::{Connection as _, SqliteConnection};

use super::Bed;
use super::sqlite::File;

/// Returns a connection beside those of the server.
async fn beside(file: &File) -> SqliteConnection {
    let path = file.path();
    SqliteConnection::connect(path.to_str().unwrap())
        .await
        .unwrap()
}

/// A write that comes meanwhile waits for a transaction.
#[tokio::test]
async fn few_changes_are_dropped_in_one_transaction() {
    let file = File::new();
    let bed = Bed::serving(&file).await;
    for n in 0..250 {
        bed.create(&format!("r{n}"), "u").await.unwrap();
    }
    let mut other = beside(&file).await;
    for statement in [
        "CREATE TABLE remaining (changes INTEGER NOT NULL)",
        "CREATE TRIGGER dropped AFTER UPDATE ON position
         BEGIN INSERT INTO remaining SELECT count(*) FROM changes; END",
    ] {
        sqlx::query(statement).execute(&mut other).await.unwrap();
    }
    bed.compact(Duration::ZERO).await;
    let remaining: Vec<i64> = sqlx::query_scalar("SELECT changes FROM remaining ORDER BY rowid")
        .fetch_all(&mut other)
        .await
        .unwrap();
    assert_eq!(remaining, [50, 0]);
    other.close().await.unwrap();
    bed.close().await;
}

/// The clock was a year ahead when they were committed, and was set back.
#[tokio::test]
async fn changes_from_the_future_are_dropped_with_those_that_came_later() {
    const YEAR: i64 = 365 * 24 * 60 * 60 * 1000;
    let file = File::new();
    let bed = Bed::serving(&file).await;
    let start = bed.store.counter();
    for n in 0..5 {
        bed.create(&format!("r{n}"), "u").await.unwrap();
    }
    let mut other = beside(&file).await;
    let advance = "UPDATE changes SET committed_at = committed_at + ? WHERE name < 'r3'";
    let advanced = sqlx::query(advance).bind(YEAR).execute(&mut other).await;
    assert_eq!(advanced.unwrap().rows_affected(), 3);
    bed.compact(Duration::ZERO).await;
    assert_eq!(bed.reports.horizon(), start + 5);

    // Nothing tells the age of the newest one.
    bed.create("r0-again", "v").await.unwrap();
    let advanced = sqlx::query(advance).bind(YEAR).execute(&mut other).await;
    assert_eq!(advanced.unwrap().rows_affected(), 1);
    bed.compact(Duration::ZERO).await;
    assert_eq!(bed.reports.horizon(), start + 5);
    other.close().await.unwrap();
    bed.close().await;
}
