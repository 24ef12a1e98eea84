//! The user under whom servers run.

use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, ensure};

/// PostgreSQL and pgbouncer refuse to run as root: root runs them as the user `postgres`, which
/// their packages create; any other user runs them as itself.
#[derive(Debug, Clone, Copy)]
pub struct Account {
    uid: u32,
    gid: u32,
    switch: bool,
}

impl Account {
    /// Returns the account of this process's servers.
    pub fn of_servers() -> Result<Self> {
        static FOUND: OnceLock<Account> = OnceLock::new();
        if let Some(found) = FOUND.get() {
            return Ok(*found);
        }
        let me = std::fs::metadata("/proc/self").context("cannot read /proc/self")?;
        let account = if me.uid() == 0 {
            Self {
                uid: id("-u")?,
                gid: id("-g")?,
                switch: true,
            }
        } else {
            Self {
                uid: me.uid(),
                gid: me.gid(),
                switch: false,
            }
        };
        Ok(*FOUND.get_or_init(|| account))
    }

    /// Returns whether this process may mount file systems.
    pub fn is_privileged(self) -> bool {
        self.switch
    }

    /// Returns a command that runs `program` under this account.
    pub fn command(self, program: impl AsRef<OsStr>) -> Command {
        if !self.switch {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={}", self.uid))
            .arg(format!("--regid={}", self.gid))
            .args(["--clear-groups", "--"])
            .arg(program);
        command
    }

    /// Makes the account the owner of `path`, but not of its content.
    pub fn own(self, path: &Path) -> Result<()> {
        chown(path, Some(self.uid), Some(self.gid))
            .with_context(|| format!("cannot change the owner of {}", path.display()))
    }
}

fn id(which: &str) -> Result<u32> {
    let output = Command::new("id").args([which, "postgres"]).output()?;
    ensure!(
        output.status.success(),
        "there is no user postgres; run hack/deps postgres"
    );
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .with_context(|| format!("`id {which} postgres` printed {text:?}"))
}
