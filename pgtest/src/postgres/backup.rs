//! Backups, and states from the past.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::{Postgres, Shutdown};
use crate::command::run;
use crate::template::copy;

/// A base backup. It lives as long as its server.
#[derive(Debug)]
pub struct Backup {
    path: PathBuf,
}

/// The way in which a backup is brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeline {
    /// As a snapshot of a volume: the server cannot tell that it has been here before.
    Same,
    /// As an archive recovery: the server begins a new timeline.
    New,
}

impl Postgres {
    /// Takes a base backup of the running server.
    ///
    /// # Errors
    /// If it fails.
    pub async fn backup(&self) -> Result<Backup> {
        let path = self
            .root()
            .join(format!("backups/{:016x}", rand::random::<u64>()));
        self.base_backup(&path, false).await?;
        Ok(Backup { path })
    }

    /// Stops the server at once and starts it with the state of `backup`. Later writes are gone.
    ///
    /// # Errors
    /// If it does not start again.
    pub async fn restore(&self, backup: &Backup, timeline: Timeline) -> Result<()> {
        self.stop(Shutdown::Immediate).await?;
        let data = self.data();
        std::fs::remove_dir_all(&data)?;
        copy(&backup.path, &data).await?;
        if timeline == Timeline::New {
            self.recover_as_archive(&data)?;
        }
        self.start_again().await?;
        self.wait_writable().await
    }

    /// Configures an archive recovery from an empty archive: to the end of the backup's own log.
    fn recover_as_archive(&self, data: &Path) -> Result<()> {
        use std::io::Write as _;
        let file = data.join("recovery.signal");
        std::fs::write(&file, "")?;
        self.account.own(&file)?;
        let mut settings = std::fs::OpenOptions::new()
            .append(true)
            .open(data.join("postgresql.conf"))?;
        writeln!(settings, "restore_command = 'false'")?;
        Ok(())
    }

    async fn wait_writable(&self) -> Result<()> {
        let client = self.superuser().await?;
        while client
            .query_one("SELECT pg_is_in_recovery()", &[])
            .await?
            .get::<_, bool>(0)
        {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Copies the running server's data; for a `standby` with the files that it needs to follow the
    /// server.
    pub(super) async fn base_backup(&self, to: &Path, standby: bool) -> Result<()> {
        let mut command = self.account.command(self.binaries.path("pg_basebackup"));
        command
            .arg("-h")
            .arg(self.socket_directory())
            .args(["-p", &self.port().to_string(), "-U", "postgres"])
            .args(["--checkpoint=fast", "--wal-method=stream", "--no-sync"])
            .arg("-D")
            .arg(to)
            .env("HOME", self.root())
            .current_dir(self.root());
        if standby {
            command.arg("--write-recovery-conf");
        }
        run(command, "")
            .await
            .map(drop)
            .context("cannot take a base backup")
    }
}
