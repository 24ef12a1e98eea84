//! The scripts of backups, on a real PostgreSQL: what they keep, and what comes back.
#![expect(
    clippy::unwrap_used,
    reason = "clippy takes helpers outside #[test] functions for production code"
)]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use pgtest::{DATABASE, Postgres, PostgresOptions, Shutdown, USER};
use tempfile::TempDir;

const BACKUP: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/src/database/managed/files/backup.sh"
);
const RESTORE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/src/database/managed/files/restore.sh"
);

/// A script, as its container runs it.
fn run(postgres: &Postgres, script: &str, backups: &Path, name: &str, database: &str) -> Output {
    run_in("here", postgres, script, backups, name, database)
}

/// A script, as its container runs it in a cluster with this uid.
fn run_in(
    cluster: &str,
    postgres: &Postgres,
    script: &str,
    backups: &Path,
    name: &str,
    database: &str,
) -> Output {
    let major = postgres.version().split('.').next().unwrap();
    let programs = format!("/usr/lib/postgresql/{major}/bin:/usr/bin:/bin");
    Command::new("bash")
        .arg(script)
        .env_clear()
        .env("PATH", programs)
        .env("BACKUPS", backups)
        .env("BACKUP_NAME", name)
        .env("CLUSTER_UID", cluster)
        .env("RETENTION_MINUTES", "60")
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", postgres.port().to_string())
        .env("PGDATABASE", database)
        .env("PGUSER", USER)
        .env("PGPASSWORD", postgres.password())
        .output()
        .unwrap()
}

