//! Places in the pods of an embedded database.

/// The directory in which the volume of the database is mounted.
pub const DIRECTORY: &str = "/var/lib/reports-server";
/// The directory of the server in which copies are made.
pub const COPIES: &str = "/var/lib/reports-server-copies";

/// Returns the file of the database.
#[must_use]
pub fn file() -> String {
    format!("{DIRECTORY}/reports.db")
}
