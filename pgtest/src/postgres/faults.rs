//! The faults of a server.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::process::{LOOK_AGAIN, TO_END};
use super::{Postgres, config};
use crate::tls::{Authority, Pair};
use crate::workdir::{processes, signal};

/// The way in which a server is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Ends all sessions, writes everything to disk. The official image does so on Kubernetes'
    /// SIGTERM.
    Fast,
    /// Ends at once; the next start recovers from the log.
    Immediate,
}

impl Postgres {
    /// Stops it and waits for its end.
    ///
    /// # Errors
    /// If it does not end within a minute.
    pub async fn stop(&self, how: Shutdown) -> Result<()> {
        let pid = self.server.pid().context("it does not run")?;
        let name = match how {
            Shutdown::Fast => "INT",
            Shutdown::Immediate => "QUIT",
        };
        signal(name, &[pid])?;
        self.server.end().await
    }

    /// Stops it and starts it again.
    ///
    /// # Errors
    /// As [`Postgres::stop`] and [`Postgres::start_again`].
    pub async fn restart(&self, how: Shutdown) -> Result<()> {
        self.stop(how).await?;
        self.start_again().await
    }

    /// Kills all its processes with SIGKILL, as a node that dies.
    ///
    /// # Errors
    /// If they do not end within a minute.
    pub async fn kill(&self) -> Result<()> {
        let pid = self.server.pid().context("it does not run")?;
        // The first of them would start others in their place.
        signal("KILL", &[pid])?;
        // The shared memory is in use, and no other server starts, until the last of them is gone;
        // one that waits for the disk goes late.
        let deadline = Instant::now() + TO_END;
        loop {
            let left = processes(&self.data())?;
            if left.is_empty() {
                return self.server.end().await;
            }
            ensure!(Instant::now() < deadline, "{left:?} did not end in time");
            signal("KILL", &left)?;
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Stops the clock for all its processes (SIGSTOP): connections stay open, and nobody answers.
    ///
    /// # Errors
    /// If its processes cannot be found.
    pub fn pause(&self) -> Result<()> {
        let pid = self.server.pid().context("it does not run")?;
        signal("STOP", &[pid])?;
        signal("STOP", &processes(&self.data())?)
    }

    /// Ends a [`Postgres::pause`].
    ///
    /// # Errors
    /// If its processes cannot be found.
    pub fn resume(&self) -> Result<()> {
        signal("CONT", &processes(&self.data())?)
    }

    /// Makes new sessions read-only, or ends that. Sessions that are open follow with their next
    /// transaction, unless they have set it themselves.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn set_read_only(&self, read_only: bool) -> Result<()> {
        let value = if read_only { "on" } else { "off" };
        self.set("default_transaction_read_only", value).await
    }

    /// Installs another certificate of the server, which new connections see.
    ///
    /// # Errors
    /// If it cannot be written, or the server cannot be reached.
    pub async fn set_certificate(&self, pair: &Pair) -> Result<()> {
        config::write_server_pair(&self.data(), pair, self.account)?;
        self.reload().await
    }

    /// Accepts the clients of these authorities, and no others.
    ///
    /// # Errors
    /// If it cannot be written, or the server cannot be reached.
    pub async fn set_client_authorities(&self, authorities: &[&Authority]) -> Result<()> {
        let pems: String = authorities
            .iter()
            .map(|authority| authority.pem())
            .collect();
        config::write_client_authority(&self.data(), &pems, self.account)?;
        self.reload().await
    }

    async fn reload(&self) -> Result<()> {
        self.sql("SELECT pg_reload_conf()").await
    }

    /// Makes a standby take over, and waits until it can be written.
    ///
    /// # Errors
    /// If it is no standby, or does not take over within a minute.
    pub async fn promote(&self) -> Result<()> {
        self.sql("SELECT pg_promote(true, 60)").await
    }

    /// Makes a primary a standby that follows nobody: it can be read only, as after a failover to
    /// another.
    ///
    /// # Errors
    /// As [`Postgres::stop`] and [`Postgres::start_again`].
    pub async fn demote(&self) -> Result<()> {
        self.stop(Shutdown::Fast).await?;
        let file = self.data().join("standby.signal");
        std::fs::write(&file, "")?;
        self.account.own(&file)?;
        self.start_again().await
    }
}
