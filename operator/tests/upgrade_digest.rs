//! The comparison of a major upgrade, on a real PostgreSQL: a copy that lacks anything is told from
//! one that does not.
#![expect(
    clippy::unwrap_used,
    reason = "clippy takes helpers outside #[test] functions for production code"
)]

use std::process::Command;

use pgtest::{DATABASE, Postgres, PostgresOptions, USER};

const DIGEST: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/src/database/managed/files/upgrade-digest.sql"
);
/// One of each kind, with names and values that need quotes.
const CONTENTS: &str = r#"
    CREATE SCHEMA "a b";
    CREATE TABLE "a b"."it's" (id bigserial PRIMARY KEY, body text, at timestamptz, n float8, x bytea);
    INSERT INTO "a b"."it's" (body, at, n, x)
        SELECT repeat('x', n), to_timestamp(n), n / 3.0, '\x00ff' FROM generate_series(1, 100) n;
    CREATE TABLE "a b".parts (id int) PARTITION BY RANGE (id);
    CREATE TABLE "a b".part PARTITION OF "a b".parts FOR VALUES FROM (0) TO (9);
    INSERT INTO "a b".parts VALUES (1), (2), (2);
    CREATE TABLE "a b".nothing (id int);
    CREATE INDEX by_body ON "a b"."it's" (body);
    CREATE VIEW "a b".seen AS SELECT id FROM "a b"."it's";
    CREATE FUNCTION "a b".one() RETURNS int LANGUAGE sql AS 'SELECT 1';
"#;

/// Returns the digest of a database after `change`, which is taken back.
fn digest(postgres: &Postgres, change: &str) -> Vec<String> {
    let major = postgres.version().split('.').next().unwrap();
    let output = Command::new(format!("/usr/lib/postgresql/{major}/bin/psql"))
        .env("PGPASSWORD", postgres.password())
        .args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-v", "database=it", "-h"])
        .args(["127.0.0.1", "-p", &postgres.port().to_string()])
        .args(["-U", USER, "-d", DATABASE, "-c", "BEGIN"])
        .args(["-c", change, "-f", DIGEST, "-c", "ROLLBACK"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{told}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn whatever_differs_is_seen() {
    let postgres = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let client = postgres.client().await.unwrap();
    client.batch_execute(CONTENTS).await.unwrap();
    let old = digest(&postgres, "DO 'BEGIN END'");
    assert!(old.iter().any(|line| line.contains("|row|")), "{old:?}");
    // Rows in another order, and settings of the database, are no difference.
    let same = r#"SET TimeZone = 'Asia/Tokyo'; SET bytea_output = 'escape'; SET DateStyle = 'German';
        CREATE TEMP TABLE kept AS SELECT * FROM "a b"."it's" WHERE id < 50;
        DELETE FROM "a b"."it's" WHERE id < 50;
        INSERT INTO "a b"."it's" SELECT * FROM kept; DROP TABLE kept"#;
    assert_eq!(digest(&postgres, same), old);
    let changes = [
        r#"UPDATE "a b"."it's" SET body = body || ' ' WHERE id = 7"#,
        r#"UPDATE "a b"."it's" SET at = at + interval '1 microsecond' WHERE id = 7"#,
        r#"UPDATE "a b"."it's" SET x = '\x00fe' WHERE id = 7"#,
        r#"UPDATE "a b"."it's" SET body = NULL WHERE id = 7"#,
        r#"DELETE FROM "a b"."it's" WHERE id = 7"#,
        r#"DELETE FROM "a b".part WHERE ctid = '(0,3)'"#,
        r#"INSERT INTO "a b".nothing VALUES (1)"#,
        r#"ALTER SEQUENCE "a b"."it's_id_seq" RESTART 7"#,
        r#"DROP TABLE "a b".nothing"#,
        r#"DROP VIEW "a b".seen"#,
        r#"DROP INDEX "a b".by_body"#,
        r#"CREATE OR REPLACE FUNCTION "a b".one() RETURNS int LANGUAGE sql AS 'SELECT 2'"#,
    ];
    for change in changes {
        assert_ne!(digest(&postgres, change), old, "{change}");
    }
}
