//! The sums by which two databases are compared.

use tokio_postgres::Row;

use super::super::rows::column;
use crate::store::engine::EngineError;
use crate::store::moving::source::{MemorySums, Sums};

/// Sums of the imported marks of a resource and of its last events: number, and hashes.
pub(super) const MEMORY_SUMS: &str = "SELECT (
        SELECT count(*) || ' ' || coalesce(sum(('x' || substr(encode(sha256(convert_to(
            concat_ws('/', namespace, name, uid, rv), 'UTF8')), 'hex'), 1, 15))::bit(60)::bigint), 0)
        FROM reports_server.imported WHERE cluster = $1 AND resource_id = $2) AS marks, (
        SELECT count(*) || ' ' || coalesce(sum(('x' || substr(encode(sha256(convert_to(
            concat_ws('/', namespace, name, rv, deleted, labels), 'UTF8')), 'hex'), 1, 15))
            ::bit(60)::bigint), 0)
        FROM reports_server.mirror_events WHERE cluster = $1 AND resource_id = $2) AS events";

/// Sums of the objects of a resource, and of its imported marks.
pub(super) const SUMS: &str =
    "SELECT count(*) AS objects, coalesce(sum(rv), 0)::bigint AS versions,
        (SELECT count(*) FROM reports_server.imported
         WHERE cluster = $1 AND resource_id = $2) AS marks
    FROM reports_server.objects WHERE cluster = $1 AND resource_id = $2";

/// Returns the columns of [`SUMS`].
pub(super) fn sums(row: &Row) -> Result<Sums, EngineError> {
    Ok(Sums {
        objects: column(row, "objects")?,
        versions: column(row, "versions")?,
        marks: column(row, "marks")?,
    })
}

/// Returns the columns of [`MEMORY_SUMS`].
pub(super) fn memory_sums(row: &Row) -> Result<MemorySums, EngineError> {
    Ok(MemorySums {
        marks: column(row, "marks")?,
        events: column(row, "events")?,
    })
}
