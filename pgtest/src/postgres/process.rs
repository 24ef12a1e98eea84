//! The server's process.

use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::Postgres;
use super::instance::lock;
use crate::workdir;

/// Time that is enough for a recovery on a machine that does other things too.
const TO_START: Duration = Duration::from_mins(1);
pub(super) const TO_END: Duration = Duration::from_mins(1);
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(5);
const TAIL_BYTES: usize = 4096;

/// The postmaster, when one was started.
#[derive(Default)]
pub struct Server(Mutex<Option<Child>>);

impl Server {
    /// Starts it, but does not wait until it is ready.
    pub fn launch(&self, mut command: Command, log: &Path) -> Result<()> {
        let mut child = lock(&self.0);
        ensure!(
            child.is_none(),
            "it runs already, or nobody waited for its end"
        );
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        *child = Some(command.spawn()?);
        Ok(())
    }

    /// Returns the process, when it runs.
    pub fn pid(&self) -> Option<u32> {
        lock(&self.0).as_ref().map(Child::id)
    }

    /// Returns whether it has ended by itself. From then on another can be launched.
    fn is_gone(&self) -> Result<bool> {
        let mut child = lock(&self.0);
        let gone = match child.as_mut() {
            Some(running) => running.try_wait()?.is_some(),
            None => true,
        };
        if gone {
            *child = None;
        }
        Ok(gone)
    }

    /// Waits for the end.
    pub async fn end(&self) -> Result<()> {
        let deadline = Instant::now() + TO_END;
        while !self.is_gone()? {
            ensure!(Instant::now() < deadline, "postgres did not end in time");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }
}

impl Drop for Server {
    /// Ends it at once; the directory's watcher ends the processes that do not react.
    fn drop(&mut self) {
        let Some(mut child) = lock(&self.0).take() else {
            return;
        };
        let pid = [child.id()];
        let _ = workdir::signal("QUIT", &pid);
        let _ = workdir::signal("CONT", &pid);
        let deadline = Instant::now() + Duration::from_secs(1);
        while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK_AGAIN);
        }
        if matches!(child.try_wait(), Ok(None)) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Postgres {
    /// Waits until it accepts connections.
    pub(super) async fn wait_ready(&self) -> Result<()> {
        let deadline = Instant::now() + TO_START;
        loop {
            if self.server.is_gone()? {
                bail!("postgres ended: {}", self.log());
            }
            match self.superuser().await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    return Err(error)
                        .with_context(|| format!("not ready in time: {}", self.log()));
                }
                Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// Waits until the server has ended by itself, as it does when it cannot recover from a crash.
    ///
    /// # Errors
    /// If it still runs after a minute.
    pub async fn wait_end(&self) -> Result<()> {
        self.server.end().await
    }
}

/// Returns whether a server did not start because of its port.
pub fn is_port_taken(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains("Address already in use")
}

/// Returns the end of a file.
pub fn tail(path: &Path) -> String {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let bytes = u64::try_from(TAIL_BYTES).unwrap_or(0);
        file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end)?;
        Ok(end)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}
