//! The processes that the agent runs.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, kill_process};
use tokio::process::Command;
use tokio::sync::watch;

use super::protocol::{ProcessInfo, ProcessSpec, Signal};

/// The end of a process; `None` while it runs.
type Ending = Option<String>;

struct Process {
    pid: u32,
    ending: watch::Receiver<Ending>,
}

/// The processes that the agent runs, by name.
#[derive(Clone)]
pub(super) struct Processes {
    logs: PathBuf,
    by_name: Arc<Mutex<BTreeMap<String, Process>>>,
}

impl Processes {
    /// Returns an empty list of processes, whose output goes into files below `logs`.
    pub(super) fn new(logs: PathBuf) -> Self {
        Self {
            logs,
            by_name: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Process>> {
        // Every change of the map is a single call, so a panic leaves it whole.
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process. Its name must not be that of a running one.
    pub(super) fn spawn(&self, spec: &ProcessSpec) -> Result<(), String> {
        let mut by_name = self.lock();
        if by_name
            .get(&spec.name)
            .is_some_and(|process| process.ending.borrow().is_none())
        {
            return Err(format!("a process '{}' is running already", spec.name));
        }
        let mut child = command(spec, &self.logs)
            .and_then(|mut command| command.spawn())
            .map_err(|error| {
                format!(
                    "cannot start '{}' ({}): {error}",
                    spec.name,
                    spec.program.display()
                )
            })?;
        let (ended, ending) = watch::channel(None);
        let pid = child.id().unwrap_or_default();
        tokio::spawn(async move {
            let ending = match child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => format!("unknown: {error}"),
            };
            ended.send_replace(Some(ending));
        });
        by_name.insert(spec.name.clone(), Process { pid, ending });
        Ok(())
    }

    /// Sends a signal. `Term` and `Kill` have nothing to do on a process that has ended, and the
    /// others are an error.
    pub(super) fn signal(&self, name: &str, signal: Signal) -> Result<(), String> {
        let by_name = self.lock();
        let process = by_name.get(name).ok_or_else(|| unknown(name))?;
        if let Some(ending) = process.ending.borrow().as_ref() {
            return match signal {
                Signal::Term | Signal::Kill => Ok(()),
                _ => Err(format!("'{name}' has ended: {ending}")),
            };
        }
        // The child was not waited for yet, so its id is not another process's.
        i32::try_from(process.pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| format!("'{name}' has no process id"))
            .and_then(|pid| {
                kill_process(pid, number(signal)).map_err(|error| format!("'{name}': {error}"))
            })
    }

    /// Returns when the process has ended.
    pub(super) async fn wait(&self, name: &str) -> Result<ProcessInfo, String> {
        let mut ending = {
            let by_name = self.lock();
            by_name
                .get(name)
                .ok_or_else(|| unknown(name))?
                .ending
                .clone()
        };
        // An error means that the waiting task is gone, which happens when the agent ends.
        let _ = ending.wait_for(Option::is_some).await;
        self.list()
            .into_iter()
            .find(|info| info.name == name)
            .ok_or_else(|| unknown(name))
    }

    /// Returns all processes, also those that have ended.
    pub(super) fn list(&self) -> Vec<ProcessInfo> {
        let by_name = self.lock();
        by_name
            .iter()
            .map(|(name, process)| {
                let ended = process.ending.borrow().clone();
                let resident_bytes = if ended.is_none() {
                    resident_bytes(process.pid)
                } else {
                    0
                };
                ProcessInfo {
                    name: name.clone(),
                    pid: process.pid,
                    ended,
                    resident_bytes,
                }
            })
            .collect()
    }
}

fn unknown(name: &str) -> String {
    format!("there is no process '{name}'")
}

fn number(signal: Signal) -> rustix::process::Signal {
    match signal {
        Signal::Term => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
        Signal::Stop => rustix::process::Signal::STOP,
        Signal::Cont => rustix::process::Signal::CONT,
        Signal::Hup => rustix::process::Signal::HUP,
    }
}

fn command(spec: &ProcessSpec, logs: &Path) -> std::io::Result<Command> {
    let log: File = OpenOptions::new()
        .create(true)
        .append(true)
        .open(logs.join(format!("{}.log", spec.name)))?;
    let mut command = Command::new(&spec.program);
    command
        .args(&spec.args)
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    Ok(command)
}

fn resident_bytes(pid: u32) -> u64 {
    fs::read_to_string(format!("/proc/{pid}/status")).map_or(0, |status| parse_resident(&status))
}

/// Returns `VmRSS` of a `/proc/PID/status` (which counts in KiB), in bytes.
fn parse_resident(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|value| value.trim().strip_suffix(" kB"))
        .and_then(|kib| kib.trim().parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_from_proc() {
        assert_eq!(
            parse_resident("Name:\tetcd\nVmRSS:\t  1234 kB\nThreads:\t4\n"),
            1234 * 1024
        );
        assert_eq!(parse_resident("Name:\tzombie\n"), 0);
    }

    #[tokio::test]
    async fn a_process_runs_is_signalled_and_ends() {
        let logs = tempfile::tempdir().unwrap();
        let processes = Processes::new(logs.path().to_owned());
        let spec = ProcessSpec::new("sleeper", "sh").args(["-c", "echo started; exec sleep 600"]);
        processes.spawn(&spec).unwrap();
        assert!(
            processes
                .spawn(&spec)
                .unwrap_err()
                .contains("running already")
        );
        processes.signal("sleeper", Signal::Kill).unwrap();
        let info = processes.wait("sleeper").await.unwrap();
        assert!(info.ended.unwrap().contains("signal: 9"));
        processes.signal("sleeper", Signal::Kill).unwrap();
        assert!(
            processes
                .signal("sleeper", Signal::Cont)
                .unwrap_err()
                .contains("has ended")
        );
        assert!(
            processes
                .signal("nobody", Signal::Kill)
                .unwrap_err()
                .contains("no process")
        );
        processes.spawn(&spec).unwrap();
        processes.signal("sleeper", Signal::Term).unwrap();
        processes.wait("sleeper").await.unwrap();
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let logs = tempfile::tempdir().unwrap();
        let processes = Processes::new(logs.path().to_owned());
        let error = processes
            .spawn(&ProcessSpec::new("x", "/nonexistent/x"))
            .unwrap_err();
        assert!(error.contains("/nonexistent/x"), "{error}");
    }
}
