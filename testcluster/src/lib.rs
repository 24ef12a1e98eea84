//! A real Kubernetes for tests: its own programs, in namespaces of their own, on this machine.
//! `docs/development/cluster.md` explains it.
//!
//! ```no_run
//! # async fn example() -> Result<(), testcluster::Error> {
//! use testcluster::{Cluster, ClusterOptions, Component};
//!
//! let cluster = Cluster::start(ClusterOptions::default()).await?;
//! let client = cluster.client().await?;
//! # drop(client);
//! cluster.restart(Component::ApiServer(0)).await?;
//! # Ok(())
//! # }
//! ```

mod agent;
mod cgroup;
mod component;
mod error;
mod etcd;
mod faults;
mod forward;
pub mod http;
mod images;
mod namespace;
pub mod network;
mod options;
mod parts;
mod pki;
mod process;
pub mod provisioner;
mod ready;
mod release;
mod service;
mod start;
mod state;

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::io::AsyncWriteExt;

pub use agent::{ProcessInfo, ProcessSpec, Signal, run as run_agent};
pub use component::Component;
pub use error::Error;
pub use etcd::EtcdStatus;
pub use options::{ClusterOptions, Shape};
pub use parts::{client_go_tests, client_go_watcher, incumbent, work_tree};
pub use process::Process;
pub use release::Release;
pub use service::Backend;
pub use state::base as base_directory;

use agent::client::AgentClient;
use error::IoContext;
use forward::Forwarder;
use state::{Record, StateDir};

/// A running Kubernetes cluster. Dropping a value of [`Cluster::start`] ends the cluster (unless it
/// was started detached), and so does the end of the process.
#[derive(Debug)]
pub struct Cluster {
    state: StateDir,
    record: Record,
    apiservers: AtomicUsize,
    agent: AgentClient,
    forwarder: Arc<Forwarder>,
    /// The founder of the namespaces with the lifeline; not for attached ones.
    founder: Option<Child>,
}

impl Cluster {
    /// Returns a running cluster that was started elsewhere (`hack/cluster up`). Dropping the
    /// value leaves it running.
    ///
    /// # Errors
    /// If no cluster of that name runs.
    pub fn attach(name: &str) -> Result<Self, Error> {
        let state = StateDir::of(name)?;
        if !state.alive() {
            return Err(Error::NotRunning(name.to_owned()));
        }
        let record = state.read_record()?;
        Self::new(state, record, None)
    }

    fn new(state: StateDir, record: Record, founder: Option<Child>) -> Result<Self, Error> {
        Ok(Self {
            agent: AgentClient::new(state.agent_socket()),
            forwarder: Arc::new(Forwarder::new(state.agent_socket())?),
            apiservers: AtomicUsize::new(record.apiservers),
            state,
            record,
            founder,
        })
    }

    /// Returns the names of the clusters that run on this machine.
    #[must_use]
    pub fn running() -> Vec<String> {
        state::names()
            .into_iter()
            .filter(|name| StateDir::of(name).is_ok_and(|state| state.alive()))
            .collect()
    }

    /// Returns the names of the clusters that run or have left something.
    #[must_use]
    pub fn known() -> Vec<String> {
        state::names()
    }

    /// Ends the cluster of that name and removes everything of it. It removes the rest of a crashed
    /// one, too; where there is nothing, it does nothing.
    ///
    /// # Errors
    /// If something of it cannot be removed.
    pub fn down(name: &str) -> Result<(), Error> {
        let state = StateDir::of(name)?;
        if state.alive() {
            let founder = state.read_record().map(|record| record.pid);
            AgentClient::new(state.agent_socket()).shutdown()?;
            if let Ok(pid) = founder {
                state::poll(state::END_TIMEOUT, || !namespace::is_founder(pid, &state));
            }
        }
        state.remove()
    }

    /// Returns its name on this machine.
    #[must_use]
    pub fn name(&self) -> String {
        self.state.name()
    }

