//! The files of a cluster, and the difference between a crashed one and a living one: the agent
//! holds a lock on a file as long as it lives, and the kernel releases it.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use std::{env, thread};

use serde::{Deserialize, Serialize};

use super::error::IoContext;
use super::options::check_name;
use super::{Error, Shape, cgroup};

/// Time for which failed clusters' logs are kept.
const FAILED_LOGS_KEPT: Duration = Duration::from_hours(24);
/// Longest time for the kernel to end all processes of a namespace, which takes a moment.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the directory that holds those of all clusters of this machine:
/// `$REPORTS_SERVER_CLUSTERS`, else `/tmp/reports-server-clusters`. Short, because the path of a
/// Unix socket has at most 107 bytes.
#[must_use]
pub fn base() -> PathBuf {
    env::var_os("REPORTS_SERVER_CLUSTERS").map_or_else(
        || PathBuf::from("/tmp/reports-server-clusters"),
        PathBuf::from,
    )
}
/// Longest time for a lock that is only tested, which is held for microseconds.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);

/// The facts of a running cluster that other processes need.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) shape: Shape,
    /// Number of kube-apiservers: indexes 0 to `apiservers - 1` were started.
    pub(super) apiservers: usize,
    pub(super) apiserver_args: Vec<String>,
    pub(super) controller_args: Vec<String>,
    pub(super) fsync: bool,
    pub(super) ready_timeout: Duration,
    /// Process (outside) whose network and mount namespaces are the cluster's.
    pub(super) pid: u32,
    /// Folders of the parts, see `hack/cluster parts`.
    pub(super) parts: Vec<PathBuf>,
}

/// The files of one cluster.
#[derive(Clone, Debug)]
pub(super) struct StateDir {
    path: PathBuf,
}

