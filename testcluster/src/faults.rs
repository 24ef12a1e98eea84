//! Typed faults of real clusters, one call each.

use super::error::IoContext;
use super::{Cluster, Component, Error, ProcessInfo, Signal};

impl Cluster {
    /// Kills a component (`SIGKILL`) and returns when it has ended.
    ///
    /// # Errors
    /// If it was never started.
    pub async fn kill(&self, component: Component) -> Result<(), Error> {
        self.end(component, Signal::Kill).await
    }

    /// Asks a component to end in order (`SIGTERM`) and returns when it has ended.
    ///
    /// # Errors
    /// If it was never started.
    pub async fn terminate(&self, component: Component) -> Result<(), Error> {
        self.end(component, Signal::Term).await
    }

    async fn end(&self, component: Component, signal: Signal) -> Result<(), Error> {
        let name = component.to_string();
        self.agent.signal(&name, signal)?;
        self.agent.wait(&name).await.map(drop)
    }

    /// Starts a component that has ended, and waits until it is ready.
    ///
    /// # Errors
    /// If it runs, or does not get ready.
    pub async fn start_again(&self, component: Component) -> Result<(), Error> {
        self.start_component(component).await
    }

    /// Kills a component, starts it again and waits until it is ready.
    ///
    /// # Errors
    /// As [`Cluster::kill`] and [`Cluster::start_again`].
    pub async fn restart(&self, component: Component) -> Result<(), Error> {
        self.kill(component).await?;
        self.start_again(component).await
    }

    /// Restarts the kube-apiserver with this index as [`Cluster::restart`] does, but in order
    /// (`SIGTERM`), as an upgrade does it.
    ///
    /// # Errors
    /// As [`Cluster::terminate`] and [`Cluster::start_again`].
    pub async fn restart_apiserver(&self, index: usize) -> Result<(), Error> {
        self.terminate(Component::ApiServer(index)).await?;
        self.start_again(Component::ApiServer(index)).await
    }

    /// Hangs a component (`SIGSTOP`): its connections stay open, nothing answers.
    ///
    /// # Errors
    /// If it does not run.
    pub fn stop(&self, component: Component) -> Result<(), Error> {
        self.agent.signal(&component.to_string(), Signal::Stop)
    }

    /// Lets a hanging component go on (`SIGCONT`).
    ///
    /// # Errors
    /// If it does not run.
    pub fn cont(&self, component: Component) -> Result<(), Error> {
        self.agent.signal(&component.to_string(), Signal::Cont)
    }

    /// Sends a signal to all processes of the cluster whose program has this name, those in
    /// containers included. Returns whether there is one.
    ///
    /// # Errors
    /// If it cannot be sent.
    pub async fn signal_program(&self, program: &str, signal: Signal) -> Result<bool, Error> {
        // By the process ids of the cluster: those of the caller are of every cluster on the machine.
        let mut command = tokio::process::Command::from(self.shell());
        command.args(["pkill", "--signal", signal.name(), "--exact", program]);
        let output = command.output().await.context(|| "run pkill".to_owned())?;
        match output.status.code() {
            Some(0) => Ok(true),
            // The same code as of a namespace that cannot be entered, which is said in words.
            Some(1) if output.stderr.is_empty() => Ok(false),
            _ => Err(Error::Command {
                command: format!("pkill {program}"),
                status: output.status.to_string(),
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            }),
        }
    }

    /// Returns process id, state and resident memory of a component.
    ///
    /// # Errors
    /// If it was never started.
    pub fn info(&self, component: Component) -> Result<ProcessInfo, Error> {
        self.info_of(&component.to_string())
    }

    pub(super) fn info_of(&self, name: &str) -> Result<ProcessInfo, Error> {
        self.agent
            .list()?
            .into_iter()
            .find(|info| info.name == name)
            .ok_or_else(|| Error::Option(format!("'{name}' was never started in this cluster")))
    }

    /// Returns all processes of the cluster, also those that have ended.
    ///
    /// # Errors
    /// If the agent does not answer.
    pub fn processes(&self) -> Result<Vec<ProcessInfo>, Error> {
        self.agent.list()
    }
}
