//! `postgresql.conf` and the other files that PostgreSQL reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::PORT;
use super::tuning::{Tuning, tuning};
use super::wanted::Managed;

/// The directory in which the files of [`files`] are mounted.
pub const DIRECTORY: &str = "/etc/reports-postgres";
/// The directory in which the certificates are mounted.
pub const TLS_DIRECTORY: &str = "/etc/reports-postgres-tls";
/// The directory whose files the entrypoint runs at the first start.
pub const INIT_DIRECTORY: &str = "/docker-entrypoint-initdb.d";
/// The directory of the socket, shared by the containers of the pod.
pub const SOCKET_DIRECTORY: &str = "/var/run/postgresql";

/// The script that the container runs.
pub const START: &str = "start.sh";
/// The script of the container beside it.
pub const RELOAD: &str = "reload.sh";
/// The script of a backup.
pub const BACKUP: &str = "backup.sh";
/// The script of a restore.
pub const RESTORE: &str = "restore.sh";
/// `postgresql.conf`
pub const CONF: &str = "postgresql.conf";
/// `pg_hba.conf`
pub const HBA: &str = "pg_hba.conf";

/// Files of [`DIRECTORY`].
pub const FILES: [&str; 4] = [CONF, HBA, START, RELOAD];
/// Files of [`INIT_DIRECTORY`], in the order in which they run.
pub const INIT_FILES: [&str; 2] = ["10-role.sql", "90-done.sh"];

/// Settings that a reload puts into force; a change of any other takes a restart.
pub const RELOADED: [&str; 7] = [
    "autovacuum_work_mem",
    "effective_cache_size",
    "maintenance_work_mem",
    "max_wal_size",
    "min_wal_size",
    "wal_compression",
    "work_mem",
];

/// Returns the contents of all files, by name.
#[must_use]
pub fn files(managed: &Managed) -> BTreeMap<String, String> {
    let [role, done] = INIT_FILES;
    BTreeMap::from(
        [
            (CONF, postgresql_conf(managed)),
            (HBA, include_str!("files/pg_hba.conf").to_owned()),
            (START, include_str!("files/start.sh").to_owned()),
            (RELOAD, include_str!("files/reload.sh").to_owned()),
            (BACKUP, include_str!("files/backup.sh").to_owned()),
            (RESTORE, include_str!("files/restore.sh").to_owned()),
            (role, include_str!("files/10-role.sql").to_owned()),
            (done, include_str!("files/90-done.sh").to_owned()),
        ]
        .map(|(name, content)| (name.to_owned(), content)),
    )
}

/// Returns the settings. Nothing in it depends on the time, so that the same input makes the same
/// bytes.
#[must_use]
pub fn postgresql_conf(managed: &Managed) -> String {
    let mut text =
        String::from("# Written by the operator: spec.database.managed is what counts.\n");
    for (name, value) in fixed().into_iter().chain(sized(managed)) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name} = {value}");
    }
    text
}

fn fixed() -> Vec<(&'static str, String)> {
    let quoted = |path: String| format!("'{path}'");
    let text = |value: &str| value.to_owned();
    vec![
        ("listen_addresses", text("'*'")),
        ("port", PORT.to_string()),
        ("hba_file", quoted(format!("{DIRECTORY}/{HBA}"))),
        (
            "unix_socket_directories",
            quoted(SOCKET_DIRECTORY.to_owned()),
        ),
        // Nobody but the user of the pod reaches the socket.
        ("unix_socket_permissions", text("0700")),
        ("ssl", text("on")),
        ("ssl_min_protocol_version", text("'TLSv1.3'")),
        ("ssl_ca_file", quoted(format!("{TLS_DIRECTORY}/ca.crt"))),
        ("ssl_cert_file", quoted(format!("{TLS_DIRECTORY}/tls.crt"))),
        ("ssl_key_file", quoted(format!("{TLS_DIRECTORY}/tls.key"))),
        ("password_encryption", text("'scram-sha-256'")),
        // A node without huge pages for this pod would end it by SIGBUS.
        ("huge_pages", text("off")),
        // Reports are large texts: lz4 costs a fraction of pglz, in tables and in the log.
        ("default_toast_compression", text("'lz4'")),
        ("checkpoint_timeout", text("15min")),
        // Rows of reports are written again and again; small, frequent rounds keep tables small.
        ("autovacuum_naptime", text("15s")),
        ("autovacuum_vacuum_scale_factor", text("0.05")),
        ("idle_in_transaction_session_timeout", text("5min")),
        ("tcp_keepalives_idle", text("60")),
        ("tcp_keepalives_interval", text("10")),
        ("tcp_keepalives_count", text("3")),
        ("log_destination", text("'stderr'")),
        ("logging_collector", text("off")),
        ("log_line_prefix", text("'%m [%p] %q%u@%d %a '")),
        ("log_lock_waits", text("on")),
        ("log_min_duration_statement", text("1s")),
        ("log_timezone", text("'UTC'")),
        ("timezone", text("'UTC'")),
    ]
}

fn sized(managed: &Managed) -> Vec<(&'static str, String)> {
    let Tuning {
        max_connections,
        shared_buffers,
        effective_cache_size,
        work_mem,
        maintenance_work_mem,
        autovacuum_work_mem,
        max_wal_size,
        min_wal_size,
    } = tuning(managed.room());
    let kib = |bytes: u64| format!("{}kB", bytes / 1024);
    let mib = |bytes: u64| format!("{}MB", bytes >> 20);
    // Version 14 knows one method only.
    let wal_compression = if managed.version() >= 15 { "lz4" } else { "on" };
    vec![
        ("wal_compression", wal_compression.to_owned()),
        ("max_connections", max_connections.to_string()),
        ("shared_buffers", kib(shared_buffers)),
        ("effective_cache_size", kib(effective_cache_size)),
        ("work_mem", kib(work_mem)),
        ("maintenance_work_mem", kib(maintenance_work_mem)),
        ("autovacuum_work_mem", kib(autovacuum_work_mem)),
        ("max_wal_size", mib(max_wal_size)),
        ("min_wal_size", mib(min_wal_size)),
    ]
}