    /// Returns the parts of the cluster.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.record.shape
    }

    /// Returns the directory of all its files.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.state.path()
    }

    /// Returns the directory of its logs: `NAME.log` for each component and each [`Process`].
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.state.logs()
    }

    /// Returns the directory of the logs of the pods that exist: `NAMESPACE_NAME_UID/CONTAINER/N.log`.
    /// A cluster without a node has none.
    #[must_use]
    pub fn pod_logs(&self) -> PathBuf {
        self.state.pod_logs()
    }

    /// Returns the id of the process whose end is the cluster's; its network and mount namespaces
    /// are the cluster's (`nsenter -t PID --net`).
    #[must_use]
    pub fn founder_pid(&self) -> u32 {
        self.record.pid
    }

    /// Returns the number of kube-apiservers; their indexes begin at 0.
    #[must_use]
    pub fn apiservers(&self) -> usize {
        self.apiservers.load(Ordering::Acquire)
    }

    /// Returns the URLs of its kube-apiservers for processes inside of the cluster's network.
    #[must_use]
    pub fn apiserver_urls(&self) -> Vec<String> {
        (0..self.apiservers())
            .map(|index| format!("https://{}", network::apiserver(index)))
            .collect()
    }

    /// Returns the kubeconfig of the administrator at the first kube-apiserver, for processes
    /// inside of the cluster's network.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.state.kubeconfig("admin")
    }

    /// Returns a loopback address of this process that leads to `target`, an address as seen from
    /// inside of the cluster's network; works as long as this value lives. Where nobody
    /// listens at the target, connections are accepted and closed.
    ///
    /// # Errors
    /// If no loopback port can be opened.
    pub fn forward(&self, target: SocketAddr) -> Result<SocketAddr, Error> {
        self.forwarder.forward(target)
    }

    /// Writes a kubeconfig of the administrator that works from outside, through this value's
    /// loopback port to the kube-apiserver with this index, as long as this value lives. Returns
    /// its path.
    ///
    /// # Errors
    /// If the port cannot be opened or the file cannot be written.
    pub fn host_kubeconfig(&self, index: usize) -> Result<PathBuf, Error> {
        let user = format!("host-{}-{index}", std::process::id());
        let path = self.state.kubeconfig(&user);
        state::write(&path, self.host_kubeconfig_json(index)?.to_string())?;
        Ok(path)
    }

    fn host_kubeconfig_json(&self, index: usize) -> Result<serde_json::Value, Error> {
        let server = format!("https://{}", self.forward(network::apiserver(index))?);
        let read = |file: &str| {
            let path = self.state.pki(file);
            std::fs::read_to_string(&path).context(|| format!("read {}", path.display()))
        };
        Ok(pki::kubeconfig(
            &server,
            &read("ca.crt")?,
            &read("admin.crt")?,
            &read("admin.key")?,
        ))
    }

    /// Returns the configuration of clients of the administrator at the kube-apiserver with this
    /// index, for this process.
    ///
    /// # Errors
    /// If the loopback port cannot be opened.
    pub async fn config(&self, index: usize) -> Result<Config, Error> {
        // rustls takes the first provider that is installed; a second one changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig = Kubeconfig::from_yaml(&self.host_kubeconfig_json(index)?.to_string())?;
        Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
    }

    /// Returns a client of the administrator at the first kube-apiserver, for this process.
    /// It works as long as this value lives, which has the loopback port.
    ///
    /// # Errors
    /// If the loopback port cannot be opened.
    pub async fn client(&self) -> Result<Client, Error> {
        self.client_of(0).await
    }

    /// Returns a client of the administrator at the kube-apiserver with this index.
    ///
    /// # Errors
    /// If the loopback port cannot be opened.
    pub async fn client_of(&self, index: usize) -> Result<Client, Error> {
        Ok(Client::try_from(self.config(index).await?)?)
    }

    /// Returns a command that will run `program` inside of the cluster's network as the
    /// administrator, with the files of the caller, who waits for it. A process that has to outlive
    /// a test's step, or end with the cluster, is for [`Cluster::run`].
    #[must_use]
    pub fn command(&self, program: impl AsRef<Path>) -> tokio::process::Command {
        let mut command = namespace::command(self.record.pid, &self.record.parts, program.as_ref());
        command.envs(self.administrator());
        let mut command = tokio::process::Command::from(command);
        command.kill_on_drop(true);
        command
    }

    /// Returns a listener of this process at an address inside of the cluster, such as
    /// [`network::NODE_IP`], which pods reach.
    ///
    /// # Errors
    /// If the address is taken.
    pub fn listen(&self, address: SocketAddr) -> Result<std::net::TcpListener, Error> {
        namespace::listen(self.record.pid, address).context(|| format!("listen on {address}"))
    }

    /// Returns a command as [`Cluster::command`] does, in the cluster's mounts, too; the program is
    /// to be added.
    #[must_use]
    pub fn shell(&self) -> std::process::Command {
        let mut command = namespace::shell(self.record.pid, &self.record.parts);
        command.envs(self.administrator());
        command
    }

    /// Returns what makes kubectl, or a program built on its library, the administrator of this
    /// cluster. All clusters have the same addresses, and kubectl keeps discovery for hours by the
    /// address: each cluster has a cache of its own, so that no command looks for the resources of
    /// another one.
    fn administrator(&self) -> [(&'static str, PathBuf); 2] {
        let cache = self.directory().join("kubectl-cache");
        [("KUBECONFIG", self.kubeconfig()), ("KUBECACHEDIR", cache)]
    }

    /// Runs kubectl as the administrator; returns its standard output.
    ///
    /// # Errors
    /// If kubectl fails, with the text that it wrote to standard error.
    pub async fn kubectl<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<String, Error> {
        self.kubectl_with_input(args, "").await
    }

    /// Runs kubectl as [`Cluster::kubectl`] does, with this text on standard input (for `-f -`).
    ///
    /// # Errors
    /// As [`Cluster::kubectl`].
    pub async fn kubectl_with_input<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        input: &str,
    ) -> Result<String, Error> {
        let mut command = self.command("kubectl");
        command.args(args);
        run_command(command, input).await
    }

    /// Returns the release of the first kube-apiserver.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn release(&self) -> Result<Release, Error> {
        let version = self.client().await?.apiserver_version().await?;
        version.git_version.parse()
    }
}

