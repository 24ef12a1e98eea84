//! Configuration files.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::options::{PostgresOptions, Tls};
use crate::account::Account;
use crate::tls::Pair;

const SERVER_CERTIFICATE: &str = "server.crt";
const SERVER_KEY: &str = "server.key";
const CLIENT_AUTHORITY: &str = "clients.crt";

/// The settings. Shared memory in files of the data directory leaves nothing behind after a kill.
const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
dynamic_shared_memory_type = mmap
max_wal_size = 512MB
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %q%u %a '
";

const NOT_DURABLE: &str = "
fsync = off
full_page_writes = off
";

/// Writes `postgresql.conf` and `pg_hba.conf`.
pub fn write(data: &Path, options: &PostgresOptions, account: Account) -> Result<()> {
    let mut settings = SETTINGS.to_owned();
    if !options.durable {
        settings.push_str(NOT_DURABLE);
    }
    if options.tls != Tls::Off {
        let _ = write!(
            settings,
            "\nssl = on\nssl_cert_file = '{SERVER_CERTIFICATE}'\nssl_key_file = '{SERVER_KEY}'\n\
             ssl_ca_file = '{CLIENT_AUTHORITY}'\n"
        );
    }
    for (name, value) in &options.settings {
        let _ = writeln!(settings, "{name} = '{}'", value.replace('\'', "''"));
    }
    file(&data.join("postgresql.conf"), &settings, account)?;
    file(&data.join("pg_hba.conf"), &access(options.tls), account)
}

fn access(tls: Tls) -> String {
    let network = match tls {
        Tls::Off | Tls::Offered => "host all all 127.0.0.1/32 scram-sha-256",
        Tls::Required => "hostssl all all 127.0.0.1/32 scram-sha-256",
        Tls::ClientCertificate => "hostssl all all 127.0.0.1/32 cert",
    };
    format!(
        "local all postgres trust\nlocal replication postgres trust\n\
         local all all scram-sha-256\n{network}\n"
    )
}

/// Writes the server's certificate and key; its authority is the one of clients, too.
pub fn write_server_pair(data: &Path, pair: &Pair, account: Account) -> Result<()> {
    file(&data.join(SERVER_CERTIFICATE), &pair.certificate, account)?;
    file(&data.join(SERVER_KEY), &pair.key, account)
}

/// Writes the authorities whose clients are accepted.
pub fn write_client_authority(data: &Path, pem: &str, account: Account) -> Result<()> {
    file(&data.join(CLIENT_AUTHORITY), pem, account)
}

/// Writes a file of the account's alone, replaced at once.
fn file(path: &Path, content: &str, account: Account) -> Result<()> {
    let staged = path.with_extension("new");
    let written = || -> Result<()> {
        std::fs::write(&staged, content)?;
        std::fs::set_permissions(&staged, std::fs::Permissions::from_mode(0o600))?;
        account.own(&staged)?;
        Ok(std::fs::rename(&staged, path)?)
    };
    written().with_context(|| format!("cannot write {}", path.display()))
}
