use std::fs;

use http::StatusCode;
use storage::store::{Store, StoreOptions, Vacancy};

use crate::harness::*;

const COPY: &str = "/apis/control.reports-server.io/v1alpha1/databases/database/copy";

#[tokio::test]
async fn a_copy_is_the_database_with_every_report() {
    let server = Server::start().await;
    for name in ["a", "b", "c"] {
        server.created(name).await;
    }
    let copy = server.get(COPY).await.expect(200);
    assert_eq!(copy.headers["content-type"], "application/vnd.sqlite3");
    let length = copy.headers["content-length"].to_str().unwrap();
    assert_eq!(length, copy.body.len().to_string());
    // The file that it was written to is gone.
    assert!(!server.dir.path().join("copy.db").exists());
    server.delete(&format!("{REPORTS}/b")).await.expect(200);

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reports.db");
    let received = directory.path().join("received");
    fs::write(&received, &copy.body).unwrap();
    let vacancy = Vacancy::take(&path).await.unwrap();
    assert_eq!(vacancy.fill(&received, true).await.unwrap(), 3);
    let restored = Store::open(StoreOptions::new(path)).await.unwrap();
    let resources = restored.resources();
    let objects: usize = resources.iter().map(|r| r.snapshot().len()).sum();
    assert_eq!(objects, 3);
    restored.close().await;
}

#[tokio::test]
async fn one_copy_is_made_at_a_time() {
    let server = Server::start().await;
    let first = server.request("GET", COPY).response().await;
    assert_eq!(first.status(), StatusCode::OK);
    let second = server.get(COPY).await.expect(429);
    assert!(second.headers.contains_key("retry-after"));
    drop(first);
    server.get(COPY).await.expect(200);
}

#[tokio::test]
async fn nothing_else_is_copied() {
    let server = Server::start().await;
    let other = COPY.replace("/database/", "/other/");
    server.get(&other).await.expect(404);
    server.post(COPY, &report("a")).await.expect(405);
    server.delete(COPY).await.expect(405);
}
