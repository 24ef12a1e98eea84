//! Processes of the tests' own inside of a cluster: servers and operators that are not
//! in a pod.

use std::path::PathBuf;

use super::agent::client::AgentClient;
use super::{Cluster, Error, ProcessInfo, ProcessSpec, Signal};

/// A process inside of the cluster. It is killed when this value is dropped, and with
/// the cluster at the latest.
#[derive(Debug)]
pub struct Process {
    name: String,
    agent: AgentClient,
    log: PathBuf,
}

impl Cluster {
    /// Starts a process inside of the cluster's network, with the files of the caller and the
    /// environment of the cluster's administrator. A server listens on
    /// [`super::network::NODE_IP`] to be reachable through a Service.
    ///
    /// # Errors
    /// If a process of that name runs, or the program cannot be started.
    pub fn run(&self, spec: ProcessSpec) -> Result<Process, Error> {
        let log = self.state.log(&spec.name);
        let name = spec.name.clone();
        let mut spec = spec;
        let own = self.administrator().into_iter();
        let own = own.map(|(name, path)| (name.to_owned(), path.display().to_string()));
        // First, so that the caller's own values win.
        spec.env.splice(0..0, own);
        self.agent.spawn(spec)?;
        Ok(Process {
            name,
            agent: self.agent.clone(),
            log,
        })
    }
}

impl Process {
    /// Returns the file that has all of its output.
    #[must_use]
    pub fn log(&self) -> &std::path::Path {
        &self.log
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// If it has ended (not for `Term` and `Kill`).
    pub fn signal(&self, signal: Signal) -> Result<(), Error> {
        self.agent.signal(&self.name, signal)
    }

    /// Kills it (`SIGKILL`) and returns when it has ended.
    ///
    /// # Errors
    /// If the cluster has ended.
    pub async fn kill(&self) -> Result<(), Error> {
        self.signal(Signal::Kill)?;
        self.wait().await.map(drop)
    }

    /// Returns when it has ended; [`ProcessInfo::ended`] has the details.
    ///
    /// # Errors
    /// If the cluster has ended.
    pub async fn wait(&self) -> Result<ProcessInfo, Error> {
        self.agent.wait(&self.name).await
    }

    /// Returns process id, state and resident memory.
    ///
    /// # Errors
    /// If the cluster has ended.
    pub fn info(&self) -> Result<ProcessInfo, Error> {
        self.agent
            .list()?
            .into_iter()
            .find(|info| info.name == self.name)
            .ok_or_else(|| Error::Agent(format!("there is no process '{}'", self.name)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that the cluster has ended, and this with it.
        let _ = self.signal(Signal::Kill);
    }
}
