//! Images of the node: they come from archives, no registry is there.

use std::path::Path;

use super::{Cluster, Error, Shape, component, output};

impl Cluster {
    /// Loads an OCI archive into the node's containerd, under the name that it has in
    /// the archive. Pods use it with `imagePullPolicy: IfNotPresent` or `Never`.
    ///
    /// # Errors
    /// When the cluster has no node or the file is not an OCI archive.
    pub async fn load_image(&self, archive: &Path) -> Result<(), Error> {
        if self.record.shape != Shape::Node {
            return Err(Error::Option(format!(
                "the cluster '{}' has no node; start it with the shape 'node'",
                self.name()
            )));
        }
        let mut command = self.command("ctr");
        command
            .arg("--address")
            .arg(component::containerd_socket(&self.state))
            .args(["--namespace", "k8s.io", "images", "import"])
            .arg(archive);
        output(command, "").await.map(drop)
    }

    /// Loads what every node has: pause, and busybox as a bag of tools.
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
        let mut command = self.command("ctr");
        command
            .arg("--address")
            .arg(component::containerd_socket(&self.state))
            .arg("version");
        output(command, "")
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }
}
