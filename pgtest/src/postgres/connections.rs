//! Connections of tests themselves.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

use super::Postgres;
use crate::template::{DATABASE, USER};

const TIMEOUT: Duration = Duration::from_secs(10);
/// A number above any test's `max_connections`.
const MANY: usize = 1000;

/// Connections that take the room of others. Dropping them makes room again.
pub struct HeldConnections(Vec<Client>);

impl HeldConnections {
    /// Returns the number of connections.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl Postgres {
    /// Returns a connection of the superuser to the application's database, by the Unix socket.
    ///
    /// # Errors
    /// If the server does not accept it.
    pub async fn superuser(&self) -> Result<Client> {
        Ok(open(&self.local("postgres")).await?)
    }

    /// Returns a connection of [`USER`], by the Unix socket.
    ///
    /// # Errors
    /// If the server does not accept it.
    pub async fn client(&self) -> Result<Client> {
        let mut config = self.local(USER);
        config.password(self.password());
        Ok(open(&config).await?)
    }

    /// Runs statements as the superuser in the application's database.
    ///
    /// # Errors
    /// If one fails, or the server cannot be reached.
    pub async fn sql(&self, statements: &str) -> Result<()> {
        let client = self.superuser().await?;
        client
            .batch_execute(statements)
            .await
            .with_context(|| format!("cannot run {statements:?}"))
    }

    /// Sets another password of [`USER`]. Connections that are open stay.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn set_password(&self, password: &str) -> Result<()> {
        self.sql(&format!("ALTER ROLE {USER} PASSWORD '{password}'"))
            .await?;
        password.clone_into(&mut super::instance::lock(&self.password));
        Ok(())
    }

    /// Changes a setting for good. The server and its sessions follow soon after, unless it is one
    /// that needs a [`Postgres::restart`].
    ///
    /// # Errors
    /// If there is no such setting, or the server cannot be reached.
    pub async fn set(&self, setting: &str, value: &str) -> Result<()> {
        let client = self.superuser().await?;
        let change = format!("ALTER SYSTEM SET {setting} = '{value}'");
        client.execute(change.as_str(), &[]).await?;
        client.execute("SELECT pg_reload_conf()", &[]).await?;
        Ok(())
    }

    /// Ends all connections of [`USER`] and returns their number.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn terminate_connections(&self) -> Result<usize> {
        let client = self.superuser().await?;
        let ended = client
            .query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1",
                &[&USER],
            )
            .await?;
        Ok(ended.len())
    }

    /// Opens all connections that [`USER`] can still have.
    ///
    /// # Errors
    /// If the server cannot be reached, or has no limit that is near.
    pub async fn exhaust_connections(&self) -> Result<HeldConnections> {
        let mut held = Vec::new();
        let mut config = self.local(USER);
        config.password(self.password());
        loop {
            match open(&config).await {
                Ok(client) => held.push(client),
                Err(error) if error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS) => {
                    return Ok(HeldConnections(held));
                }
                Err(error) => return Err(error.into()),
            }
            ensure!(held.len() < MANY, "the server takes too many connections");
        }
    }

    fn local(&self, user: &str) -> Config {
        let mut config = Config::new();
        config
            .host_path(self.socket_directory())
            .port(self.port())
            .user(user)
            .dbname(DATABASE)
            .application_name("pgtest")
            .connect_timeout(TIMEOUT);
        config
    }
}

async fn open(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(async move {
        // Its errors reach the client.
        let _ = connection.await;
    });
    Ok(client)
}
