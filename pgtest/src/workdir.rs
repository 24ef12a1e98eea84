//! Directories that vanish, with every process in them.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// Script that waits until its standard input ends, which also happens when the process at the
/// other end is killed, then ends every process that works below the directory and removes it.
/// Servers get SIGQUIT first, as both PostgreSQL and pgbouncer then end at once and tidily, also
/// when they were stopped.
const WATCHER: &str = r#"
cat >/dev/null
dir=$1
processes() { ls -l /proc/[0-9]*/cwd 2>/dev/null | sed -n "s|.*/proc/\([0-9]*\)/cwd -> $dir\(/.*\)\{0,1\}\$|\1|p"; }
signal=QUIT
tries=0
while pids=$(processes); [ -n "$pids" ]; do
	kill -$signal $pids; kill -CONT $pids
	tries=$((tries + 1))
	[ $tries -lt 100 ] || signal=KILL
	sleep 0.05
done
while umount -l "$dir/disk"; do :; done
rm -rf "$dir"
"#;

/// A directory below the system's temporary one. Dropping it ends all processes whose working
/// directory is below it and removes it; so does the end of this process, however it comes.
#[derive(Debug)]
pub struct Workdir {
    path: PathBuf,
    watcher: Child,
}

impl Workdir {
    /// Returns a new directory that every user can enter.
    pub fn new(purpose: &str) -> Result<Self> {
        let path = tempfile::Builder::new()
            .prefix(&format!("pgtest-{purpose}-"))
            .permissions(std::fs::Permissions::from_mode(0o755))
            .tempdir()
            .context("cannot make a temporary directory")?
            .keep();
        // The kernel shows working directories without symbolic links.
        let path = path.canonicalize()?;
        ensure!(
            path.to_str().is_some_and(|path| path
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.'))),
            "{} has characters that the watcher of servers does not expect; set TMPDIR to a plain path",
            path.display()
        );
        let watcher = Command::new("sh")
            .args(["-c", WATCHER, "pgtest-watcher"])
            .arg(&path)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the watcher")?;
        Ok(Self { path, watcher })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Workdir {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}

/// Returns the processes whose working directory is `directory` or below it.
pub fn processes(directory: &Path) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").context("cannot read /proc")? {
        let entry = entry?;
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // Gone meanwhile, or another user's.
        let Ok(cwd) = std::fs::read_link(entry.path().join("cwd")) else {
            continue;
        };
        if cwd.starts_with(directory) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Sends `signal` (as kill(1) names it) to processes. Processes that are gone are ignored.
pub fn signal(signal: &str, pids: &[u32]) -> Result<()> {
    if pids.is_empty() {
        return Ok(());
    }
    Command::new("sh")
        .args(["-c", "kill -\"$@\"", "pgtest-kill", signal])
        .args(pids.iter().map(ToString::to_string))
        .stderr(Stdio::null())
        .status()
        .context("cannot run sh")?;
    Ok(())
}