fn names(backups: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(backups.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{err}")
}

fn count(postgres: &Postgres, database: &str) -> String {
    let reports = "SELECT count(*), md5(string_agg(body, ',' ORDER BY id)) FROM kept.reports";
    query(postgres, database, reports)
}

fn query(postgres: &Postgres, database: &str, query: &str) -> String {
    let major = postgres.version().split('.').next().unwrap().to_owned();
    let output = Command::new(format!("/usr/lib/postgresql/{major}/bin/psql"))
        .env("PGPASSWORD", postgres.password())
        .args([
            "-XqAt",
            "-h",
            "127.0.0.1",
            "-p",
            &postgres.port().to_string(),
        ])
        .args(["-U", USER, "-d", database, "-c", query])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    text(&output)
}

async fn filled() -> Postgres {
    let postgres = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let client = postgres.client().await.unwrap();
    client
        .batch_execute(
            "CREATE SCHEMA kept;
             CREATE TABLE kept.reports (id int PRIMARY KEY, body text) PARTITION BY RANGE (id);
             CREATE TABLE kept.first PARTITION OF kept.reports FOR VALUES FROM (0) TO (500);
             CREATE TABLE kept.second PARTITION OF kept.reports FOR VALUES FROM (500) TO (9999);
             INSERT INTO kept.reports SELECT n, repeat('x', n) FROM generate_series(1, 1000) n;",
        )
        .await
        .unwrap();
    postgres
}

#[tokio::test]
async fn what_was_backed_up_comes_back_whole() {
    let postgres = filled().await;
    let backups = tempfile::tempdir().unwrap();
    let made = run(&postgres, BACKUP, backups.path(), "nightly-1", DATABASE);
    assert!(made.status.success(), "{}", text(&made));
    assert_eq!(names(&backups), ["nightly-1.dump"]);

    postgres
        .sql(&format!("CREATE DATABASE fresh OWNER {USER}"))
        .await
        .unwrap();
    // People copy the name of the file.
    let restored = run(
        &postgres,
        RESTORE,
        backups.path(),
        "nightly-1.dump",
        "fresh",
    );
    assert!(restored.status.success(), "{}", text(&restored));
    assert_eq!(count(&postgres, "fresh"), count(&postgres, DATABASE));

    // A second time meets what the first has made, and changes nothing.
    let again = run(&postgres, RESTORE, backups.path(), "nightly-1", "fresh");
    assert!(!again.status.success());
    assert_eq!(count(&postgres, "fresh"), count(&postgres, DATABASE));
}

#[tokio::test]
async fn old_backups_go_and_the_newest_stays() {
    let postgres = filled().await;
    let backups = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    // One Job was cut off, and another is at work.
    let partial = [("cut-off.dump.partial", 62), ("by-hand.dump.partial", 1)];
    let whole = [("old.dump", 61), ("young.dump", 59), ("notes.txt", 9999)];
    for (name, minutes) in whole.into_iter().chain(partial) {
        let file = File::create(backups.path().join(name)).unwrap();
        file.set_modified(now - Duration::from_mins(minutes))
            .unwrap();
    }
    let made = run(&postgres, BACKUP, backups.path(), "new", DATABASE);
    assert!(made.status.success(), "{}", text(&made));
    let left = [
        "by-hand.dump.partial",
        "new.dump",
        "notes.txt",
        "young.dump",
    ];
    assert_eq!(names(&backups), left);
}

#[tokio::test]
async fn a_backup_that_fails_leaves_nothing_and_removes_nothing() {
    let postgres = filled().await;
    let backups = tempfile::tempdir().unwrap();
    let old = File::create(backups.path().join("old.dump")).unwrap();
    old.set_modified(SystemTime::now() - Duration::from_hours(100))
        .unwrap();
    postgres.stop(Shutdown::Fast).await.unwrap();
    let made = run(&postgres, BACKUP, backups.path(), "new", DATABASE);
    assert!(!made.status.success());
    assert_eq!(names(&backups), ["old.dump"]);
}

#[tokio::test]
async fn a_backup_that_is_not_there_is_told_with_those_that_are() {
    let postgres = filled().await;
    let backups = tempfile::tempdir().unwrap();
    for name in ["a.dump", "b.dump"] {
        File::create(backups.path().join(name)).unwrap();
    }
    let restored = run(&postgres, RESTORE, backups.path(), "c", DATABASE);
    assert!(!restored.status.success());
    assert!(text(&restored).contains("backup c does not exist; existing backups: a b"));
}

/// The tables of the server that the script knows.
const TABLES: &str = include_str!("../../storage/migrations/postgres/0001_init.sql");

const MARKS: &str = "SELECT (SELECT count(*) FROM reports_server.imported),
    (SELECT count(*) FROM reports_server.objects WHERE as_imported),
    (SELECT sum(imported) FROM reports_server.resources),
    (SELECT count(*) FROM reports_server.objects)";

/// Another cluster's etcd has never had what was imported: it must not look deleted there.
#[tokio::test]
async fn marks_of_imported_reports_are_those_of_one_cluster() {
    let postgres = filled().await;
    let client = postgres.client().await.unwrap();
    let tables = format!("CREATE SCHEMA reports_server; {TABLES}");
    client.batch_execute(&tables).await.unwrap();
    client
        .batch_execute(
            "INSERT INTO reports_server.objects (cluster, resource_id, namespace, name, uid, rv,
                 as_imported, labels, report, frame, leaves)
             VALUES (1, 1, 'a', 'b', 'u', 5, true, '{}', 1, 1, '');
             INSERT INTO reports_server.imported VALUES (1, 1, 'a', 'b', 'u', 5);
             INSERT INTO reports_server.resources (cluster, api_group, resource, kind, namespaced,
                 uid, created_at, imported) VALUES (1, 'g', 'r', 'K', true, 'u', now(), 1);",
        )
        .await
        .unwrap();
    let backups = tempfile::tempdir().unwrap();
    let made = run_in("first", &postgres, BACKUP, backups.path(), "one", DATABASE);
    assert!(made.status.success(), "{}", text(&made));
    for (cluster, marks) in [("first", "1|1|1|1"), ("second", "0|0|0|1")] {
        let fresh = format!("CREATE DATABASE of_{cluster} OWNER {USER}");
        postgres.sql(&fresh).await.unwrap();
        let database = format!("of_{cluster}");
        // The second time meets what the first has made.
        for _ in 0..2 {
            let restored = run_in(
                cluster,
                &postgres,
                RESTORE,
                backups.path(),
                "one",
                &database,
            );
            assert!(restored.status.success(), "{}", text(&restored));
            assert_eq!(query(&postgres, &database, MARKS).trim(), marks);
        }
    }
}
