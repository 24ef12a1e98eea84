//! Images of the node: they come from archives, as there is no registry.

use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;

use super::{Cluster, Error, Shape, Signal, component, run_command};

impl Cluster {
    /// Loads an OCI archive into the node's containerd, under the name that it has in
    /// the archive. Pods use it with `imagePullPolicy: IfNotPresent` or `Never`.
    ///
    /// # Errors
    /// If the cluster has no node or the file is not an OCI archive.
    pub async fn load_image(&self, archive: &Path) -> Result<(), Error> {
        if self.record.shape != Shape::Node {
            return Err(Error::Option(format!(
                "the cluster '{}' has no node; start it with the shape 'node'",
                self.name()
            )));
        }
        let mut command = self.ctr();
        command.args(["images", "import"]).arg(archive);
        run_command(command, "").await.map(drop)
    }

    /// Kills the processes of a container (`SIGKILL`), as the kernel does when memory is
    /// short. The kubelet starts it again after its back-off.
    ///
    /// # Errors
    /// If the pod has no such container that runs.
    pub async fn kill_container(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
    ) -> Result<(), Error> {
        self.signal_container(namespace, pod, container, Signal::Kill)
            .await
    }

    /// Sends a signal to all processes of a container.
    ///
    /// # Errors
    /// If the pod has no such container that runs.
    pub async fn signal_container(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        signal: Signal,
    ) -> Result<(), Error> {
        let pods: Api<Pod> = Api::namespaced(self.client().await?, namespace);
        let id = container_id(&pods.get(pod).await?, container).ok_or_else(|| {
            Error::Option(format!(
                "the container '{container}' of {namespace}/{pod} does not run"
            ))
        })?;
        let mut command = self.ctr();
        command.args(["tasks", "kill", "--signal", signal.name(), "--all", &id]);
        run_command(command, "").await.map(drop)
    }

    /// Returns a command for ctr in the namespace of Kubernetes' images and containers.
    fn ctr(&self) -> tokio::process::Command {
        let mut command = self.command("ctr");
        command
            .arg("--address")
            .arg(component::containerd_socket(&self.state))
            .args(["--namespace", "k8s.io"]);
        command
    }

    /// Loads the images that every node has: pause, and busybox as a set of tools.
    pub(super) async fn load_own_images(&self) -> Result<(), Error> {
        for part in &self.record.parts {
            for image in ["pause", "tools"] {
                let archive = part.join("images").join(format!("{image}.tar"));
                if archive.exists() {
                    self.load_image(&archive).await?;
                }
            }
        }
        Ok(())
    }

    pub(super) async fn containerd_ready(&self) -> Result<(), String> {
        let mut command = self.ctr();
        command.arg("version");
        run_command(command, "")
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

/// Returns the runtime's id of a container that runs.
fn container_id(pod: &Pod, container: &str) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let status = statuses.iter().find(|status| status.name == container)?;
    status.state.as_ref()?.running.as_ref()?;
    status
        .container_id
        .as_ref()?
        .strip_prefix("containerd://")
        .map(str::to_owned)
}
