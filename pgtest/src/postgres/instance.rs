//! A server, and its place.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::options::{PostgresOptions, Tls};
use super::process;
use crate::account::Account;
use crate::binaries::Binaries;
use crate::params::Params;
use crate::template::{DATABASE, USER};
use crate::tls::{Authority, Pair};
use crate::workdir::Workdir;

/// A PostgreSQL server with a role [`USER`] and a database [`DATABASE`]. Gone when dropped.
///
/// The methods do what an administrator or a disaster would do to it; clients see it at
/// [`Postgres::params`]. The port and the socket stay the same for as long as it lives.
pub struct Postgres {
    // Before the directory, which ends what is left of it.
    pub(super) server: process::Server,
    pub(super) options: PostgresOptions,
    pub(super) password: std::sync::Mutex<String>,
    pub(super) authority: Option<Authority>,
    pub(super) client: Option<Pair>,
    pub(super) port: u16,
    pub(super) binaries: Binaries,
    pub(super) account: Account,
    pub(super) directory: Workdir,
}

impl Postgres {
    /// Returns the port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the directory of the Unix socket, on which every role needs no more than its
    /// password and the superuser nothing.
    #[must_use]
    pub fn socket_directory(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Returns the data directory.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("disk/data")
    }

    /// Returns the server's version, for example `15.14`.
    #[must_use]
    pub fn version(&self) -> &str {
        self.binaries.version()
    }

    /// Returns the password of [`USER`].
    #[must_use]
    pub fn password(&self) -> String {
        lock(&self.password).clone()
    }

    /// Returns the authority that signed the server's certificate and signs those of clients;
    /// `None` without TLS.
    #[must_use]
    pub fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    /// Returns the parameters by which [`USER`] connects over TCP, with the strictest TLS that the
    /// server offers.
    #[must_use]
    pub fn params(&self) -> Params {
        let params = Params::new()
            .with("host", "127.0.0.1")
            .with("port", self.port.to_string())
            .with("dbname", DATABASE)
            .with("username", USER);
        let params = match self.options.tls {
            Tls::ClientCertificate => params,
            Tls::Off | Tls::Offered | Tls::Required => params.with("password", self.password()),
        };
        let Some(authority) = &self.authority else {
            return params.with("sslmode", "disable");
        };
        let params = params
            .with("sslmode", "verify-full")
            .with("ca.crt", authority.pem());
        match (self.options.tls, &self.client) {
            (Tls::ClientCertificate, Some(pair)) => params
                .with("tls.crt", pair.certificate.as_str())
                .with("tls.key", pair.key.as_str()),
            _ => params,
        }
    }

    /// Writes [`Postgres::params`] into a directory that lives as long as the server and returns
    /// its path.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn params_dir(&self) -> Result<PathBuf> {
        let directory = self.directory.path().join("params");
        self.params().write(&directory)?;
        Ok(directory)
    }

    /// Returns the last lines of the server's log.
    #[must_use]
    pub fn log(&self) -> String {
        process::tail(&self.log_path())
    }

    pub(super) fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    pub(super) fn root(&self) -> &Path {
        self.directory.path()
    }
}

/// Locks a mutex, also a poisoned one: tests that panicked leave nothing half done in these locks.
pub(super) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
