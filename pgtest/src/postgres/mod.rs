//! A PostgreSQL server.

mod backup;
mod clock;
mod config;
mod connections;
mod disk;
mod faults;
mod options;
mod process;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::account::Account;
use crate::binaries::Binaries;
use crate::params::Params;
use crate::port;
use crate::template;
use crate::tls::{Authority, Pair};
use crate::workdir::Workdir;

pub use backup::{Backup, Timeline};
pub use connections::HeldConnections;
pub use faults::Shutdown;
pub use options::{Disk, PostgresOptions, Preload, Tls};

/// The application's role. It owns the database and is no superuser.
pub const USER: &str = "reports";
/// The application's database.
pub const DATABASE: &str = "reports";

/// How often another port is tried when somebody else was quicker.
const PORTS: usize = 5;

/// A PostgreSQL server with a role [`USER`] and a database [`DATABASE`]. Gone when dropped.
///
/// Its methods do what an administrator or a disaster would do to it; clients see it at
/// [`Postgres::params`]. The port and the socket stay the same for as long as it lives.
pub struct Postgres {
    // Before the directory, which ends what is left of it.
    server: process::Server,
    options: PostgresOptions,
    password: std::sync::Mutex<String>,
    authority: Option<Authority>,
    client: Option<Pair>,
    port: u16,
    binaries: Binaries,
    account: Account,
    directory: Workdir,
}

impl Postgres {
    /// Starts a new server and waits until it takes connections.
    ///
    /// # Errors
    /// When PostgreSQL is not installed or does not start: the error holds the end of its log.
    pub async fn start(options: PostgresOptions) -> Result<Self> {
        let mut new = Self::prepare(options)?;
        template::copy_to(&new.data(), &new.binaries, new.account).await?;
        new.begin().await?;
        let password = format!("p{:016x}", rand::random::<u64>());
        new.set_password(&password).await?;
        Ok(new)
    }

    /// Starts a server that follows `primary` (streaming, not synchronous) and can be read.
    ///
    /// # Errors
    /// As [`Postgres::start`].
    pub async fn standby_of(primary: &Self) -> Result<Self> {
        let mut new = Self::prepare(primary.options.clone())?;
        primary.base_backup(&new.data(), true).await?;
        new.password = primary.password().into();
        new.begin().await?;
        Ok(new)
    }

    /// A server whose data directory is still to be filled.
    fn prepare(options: PostgresOptions) -> Result<Self> {
        let account = Account::of_servers()?;
        let directory = Workdir::new("postgres")?;
        for folder in ["disk", "socket", "backups"] {
            let folder = directory.path().join(folder);
            std::fs::create_dir(&folder)?;
            account.own(&folder)?;
        }
        if let Disk::Limited { megabytes } = options.disk {
            disk::mount(&directory.path().join("disk"), megabytes, account)?;
        }
        let (authority, client) = match options.tls {
            Tls::Off => (None, None),
            Tls::Offered | Tls::Required | Tls::ClientCertificate => {
                let authority = Authority::new("a test's authority")?;
                let client = authority.client(USER)?;
                (Some(authority), Some(client))
            }
        };
        Ok(Self {
            server: process::Server::default(),
            options,
            password: std::sync::Mutex::default(),
            authority,
            client,
            port: 0,
            binaries: Binaries::find()?,
            account,
            directory,
        })
    }

    /// Configures and launches it on a port of its own.
    async fn begin(&mut self) -> Result<()> {
        config::write(&self.data(), &self.options, self.account)?;
        if let Some(authority) = &self.authority {
            let pair = authority.server(&["localhost", "127.0.0.1"])?;
            config::write_server_pair(&self.data(), &pair, self.account)?;
            config::write_client_authority(&self.data(), authority.pem(), self.account)?;
        }
        let mut attempt = 1;
        loop {
            self.port = port::free()?;
            match self.start_again().await {
                Err(error) if attempt < PORTS && process::is_port_taken(&error) => attempt += 1,
                other => return other,
            }
        }
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of the Unix socket, on which every role needs no more than its password and
    /// the superuser nothing.
    #[must_use]
    pub fn socket_directory(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// The data directory.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("disk/data")
    }

    /// The server's version, for example `15.14`.
    #[must_use]
    pub fn version(&self) -> &str {
        self.binaries.version()
    }

    /// The password of [`USER`].
    #[must_use]
    pub fn password(&self) -> String {
        lock(&self.password).clone()
    }

    /// Who signed the server's certificate and signs those of clients; `None` without TLS.
    #[must_use]
    pub fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    /// How [`USER`] connects over TCP, with the strictest TLS that the server offers.
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

    /// Writes [`Postgres::params`] into a directory that lives as long as the server and returns its
    /// path.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn params_dir(&self) -> Result<PathBuf> {
        let directory = self.directory.path().join("params");
        self.params().write(&directory)?;
        Ok(directory)
    }

    /// The last lines of the server's log.
    #[must_use]
    pub fn log(&self) -> String {
        process::tail(&self.log_path())
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn root(&self) -> &Path {
        self.directory.path()
    }

    /// Starts it again after a stop or a kill, on the same port.
    ///
    /// # Errors
    /// When it does not start within a minute: the error holds the end of its log.
    pub async fn start_again(&self) -> Result<()> {
        let program = self.binaries.path("postgres");
        let mut command = if self.options.own_clock {
            self.command_with_clock(&program)?
        } else {
            self.account.command(program)
        };
        if let Some(preload) = &self.options.preload {
            let environment = preload
                .environment
                .iter()
                .map(|(name, value)| (name, value));
            command
                .env("LD_PRELOAD", &preload.library)
                .envs(environment);
        }
        command
            .arg("-D")
            .arg(self.data())
            .arg("-p")
            .arg(self.port.to_string())
            .arg("-k")
            .arg(self.socket_directory())
            .current_dir(self.root());
        self.server
            .launch(command, &self.log_path())
            .context("cannot start postgres")?;
        self.wait_ready().await
    }
}

/// Tests that panicked leave nothing half done in these locks.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