/// The lock of an agent, held for its life.
pub(super) struct AgentLock(#[expect(dead_code, reason = "held for its lock")] File);

impl StateDir {
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn of(name: &str) -> Result<Self, Error> {
        check_name(name)?;
        Ok(Self::at(base().join(name)))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path.join(path)
    }

    pub(super) fn name(&self) -> String {
        self.path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    pub(super) fn agent_socket(&self) -> PathBuf {
        self.join("agent.sock")
    }

    pub(super) fn logs(&self) -> PathBuf {
        self.join("logs")
    }

    pub(super) fn pod_logs(&self) -> PathBuf {
        self.join("pod-logs")
    }

    pub(super) fn log(&self, process: &str) -> PathBuf {
        self.logs().join(format!("{process}.log"))
    }

    /// Returns the kubeconfig of a user (a component's name, or `admin`) for use inside.
    pub(super) fn kubeconfig(&self, user: &str) -> PathBuf {
        self.join("kubeconfig").join(format!("{user}.conf"))
    }

    /// Returns the path of a certificate or key.
    pub(super) fn pki(&self, file: &str) -> PathBuf {
        self.join("pki").join(file)
    }

    /// Makes the directory with all below it.
    pub(super) fn create(&self) -> Result<(), Error> {
        for directory in ["logs", "pki", "kubeconfig", "config"] {
            let path = self.join(directory);
            fs::create_dir_all(&path).context(|| format!("create {}", path.display()))?;
        }
        Ok(())
    }

    pub(super) fn write_record(&self, record: &Record) -> Result<(), Error> {
        let json = serde_json::to_vec_pretty(record).map_err(|source| Error::Json {
            what: "cluster.json".into(),
            source,
        })?;
        write(&self.join("cluster.json"), json)
    }

    pub(super) fn read_record(&self) -> Result<Record, Error> {
        let path = self.join("cluster.json");
        let json = fs::read(&path).context(|| format!("read {}", path.display()))?;
        serde_json::from_slice(&json).map_err(|source| Error::Json {
            what: path.display().to_string(),
            source,
        })
    }

    pub(super) fn lock_as_agent(&self) -> Result<AgentLock, Error> {
        let path = self.join("agent.lock");
        let file = File::create(&path).context(|| format!("create {}", path.display()))?;
        let mut locked = Ok(());
        // Whoever asks whether this cluster lives holds the lock for a moment.
        poll(LOCK_TIMEOUT, || {
            locked = file.try_lock();
            !matches!(locked, Err(TryLockError::WouldBlock))
        });
        match locked {
            Ok(()) => Ok(AgentLock(file)),
            Err(TryLockError::WouldBlock) => Err(Error::Running(self.name())),
            Err(TryLockError::Error(source)) => Err(Error::Io {
                what: format!("lock {}", path.display()),
                source,
            }),
        }
    }

    /// Returns whether the cluster's agent lives.
    pub(super) fn alive(&self) -> bool {
        File::open(self.join("agent.lock"))
            .is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Removes the rest of a dead cluster: its cgroups and its directory.
    pub(super) fn remove(&self) -> Result<(), Error> {
        let mut removed = Ok(());
        // Its last processes may still be ending, and a cgroup is busy until they have.
        poll(END_TIMEOUT, || {
            removed = cgroup::remove(&self.name()).and_then(|()| {
                if self.path.exists() {
                    fs::remove_dir_all(&self.path)
                } else {
                    Ok(())
                }
            });
            removed.is_ok()
        });
        removed.context(|| format!("remove {}", self.path.display()))
    }

    /// Moves the logs, those of pods as well, out of the directory, so that they outlive the
    /// cluster; returns their new place.
    pub(super) fn keep_logs(&self) -> Option<PathBuf> {
        let kept = base().join(".failed").join(self.name());
        let _ = fs::remove_dir_all(&kept);
        fs::create_dir_all(kept.parent()?).ok()?;
        fs::rename(self.logs(), &kept).ok()?;
        // A cluster without a node has none.
        let _ = fs::rename(self.pod_logs(), kept.join("pods"));
        Some(kept)
    }
}

/// Writes a file whole.
pub(super) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Error> {
    fs::write(path, content).context(|| format!("write {}", path.display()))
}

/// Asks until `done`, or until `timeout` has passed; returns the last answer. It is for conditions
/// that the kernel does not announce, where nothing asynchronous can run.
pub(super) fn poll(timeout: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// The lock on all clusters, held while clusters are swept and a new one is founded, until its
/// agent has its lock.
pub(super) struct BaseLock(#[expect(dead_code, reason = "held for its lock")] File);

/// Takes the lock on all clusters of this machine, waiting for it.
pub(super) fn lock_base() -> Result<BaseLock, Error> {
    let base = base();
    fs::create_dir_all(&base).context(|| format!("create {}", base.display()))?;
    let path = base.join(".lock");
    let file = File::create(&path).context(|| format!("create {}", path.display()))?;
    file.lock().context(|| format!("lock {}", path.display()))?;
    Ok(BaseLock(file))
}

/// Returns the names of the clusters that have a directory, whether alive or not.
pub(super) fn names() -> Vec<String> {
    let Ok(entries) = fs::read_dir(base()) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| check_name(name).is_ok())
        .collect();
    names.sort();
    names
}

/// Removes the rest of crashed clusters, and old logs.
pub(super) fn sweep(_held: &BaseLock) -> Result<(), Error> {
    for name in names() {
        let state = StateDir::of(&name)?;
        if !state.alive() {
            state.remove()?;
        }
    }
    let Ok(entries) = fs::read_dir(base().join(".failed")) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let old = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|time| {
                SystemTime::now()
                    .duration_since(time)
                    .is_ok_and(|age| age > FAILED_LOGS_KEPT)
            });
        if old {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Returns the last `count` lines of a file; empty when there is none.
pub(super) fn tail(path: &Path, count: usize) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_lives_while_its_agent_holds_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDir::at(directory.path().to_owned());
        assert!(!state.alive(), "no lock file");
        let lock = state.lock_as_agent().unwrap();
        assert!(state.alive());
        assert!(matches!(state.lock_as_agent(), Err(Error::Running(_))));
        drop(lock);
        assert!(!state.alive(), "a stale lock file");
    }

    #[test]
    fn the_tail_of_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        assert_eq!(tail(&path, 2), "");
        fs::write(&path, "a\nb\nc\n").unwrap();
        assert_eq!(tail(&path, 2), "b\nc");
        assert_eq!(tail(&path, 9), "a\nb\nc");
    }
}
