//! The messages over the agent's socket: one JSON line each way. After the answer to `Connect` the
//! socket carries the connection's bytes.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A process to run inside of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSpec {
    /// Unique among the running ones; its output goes to `logs/NAME.log`.
    pub name: String,
    /// A path, or a name that is looked up in `PATH` (the cluster's binaries first).
    pub program: PathBuf,
    /// The arguments.
    pub args: Vec<String>,
    /// Environment variables beside the inherited ones.
    pub env: Vec<(String, String)>,
}

impl ProcessSpec {
    /// Returns a process without arguments.
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
        }
    }

    /// Returns the process with these arguments added.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Returns the process with an environment variable added.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }
}

/// Signals that tests send to processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signal {
    /// `SIGTERM`: end in order.
    Term,
    /// `SIGKILL`: end at once.
    Kill,
    /// `SIGSTOP`: hang, with all connections open.
    Stop,
    /// `SIGCONT`: go on.
    Cont,
    /// `SIGHUP`.
    Hup,
}

impl Signal {
    /// Returns its name, as `kill` takes it.
    pub(in super::super) const fn name(self) -> &'static str {
        match self {
            Self::Term => "SIGTERM",
            Self::Kill => "SIGKILL",
            Self::Stop => "SIGSTOP",
            Self::Cont => "SIGCONT",
            Self::Hup => "SIGHUP",
        }
    }
}

/// State of a process that the agent started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// The name in its [`ProcessSpec`].
    pub name: String,
    /// Process id inside of the cluster.
    pub pid: u32,
    /// The end of the process; `None` while it runs.
    pub ended: Option<String>,
    /// Resident memory in bytes; 0 when it has ended.
    pub resident_bytes: u64,
}

/// A question to the agent.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) enum Request {
    /// Connect to an address as seen from inside.
    Connect(SocketAddr),
    /// Start a process.
    Spawn(ProcessSpec),
    /// Send a signal to a process by its name.
    Signal(String, Signal),
    /// Answer when the process of this name has ended.
    Wait(String),
    /// All processes, also those that have ended.
    List,
    /// Go on when the process that started the cluster ends.
    Detach,
    /// End the cluster.
    Shutdown,
}

/// The agent's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) enum Response {
    /// Done, or connected.
    Done,
    /// The processes that were asked for.
    Processes(Vec<ProcessInfo>),
    /// Refused, with the reason.
    Error(String),
}
