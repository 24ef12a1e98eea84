//! A pooler.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::net::TcpStream;

use crate::account::Account;
use crate::params::Params;
use crate::port;
use crate::postgres::Postgres;
use crate::template::{DATABASE, USER};
use crate::workdir::{Workdir, processes, signal};

const PROGRAM: &str = "/usr/sbin/pgbouncer";
const TO_START: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Options of a pooler.
#[derive(Debug, Clone)]
pub struct PgbouncerOptions {
    /// Number of connections that it keeps to the server.
    pub pool_size: u32,
    /// Further settings of pgbouncer.ini.
    pub settings: Vec<(String, String)>,
}

impl Default for PgbouncerOptions {
    fn default() -> Self {
        Self {
            pool_size: 20,
            settings: Vec::new(),
        }
    }
}

/// A pgbouncer in transaction mode, otherwise with its defaults: it knows few of a client's
/// start-up parameters, and prepared statements, session settings and LISTEN do not outlive a
/// transaction. Clients connect without TLS. Gone when dropped.
pub struct Pgbouncer {
    child: Child,
    port: u16,
    password: String,
    options: PgbouncerOptions,
    server: (PathBuf, u16),
    account: Account,
    directory: Workdir,
}

impl Pgbouncer {
    /// Starts a pooler in front of `server`, which it reaches by the Unix socket.
    ///
    /// # Errors
    /// If pgbouncer is not installed or does not start: the error holds its log.
    pub async fn start(server: &Postgres, options: PgbouncerOptions) -> Result<Self> {
        let account = Account::of_servers()?;
        let directory = Workdir::new("pgbouncer")?;
        account.own(directory.path())?;
        let port = port::free()?;
        let server_at = (server.socket_directory(), server.port());
        let password = server.password();
        let text = ini(&server_at, port, &directory, &options);
        std::fs::write(directory.path().join("pgbouncer.ini"), text)?;
        write_users(&directory, &password)?;
        let child = launch(account, &directory)?;
        let mut new = Self {
            child,
            port,
            password,
            options,
            server: server_at,
            account,
            directory,
        };
        new.wait_ready().await?;
        Ok(new)
    }

    async fn wait_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + TO_START;
        while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            if self.child.try_wait()?.is_some() || Instant::now() > deadline {
                bail!("pgbouncer does not run: {}", self.log());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// Returns the port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its log.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Returns the parameters by which clients connect to it.
    #[must_use]
    pub fn params(&self) -> Params {
        Params::new()
            .with("host", "127.0.0.1")
            .with("port", self.port.to_string())
            .with("dbname", DATABASE)
            .with("username", USER)
            .with("password", self.password.as_str())
            .with("sslmode", "disable")
    }

    /// Lets clients in with another password, which it also uses at the server.
    ///
    /// # Errors
    /// If its files cannot be written.
    pub fn set_password(&mut self, password: &str) -> Result<()> {
        password.clone_into(&mut self.password);
        write_users(&self.directory, password)?;
        signal("HUP", &[self.child.id()])
    }

    /// Sends it to another server, as an administrator does after a failover. Connections to the
    /// old one end with their transactions.
    ///
    /// # Errors
    /// If its files cannot be written.
    pub fn retarget(&mut self, server: &Postgres) -> Result<()> {
        self.server = (server.socket_directory(), server.port());
        let text = ini(&self.server, self.port, &self.directory, &self.options);
        std::fs::write(self.directory.path().join("pgbouncer.ini"), text)?;
        signal("HUP", &[self.child.id()])
    }

    /// Stops the clock for it (SIGSTOP).
    ///
    /// # Errors
    /// If its process cannot be found.
    pub fn pause(&self) -> Result<()> {
        signal("STOP", &processes(self.directory.path())?)
    }

    /// Ends a [`Pgbouncer::pause`].
    ///
    /// # Errors
    /// If its process cannot be found.
    pub fn resume(&self) -> Result<()> {
        signal("CONT", &processes(self.directory.path())?)
    }

    /// Kills it and starts it again.
    ///
    /// # Errors
    /// As [`Pgbouncer::start`].
    pub async fn restart(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.child = launch(self.account, &self.directory)?;
        self.wait_ready().await
    }
}

impl Drop for Pgbouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(account: Account, directory: &Workdir) -> Result<Child> {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(directory.path().join("log"))?;
    account
        .command(PROGRAM)
        .arg(directory.path().join("pgbouncer.ini"))
        .current_dir(directory.path())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("cannot start pgbouncer; run hack/deps postgres")
}

fn ini(
    server: &(PathBuf, u16),
    port: u16,
    directory: &Workdir,
    options: &PgbouncerOptions,
) -> String {
    let mut text = format!(
        "[databases]\n\
         {DATABASE} = host={socket} port={server_port}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = scram-sha-256\n\
         auth_file = {directory}/users.txt\n\
         pool_mode = transaction\n\
         default_pool_size = {pool_size}\n",
        socket = server.0.display(),
        server_port = server.1,
        directory = directory.path().display(),
        pool_size = options.pool_size,
    );
    for (name, value) in &options.settings {
        let _ = writeln!(text, "{name} = {value}");
    }
    text
}

fn write_users(directory: &Workdir, password: &str) -> Result<()> {
    let path = directory.path().join("users.txt");
    std::fs::write(path, format!("\"{USER}\" \"{password}\"\n"))?;
    Ok(())
}