/// Runs a command to its end, with this text on standard input; returns its standard output.
///
/// # Errors
/// If it cannot be started, or fails, with the text that it wrote to standard error.
pub async fn run_command(
    mut command: tokio::process::Command,
    input: &str,
) -> Result<String, Error> {
    let text = words(command.as_std());
    let context = || format!("run {text}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context(context)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read all of its input ends with its own message.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = child.wait_with_output().await.context(context)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Command {
        command: text,
        status: output.status.to_string(),
        stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

/// Returns the words of a command.
fn words(command: &std::process::Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let Some(mut founder) = self.founder.take() else {
            return;
        };
        // In this order the founder is the last to end, after all of the cluster's
        // processes. An agent that does not answer is ended by its lifeline or by force.
        let _ = self.agent.shutdown();
        drop(founder.stdin.take());
        let ended = state::poll(state::END_TIMEOUT, || {
            !matches!(founder.try_wait(), Ok(None))
        });
        if !ended {
            let _ = founder.kill();
            let _ = founder.wait();
        }
        if std::thread::panicking()
            && let Some(logs) = self.state.keep_logs()
        {
            eprintln!(
                "the logs of the cluster '{}' are in {}",
                self.name(),
                logs.display()
            );
        }
        if let Err(error) = self.state.remove() {
            eprintln!(
                "the cluster '{}' is not wholly removed: {error}",
                self.name()
            );
        }
    }
}
