//! Copies of an embedded database that are made while it is in use, and the return to them.

use std::path::{Path, PathBuf};
use std::sync::mpsc;

use crds::control::{GateState, ImportMode, ImportType};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};

use super::sqlite::{File, create_for_ever};
use super::{Bed, begins_above_etcd, item, key};
use crate::store::{OpenError, RestoreError, Store, StoreError, StoreOptions, Vacancy};

/// Makes the database at `path` of a copy.
async fn restore(copy: &Path, path: &Path, same_cluster: bool) -> Result<u64, RestoreError> {
    Vacancy::take(path).await?.fill(copy, same_cluster).await
}

/// Makes a copy beside the database of `other`.
async fn copied(bed: &Bed, other: &File) -> PathBuf {
    let copy = other.path().with_extension("restoring");
    bed.store.write_copy(&copy).await.unwrap();
    copy
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_made_amid_writes_has_all_that_were_answered_before() {
    let (file, other) = (File::new(), File::new());
    let bed = Bed::serving(&file).await;
    let (sender, acknowledged) = mpsc::channel();
    let write = |writer| tokio::spawn(create_for_ever(bed.store.clone(), writer, sender.clone()));
    let writers: Vec<_> = (0..4).map(write).collect();
    let before: Vec<(String, u64)> = acknowledged.iter().take(100).collect();
    let copy = copied(&bed, &other).await;
    let counter = bed.store.counter();
    // Writes went on, and go on.
    let after: Vec<(String, u64)> = acknowledged.iter().take(100).collect();
    assert_eq!(after.len(), 100);
    for writer in writers {
        writer.abort();
    }
    let objects = restore(&copy, &other.path(), true).await.unwrap();
    let restored = Bed::open(&other).await;
    for (name, rv) in &before {
        let found = restored.reports.get(&key(name)).map(|object| object.rv);
        assert_eq!(found, Some(*rv), "{name}");
    }
    // It is one moment: what a writer wrote later is not there without what it wrote before.
    let mut present = 0;
    for writer in 0..4 {
        let written = (0..).take_while(|i| {
            let name = format!("w{writer}-{i}");
            restored.reports.get(&key(&name)).is_some()
        });
        present += written.count();
    }
    assert_eq!(restored.reports.snapshot().len(), present);
    assert_eq!(u64::try_from(present).unwrap(), objects);
    // Clients may hold versions that were given after the copy was made.
    assert!(restored.store.counter() > counter + 1000);
    assert!(restored.reports.events_from(counter).is_err());
    let written = restored.create("later", "u").await.unwrap();
    assert!(written.rv() > counter);
    restored.close().await;
    bed.close().await;
}

/// The counter of the server that is gone had followed etcd, which wrote more than clients did.
#[tokio::test]
async fn a_copy_that_is_put_back_begins_above_etcd() {
    let (file, other) = (File::new(), File::new());
    let bed = Bed::serving(&file).await;
    bed.create("r", "u").await.unwrap();
    let copy = copied(&bed, &other).await;
    bed.close().await;
    restore(&copy, &other.path(), true).await.unwrap();
    begins_above_etcd(&other).await;
}

#[rstest::rstest]
#[case::the_same_cluster(true)]
#[case::another_cluster(false)]
#[tokio::test]
async fn marks_are_about_the_etcd_of_one_cluster(#[case] same: bool) {
    let (file, other) = (File::new(), File::new());
    let bed = Bed::open(&file).await;
    let imported = vec![item(ImportType::Object, "r", "u", "a", 7)];
    bed.import(ImportMode::Mirror, imported).await.unwrap();
    bed.gate(GateState::Open).await;
    let copy = copied(&bed, &other).await;
    bed.close().await;
    assert_eq!(restore(&copy, &other.path(), same).await.unwrap(), 1);
    let restored = Bed::open(&other).await;
    assert_eq!(restored.reports.record().imported, u64::from(same));
    let id = restored.reports.record().id;
    let marks = restored.store.engine().marks(id, None, 10).await.unwrap();
    assert_eq!(marks.len(), usize::from(same));
    assert!(restored.reports.get(&key("r")).is_some());
    restored.close().await;
}

#[tokio::test]
async fn no_database_in_use_is_overwritten() {
    let (file, other) = (File::new(), File::new());
    let bed = Bed::serving(&file).await;
    bed.create("r", "u").await.unwrap();
    let copy = copied(&bed, &other).await;
    bed.close().await;
    // An empty one, which a server has begun, is replaced.
    Bed::serving(&other).await.close().await;
    restore(&copy, &other.path(), true).await.unwrap();
    let restored = Bed::open(&other).await;
    assert!(restored.reports.get(&key("r")).is_some());
    let again = copied(&restored, &other).await;
    // Nor is one that a server has open.
    let error = restore(&again, &other.path(), true).await.unwrap_err();
    assert!(matches!(error, RestoreError::Present { .. }), "{error}");
    restored.close().await;
    let error = restore(&again, &other.path(), true).await.unwrap_err();
    assert!(
        matches!(error, RestoreError::Occupied { objects: 1, .. }),
        "{error}"
    );
}

/// A server that opened it would lose all that it wrote when the copy takes its place.
#[rstest::rstest]
#[case::nothing_is_there(false)]
#[case::an_empty_one_is_there(true)]
#[tokio::test]
async fn nobody_opens_the_place_of_a_restore(#[case] exists: bool) {
    let (file, other) = (File::new(), File::new());
    let bed = Bed::serving(&file).await;
    bed.create("r", "u").await.unwrap();
    let copy = copied(&bed, &other).await;
    bed.close().await;
    if exists {
        Bed::serving(&other).await.close().await;
    }
    let vacancy = Vacancy::take(&other.path()).await.unwrap();
    let error = Store::open(StoreOptions::new(other.path())).await.err();
    assert!(matches!(error, Some(OpenError::Locked { .. })), "{error:?}");
    // Nor does another restore.
    let error = Vacancy::take(&other.path()).await.unwrap_err();
    assert!(matches!(error, RestoreError::Present { .. }), "{error}");
    assert_eq!(vacancy.fill(&copy, true).await.unwrap(), 1);
    Bed::open(&other).await.close().await;
}

#[rstest::rstest]
#[case::no_database("not a database at all, but long enough to look at")]
#[case::nothing("")]
#[tokio::test]
async fn what_is_no_copy_is_refused(#[case] content: &str) {
    let other = File::new();
    let copy = other.path().with_extension("restoring");
    std::fs::write(&copy, content).unwrap();
    let error = restore(&copy, &other.path(), true).await.unwrap_err();
    assert!(matches!(error, RestoreError::Copy(_)), "{error}");
    assert!(!other.path().exists());
}

#[tokio::test]
async fn a_database_of_something_else_is_refused() {
    let other = File::new();
    let copy = other.path().with_extension("restoring");
    let options = SqliteConnectOptions::new()
        .filename(&copy)
        .create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    sqlx::query("CREATE TABLE objects (id INTEGER PRIMARY KEY)")
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    let error = restore(&copy, &other.path(), true).await.unwrap_err();
    assert!(
        error.to_string().contains("no database of reports"),
        "{error}"
    );
    assert!(!other.path().exists());
}

/// Changes a database beside its server.
async fn execute(path: &Path, statement: &'static str) {
    let mut connection = SqliteConnection::connect(path.to_str().unwrap())
        .await
        .unwrap();
    let done = sqlx::query(statement).execute(&mut connection).await;
    assert_eq!(done.unwrap().rows_affected(), 1);
    connection.close().await.unwrap();
}

/// No server starts with such a text, and SQLite's own checks do not see it.
#[rstest::rstest]
#[case::no_frame("UPDATE objects SET body = substr(body, 1, length(body) - 1) WHERE name = 'r'")]
#[case::another_text("UPDATE objects SET body = '{' WHERE name = 'r'")]
#[tokio::test]
async fn a_damaged_text_is_neither_copied_nor_restored(#[case] damage: &'static str) {
    let (file, other) = (File::new(), File::new());
    let bed = Bed::serving(&file).await;
    for name in ["a", "r", "z"] {
        bed.create(name, "u").await.unwrap();
    }
    execute(&file.path(), damage).await;
    let copy = other.path().with_extension("restoring");
    let error = bed.store.write_copy(&copy).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error}");
    for part in ["reports.example.io ns/r: its text", "change an annotation"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    // As told.
    bed.update("r", "u", "b", None).await.unwrap();
    std::fs::remove_file(&copy).unwrap();
    bed.store.write_copy(&copy).await.unwrap();
    bed.close().await;

    execute(&copy, damage).await;
    let error = restore(&copy, &other.path(), true).await.unwrap_err();
    assert!(matches!(error, RestoreError::Copy(_)), "{error}");
    let named = error.to_string().contains("reports.example.io ns/r");
    assert!(named, "{error}");
    assert!(!other.path().exists());
}

/// The newest writes are in the log until it is folded in.
#[tokio::test]
async fn a_file_that_was_copied_without_its_log_is_refused() {
    let (file, other) = (File::new(), File::new());
    Bed::serving(&file).await.close().await;
    let bed = Bed::open(&file).await;
    bed.create("r", "u").await.unwrap();
    let copy = other.path().with_extension("restoring");
    std::fs::copy(file.path(), &copy).unwrap();
    let error = restore(&copy, &other.path(), true).await.unwrap_err();
    assert!(error.to_string().contains("write-ahead log"), "{error}");
    assert!(!other.path().exists());
    bed.close().await;
}

#[rstest::rstest]
#[case::missing(false)]
#[case::empty(true)]
#[tokio::test]
async fn a_copy_takes_the_place_of_a_database_that_was_lost(#[case] empty: bool) {
    let (file, other) = (File::new(), File::new());
    let bed = Bed::serving(&file).await;
    bed.create("r", "u").await.unwrap();
    let copy = copied(&bed, &other).await;
    bed.close().await;
    let open = || Store::open(StoreOptions::new(other.path()));
    open().await.unwrap().close().await;
    std::fs::remove_file(other.path()).unwrap();
    if empty {
        std::fs::write(other.path(), "").unwrap();
    }
    // A copy that cannot be used leaves the place as it is.
    let broken = other.path().with_extension("broken");
    std::fs::write(&broken, "").unwrap();
    restore(&broken, &other.path(), true).await.unwrap_err();
    let error = open().await.unwrap_err();
    assert!(matches!(error, OpenError::Lost { .. }), "{error}");
    assert_eq!(restore(&copy, &other.path(), true).await.unwrap(), 1);
    open().await.unwrap().close().await;
}

/// A move that was begun before the copy was made belongs to the database that is lost.
#[tokio::test]
async fn a_move_is_not_continued() {
    let (file, other) = (File::new(), File::new());
    let bed = Bed::serving(&file).await;
    let mut connection = SqliteConnection::connect(file.path().to_str().unwrap())
        .await
        .unwrap();
    sqlx::query(
        "INSERT INTO moves (id, source, attempt, identity, name) VALUES (1, 's', 1, 'i', '')",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    let copy = copied(&bed, &other).await;
    bed.close().await;
    restore(&copy, &other.path(), true).await.unwrap();
    let mut connection = SqliteConnection::connect(other.path().to_str().unwrap())
        .await
        .unwrap();
    let moves: i64 = sqlx::query_scalar("SELECT count(*) FROM moves")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(moves, 0);
    connection.close().await.unwrap();
}
