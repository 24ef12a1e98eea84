//! Starting a server.

use anyhow::{Context as _, Result};

use super::options::{Disk, PostgresOptions, Tls};
use super::{Postgres, config, disk, process};
use crate::account::Account;
use crate::binaries::Binaries;
use crate::port;
use crate::template::{self, USER};
use crate::tls::Authority;
use crate::workdir::Workdir;

/// Number of ports that are tried when somebody else was quicker.
const PORTS: usize = 5;

impl Postgres {
    /// Starts a new server and waits until it accepts connections.
    ///
    /// # Errors
    /// If PostgreSQL is not installed or does not start: the error holds the end of its log.
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

    /// Returns a server whose data directory is still to be filled.
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

    /// Starts it again after a stop or a kill, on the same port.
    ///
    /// # Errors
    /// If it does not start within a minute: the error holds the end of its log.
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
