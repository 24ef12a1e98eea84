//! SQLite takes part in the suite, and in tests of its own.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use sqlx::{AssertSqlSafe, Connection as _, Row as _, SqliteConnection};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{Bed, Fixture, compression, key, report, reports, suite};
use crate::model::{ResourceId, packed};
use crate::store::engine::Engine;
use crate::store::moving::rows::RowKey;
use crate::store::moving::source::{Source as _, SourceSnapshot};
use crate::store::sqlite::Sqlite;
use crate::store::sqlite::moving::Leaving;
use crate::store::{
    Database, MoveOptions, OpenError, Store, StoreError, StoreOptions, Write, WriteError,
};

/// A file in a directory of its own.
pub(super) struct File {
    dir: TempDir,
}

impl File {
    pub(super) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.path().join("reports.db")
    }
}

#[async_trait::async_trait]
impl Fixture for File {
    async fn open(&self) -> Arc<dyn Engine> {
        Arc::new(Sqlite::open(&self.path()).await.unwrap())
    }

    fn logged(&self, text: &str) -> usize {
        packed::pack(text).unwrap().len()
    }
}

suite::on_engine!(File::new());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_falls_and_no_text_changes() {
    compression::memory_falls_and_no_text_changes(&File::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_objects_use_the_newest_dictionary() {
    compression::new_objects_use_the_newest_dictionary(&File::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_and_writes_go_on_while_objects_are_compressed_anew() {
    compression::reads_and_writes_go_on_meanwhile(&File::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_while_it_was_compressed_anew_stays() {
    compression::what_was_written_meanwhile_stays(&File::new()).await;
}

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

#[rstest::rstest]
#[tokio::test]
async fn a_database_that_is_lost_is_not_begun_anew(
    #[values(false, true)] empty: bool,
    #[values(false, true)] movable: bool,
) {
    let file = File::new();
    let open = || {
        let database = if movable {
            let orders = file.dir.path().join("move");
            Database::Movable(MoveOptions::new(file.path(), orders))
        } else {
            Database::Sqlite(file.path())
        };
        Store::open(StoreOptions::on(database))
    };
    for _ in 0..2 {
        open().await.unwrap().close().await;
    }
    std::fs::remove_file(file.path()).unwrap();
    if empty {
        std::fs::write(file.path(), "").unwrap();
    }
    let error = open().await.unwrap_err();
    assert!(matches!(error, OpenError::Lost { .. }), "{error}");
    assert!(!error.may_pass());
    let mark = file.dir.path().join("reports.db.in-use");
    let remedy = format!("delete {}", mark.display());
    assert!(error.to_string().contains(&remedy), "{error}");
    // As told.
    std::fs::remove_file(mark).unwrap();
    open().await.unwrap().close().await;
}

/// The server connects anew after an error.
#[tokio::test]
async fn a_file_that_is_gone_is_not_begun_anew_while_it_is_served() {
    let file = File::new();
    let bed = Bed::serving(&file).await;
    let mut other = SqliteConnection::connect(file.path().to_str().unwrap())
        .await
        .unwrap();
    sqlx::query(
        "CREATE TRIGGER refuse BEFORE INSERT ON objects
         BEGIN SELECT raise(ABORT, 'refused'); END",
    )
    .execute(&mut other)
    .await
    .unwrap();
    other.close().await.unwrap();
    for end in ["", "-wal", "-shm"] {
        std::fs::remove_file(file.dir.path().join(format!("reports.db{end}"))).unwrap();
    }
    for _ in 0..2 {
        bed.create("r", "u").await.unwrap_err();
    }
    assert!(!file.path().exists());
    bed.close().await;
}

/// Creates a report with a text of somewhat more than 1 MiB.
pub(super) async fn create_large(bed: &Bed, name: &str) {
    let mut object = report(name, "u", "a");
    object["results"][0]["message"] = "x".repeat(1 << 20).into();
    let key = key(name);
    bed.write(Write::Create { key, object }).await.unwrap();
}

/// A move reads pages of the database, and holds one in memory.
#[tokio::test]
async fn a_page_ends_where_its_texts_are_large() {
    let file = File::new();
    let bed = Bed::serving(&file).await;
    let id = bed.reports.record().id;
    for n in 0..12 {
        create_large(&bed, &format!("r{n}")).await;
    }
    bed.close().await;
    let sqlite = Arc::new(Sqlite::open(&file.path()).await.unwrap());
    let mut snapshot = Leaving(Arc::clone(&sqlite)).snapshot().await.unwrap();
    let keys = pages_of_large(&mut *snapshot, id).await;
    assert_eq!(snapshot.log(0, 500).await.unwrap().changes.len(), 8);
    assert_eq!(snapshot.log(8, 500).await.unwrap().changes.len(), 4);
    let (rows, looked) = snapshot.objects_at(&keys, 250).await.unwrap();
    assert_eq!((rows.len(), looked), (10, 10));
    let (rows, looked) = snapshot.objects_at(&keys[10..], 250).await.unwrap();
    assert_eq!((rows.len(), looked), (2, 2));
    drop(snapshot);
    sqlite.close().await;
}

/// Reads twelve large reports, page by page. Returns their keys.
pub(super) async fn pages_of_large(
    snapshot: &mut dyn SourceSnapshot,
    resource: ResourceId,
) -> Vec<RowKey> {
    let (mut after, mut pages, mut keys) = (None, Vec::new(), Vec::new());
    loop {
        let page = snapshot.objects(resource, after.as_ref(), 250).await;
        let page = page.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.key.1.clone());
        pages.push(page.len());
        keys.extend(page.into_iter().map(|row| row.key));
    }
    assert_eq!(pages, [8, 4]);
    keys
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

/// Creates reports until the runtime is gone; notes each that was acknowledged.
pub(super) async fn create_for_ever(
    store: Store,
    writer: usize,
    acknowledged: mpsc::Sender<(String, u64)>,
) {
    for i in 0.. {
        let name = format!("w{writer}-{i}");
        let write = Write::Create {
            key: key(&name),
            object: report(&name, "u", "a"),
        };
        let written = store.write(&reports(), &write).await.unwrap();
        if acknowledged.send((name, written.rv())).is_err() {
            return;
        }
    }
}

#[test]
fn a_server_that_dies_amid_writes_keeps_what_it_acknowledged() {
    let file = File::new();
    let (sender, acknowledged) = mpsc::channel();
    let runtime = Runtime::new().unwrap();
    let bed = runtime.block_on(Bed::serving(&file));
    for writer in 0..8 {
        runtime.spawn(create_for_ever(bed.store.clone(), writer, sender.clone()));
    }
    drop(sender);
    let mut writes: Vec<(String, u64)> = acknowledged.iter().take(200).collect();
    // Nothing is finished: every task, the committer as well, ends where it is.
    runtime.shutdown_background();
    drop(bed);
    writes.extend(acknowledged);

    Runtime::new().unwrap().block_on(async {
        let bed = loop {
            match Sqlite::open(&file.path()).await {
                Ok(engine) => break Bed::on(Arc::new(engine)).await,
                // The tasks of the other runtime may take a moment to be dropped.
                Err(OpenError::Locked { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        };
        for (name, rv) in &writes {
            assert_eq!(
                bed.reports.get(&key(name)).map(|o| o.rv),
                Some(*rv),
                "{name}"
            );
        }
        let (first, last) = (bed.reports.horizon(), bed.store.counter());
        let events = bed.events(first, last).await;
        let versions: Vec<u64> = events.iter().map(|e| e.rv()).collect();
        assert_eq!(versions, (first + 1..=last).collect::<Vec<_>>());
        assert_eq!(bed.reports.snapshot().len(), versions.len());
        bed.close().await;
    });
}

/// The databases of earlier commits have texts that are not packed.
#[tokio::test]
async fn texts_are_packed_and_those_from_before_are_read() {
    let file = File::new();
    let bed = Bed::serving(&file).await;
    let first = bed.create("before", "u").await.unwrap().rv();
    let last = bed.create("r", "v").await.unwrap().rv();
    let stored = texts(&bed);
    bed.close().await;

    let mut connection = SqliteConnection::connect(file.path().to_str().unwrap())
        .await
        .unwrap();
    let text = report("before", "u", "a").to_string();
    for table in ["objects", "changes"] {
        let packed = format!(
            "SELECT typeof(body) = 'blob' AND length(body) < ? FROM {table} WHERE name = 'r'"
        );
        let packed = sqlx::query_scalar(AssertSqlSafe(packed));
        let packed = packed.bind(i64::try_from(text.len()).unwrap());
        let packed: bool = packed.fetch_one(&mut connection).await.unwrap();
        assert!(packed, "{table}");
        let before = format!("UPDATE {table} SET body = ? WHERE name = 'before'");
        let before = sqlx::query(AssertSqlSafe(before)).bind(&text);
        let done = before.execute(&mut connection).await.unwrap();
        assert_eq!(done.rows_affected(), 1);
    }
    connection.close().await.unwrap();

    let bed = Bed::open(&file).await;
    assert_eq!(texts(&bed), stored);
    let events = bed.events(first - 1, last).await;
    let events = events.iter().map(|event| event.object.json().unwrap());
    assert_eq!(events.collect::<Vec<_>>(), stored);
    bed.close().await;
}

#[tokio::test]
async fn a_damaged_text_is_named() {
    let file = File::new();
    let bed = Bed::serving(&file).await;
    bed.create("r", "u").await.unwrap();
    bed.close().await;
    let mut connection = SqliteConnection::connect(file.path().to_str().unwrap())
        .await
        .unwrap();
    let damage = sqlx::query("UPDATE objects SET body = substr(body, 1, length(body) - 1)");
    damage.execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let opened = Store::open(StoreOptions::new(file.path())).await;
    let error = opened.err().unwrap().to_string();
    assert!(error.contains("ns/r"), "{error}");
}

fn texts(bed: &Bed) -> Vec<Bytes> {
    let snapshot = bed.reports.snapshot();
    let objects = snapshot.range(None, None);
    objects.map(|object| object.json().unwrap()).collect()
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
        let plan: Vec<String> =
            sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")))
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

#[tokio::test]
async fn a_statement_that_fails_amid_a_transaction_leaves_nothing_behind() {
    let file = File::new();
    let bed = Bed::serving(&file).await;
    let rv = bed.create("r", "u").await.unwrap().rv();
    let mut other = SqliteConnection::connect(file.path().to_str().unwrap())
        .await
        .unwrap();
    // The log is written first, so this failure comes in the middle.
    sqlx::query("ALTER TABLE objects RENAME COLUMN body TO away")
        .execute(&mut other)
        .await
        .unwrap();
    let failed = bed.update("r", "u", "b", Some(rv)).await.unwrap_err();
    assert!(
        matches!(&failed, WriteError::Store(StoreError::Unavailable { reason, .. })
            if reason.contains("body")),
        "{failed}"
    );
    sqlx::query("ALTER TABLE objects RENAME COLUMN away TO body")
        .execute(&mut other)
        .await
        .unwrap();
    let updated = bed.update("r", "u", "c", Some(rv)).await.unwrap();
    assert_eq!(updated.rv(), rv + 1);
    let logged: i64 = sqlx::query_scalar("SELECT count(*) FROM changes")
        .fetch_one(&mut other)
        .await
        .unwrap();
    assert_eq!(logged, 2);
    bed.close().await;
}
