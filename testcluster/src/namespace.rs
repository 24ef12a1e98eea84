//! The namespaces of a cluster: their founder, and the commands in them.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, io};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::Error;
use super::error::IoContext;
use super::parts::{cluster_program, search_path};
use super::state::{self, StateDir};

const SCRIPT: &str = include_str!("../namespace.sh");

/// Founds the namespaces and starts the agent in them. The child's standard input is the
/// cluster's lifeline.
pub(super) fn found(state: &StateDir, parts: &[PathBuf]) -> Result<Child, Error> {
    let program = cluster_program()?;
    let script = state.join("namespace.sh");
    state::write(&script, SCRIPT)?;
    let log_path = state.log("agent");
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&log_path)
        .context(|| format!("open {}", log_path.display()))?;
    let errors = log.try_clone().context(|| "open the agent's log")?;
    Command::new("unshare")
        .args([
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
        ])
        .args(["sh", "-eu"])
        .args([&script, &program, state.path()])
        .env("PATH", search_path(parts))
        .stdin(Stdio::piped())
        .stdout(log)
        .stderr(errors)
        // An interrupt from the terminal is for the test, which ends the cluster.
        .process_group(0)
        .spawn()
        .context(|| "run `unshare` (package util-linux)")
}

/// Returns whether the process `pid` is the founder of the namespaces of this cluster. It ends
/// after the last process in them.
pub(super) fn is_founder(pid: u32, state: &StateDir) -> bool {
    let path = state.path().as_os_str().as_bytes();
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
        let mut words = line.split(|byte| *byte == 0);
        words
            .next()
            .is_some_and(|program| program.ends_with(b"unshare"))
            && words.any(|word| word == path)
    })
}

/// Returns a listener inside of the cluster's network, for a process outside of it: a socket stays
/// in the namespace that its thread was in. `pid` is that of `unshare`.
pub(super) fn listen(pid: u32, address: SocketAddr) -> io::Result<TcpListener> {
    let namespace = fs::File::open(format!("/proc/{pid}/ns/net"))?;
    let thread = std::thread::spawn(move || {
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(namespace.as_fd(), kind)?;
        TcpListener::bind(address)
    });
    let ended = |_| io::Error::other("the thread that listens has panicked");
    thread.join().map_err(ended)?
}

/// Returns a command that will run `program` inside of the cluster's network, with the files,
/// the process ids and the working directory of the caller. `pid` is that of `unshare`.
pub(super) fn command(pid: u32, parts: &[PathBuf], program: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net=/proc/{pid}/ns/net"))
        .arg("--")
        .arg(program)
        .env("PATH", search_path(parts));
    command
}

/// Returns a command as [`command`] does, with the cluster's mounts and process ids, and without
/// the program.
pub(super) fn shell(pid: u32, parts: &[PathBuf]) -> Command {
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net=/proc/{pid}/ns/net"))
        .arg(format!("--mount=/proc/{pid}/ns/mnt"))
        // Its /proc is that of the cluster's processes.
        .arg(format!("--pid=/proc/{pid}/ns/pid_for_children"));
    if let Ok(directory) = env::current_dir() {
        let mut option = OsString::from("--wdns=");
        option.push(directory);
        command.arg(option);
    }
    command.arg("--").env("PATH", search_path(parts));
    command
}
