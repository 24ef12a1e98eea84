//! Bringing the schema up to date: sqlx's migrator on our own connection.

use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use sqlx::migrate::{AppliedMigration, Migrate, MigrateError, Migration};
use tokio_postgres::types::Type;

use super::connection::{LONG_STATEMENT, PgConnection};
use super::error::PostgresError;
use crate::store::OpenError;
use crate::store::engine::EngineError;

/// Number of the advisory lock that is held while the schema is changed. It ends with its
/// transaction, so it works through a pooler.
const LOCK: i64 = 0x5265_706f_7274;

/// Brings the schema up to date, in one transaction.
///
/// Migrations that a newer server has applied are accepted unless they say that this one cannot
/// live with them: both run side by side while one replaces the other.
pub(super) async fn migrate(connection: &PgConnection) -> Result<(), OpenError> {
    let mut migrations = sqlx::migrate!("migrations/postgres");
    migrations.set_ignore_missing(true);
    let mut schema = Schema { connection };
    migrations
        .run_direct(None, &mut schema, false)
        .await
        .map_err(EngineError::from)?;
    let rows = connection
        .query("SELECT min_reader FROM reports_server.meta", &[])
        .await
        .map_err(EngineError::from)?;
    let known = migrations.iter().map(|m| m.version).max().unwrap_or(0);
    let needed: i64 = rows
        .first()
        .map(|row| row.try_get(0))
        .transpose()
        .map_err(PostgresError::from)
        .map_err(EngineError::from)?
        .unwrap_or(0);
    if needed > known {
        return Err(OpenError::Newer(format!(
            "it needs a server that knows migration {needed}, this one knows {known}"
        )));
    }
    Ok(())
}

/// The schema, for the migrator.
struct Schema<'a> {
    connection: &'a PgConnection,
}

fn failed(error: PostgresError) -> MigrateError {
    MigrateError::Execute(sqlx::Error::AnyDriverError(Box::new(error)))
}

impl Schema<'_> {
    async fn batch(&self, statements: &str) -> Result<(), MigrateError> {
        self.connection
            .batch(statements, LONG_STATEMENT)
            .await
            .map_err(failed)
    }
}

impl Migrate for Schema<'_> {
    fn create_schema_if_not_exists<'e>(
        &'e mut self,
        _: &'e str,
    ) -> BoxFuture<'e, Result<(), MigrateError>> {
        // `ensure_migrations_table` makes the only one.
        async { Ok(()) }.boxed()
    }

    fn ensure_migrations_table<'e>(
        &'e mut self,
        _: &'e str,
    ) -> BoxFuture<'e, Result<(), MigrateError>> {
        // IF NOT EXISTS is not enough: whoever may not create a schema may still use one.
        let statements = "DO $$ BEGIN
                IF to_regnamespace('reports_server') IS NULL THEN
                    CREATE SCHEMA reports_server;
                END IF;
            END $$;
            CREATE TABLE IF NOT EXISTS reports_server.migrations (
                version     bigint      PRIMARY KEY,
                description text        NOT NULL,
                applied_at  timestamptz NOT NULL DEFAULT now(),
                checksum    bytea       NOT NULL
            )";
        self.batch(statements).boxed()
    }

    fn dirty_version<'e>(
        &'e mut self,
        _: &'e str,
    ) -> BoxFuture<'e, Result<Option<i64>, MigrateError>> {
        // All migrations are one transaction: none can be applied in part.
        async { Ok(None) }.boxed()
    }

    fn list_applied_migrations<'e>(
        &'e mut self,
        _: &'e str,
    ) -> BoxFuture<'e, Result<Vec<AppliedMigration>, MigrateError>> {
        async {
            let rows = self
                .connection
                .query(
                    "SELECT version, checksum FROM reports_server.migrations ORDER BY version",
                    &[],
                )
                .await
                .map_err(failed)?;
            rows.iter()
                .map(|row| {
                    let version = row.try_get(0).map_err(|e| failed(e.into()))?;
                    let checksum: Vec<u8> = row.try_get(1).map_err(|e| failed(e.into()))?;
                    Ok(AppliedMigration {
                        version,
                        checksum: checksum.into(),
                    })
                })
                .collect()
        }
        .boxed()
    }

    fn lock(&mut self) -> BoxFuture<'_, Result<(), MigrateError>> {
        async {
            self.batch("BEGIN").await?;
            self.connection
                .long_query(
                    "SELECT pg_advisory_xact_lock($1)::text",
                    &[(&LOCK, Type::INT8)],
                )
                .await
                .map_err(failed)?;
            Ok(())
        }
        .boxed()
    }

    fn unlock(&mut self) -> BoxFuture<'_, Result<(), MigrateError>> {
        self.batch("COMMIT").boxed()
    }

    fn apply<'e>(
        &'e mut self,
        _: &'e str,
        migration: &'e Migration,
    ) -> BoxFuture<'e, Result<Duration, MigrateError>> {
        async move {
            let start = Instant::now();
            self.batch(migration.sql.as_str()).await?;
            let checksum: &[u8] = &migration.checksum;
            self.connection
                .execute(
                    "INSERT INTO reports_server.migrations (version, description, checksum)
                     VALUES ($1, $2, $3)",
                    &[
                        (&migration.version, Type::INT8),
                        (&&*migration.description, Type::TEXT),
                        (&checksum, Type::BYTEA),
                    ],
                )
                .await
                .map_err(failed)?;
            Ok(start.elapsed())
        }
        .boxed()
    }

    fn revert<'e>(
        &'e mut self,
        _: &'e str,
        _: &'e Migration,
    ) -> BoxFuture<'e, Result<Duration, MigrateError>> {
        // A release is taken back by running the one before, which lives with the newer schema.
        async { Err(MigrateError::ForceNotSupported) }.boxed()
    }
}
