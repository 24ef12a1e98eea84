//! Names and numbers that are the same in every database.

/// The database.
pub const DATABASE: &str = "reports";
/// The role of the servers; the common name of their certificate.
pub const ROLE: &str = "reports_server";
/// The role that may do anything, inside the pod.
pub const SUPERUSER: &str = "postgres";
/// Key of the superuser's password in its Secret.
pub const PASSWORD_KEY: &str = "password";
/// The port of PostgreSQL.
pub const PORT: i32 = 5432;
/// Annotation of the volume: the major version of its data.
pub const VERSION_ANNOTATION: &str = "reports-server.io/postgres-version";
/// Annotation of the volume: the state of the restore of the backup that it starts with.
pub const RECOVERY_ANNOTATION: &str = "reports-server.io/recovery";
