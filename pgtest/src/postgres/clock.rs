//! A clock that can be set.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::Postgres;

const LIBRARY: &str = "faketime/libfaketime.so.1";

impl Postgres {
    /// Sets the clock to `seconds` from the real time, within a second. All processes of the server
    /// see it.
    ///
    /// # Errors
    /// If it has no clock of its own.
    pub fn step_clock(&self, seconds: i64) -> Result<()> {
        ensure!(
            self.options.own_clock,
            "only a server with its own clock can have it set"
        );
        std::fs::write(self.clock(), format!("{seconds:+}"))?;
        Ok(())
    }

    /// Returns a command for `program`, whose time is the real one until the clock is set.
    pub(super) fn command_with_clock(&self, program: &Path) -> Result<Command> {
        if !self.clock().exists() {
            self.step_clock(0)?;
        }
        // Not in the environment of what switches the user: the library shares memory with all
        // that it finds itself in.
        let mut command = self.account.command("env");
        command
            .arg(format!("LD_PRELOAD={}", library()?.display()))
            .arg(format!(
                "FAKETIME_TIMESTAMP_FILE={}",
                self.clock().display()
            ))
            .args([
                "FAKETIME_CACHE_DURATION=1",
                "FAKETIME_DONT_FAKE_MONOTONIC=1",
            ])
            .arg(program);
        Ok(command)
    }

    fn clock(&self) -> PathBuf {
        self.root().join("clock")
    }
}

/// Returns the path of the library. Libraries are in a folder named after the architecture.
fn library() -> Result<PathBuf> {
    std::fs::read_dir(Path::new("/usr/lib"))?
        .filter_map(|entry| Some(entry.ok()?.path().join(LIBRARY)))
        .find(|path| path.exists())
        .context("no libfaketime; run hack/deps postgres")
}
