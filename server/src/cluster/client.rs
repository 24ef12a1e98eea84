//! The connection to the kube-apiserver.

use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// The kube-apiserver's address or credentials are not available.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file of `--kubeconfig` cannot be used.
    #[error("cannot use the kubeconfig {path}: {source}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The error of reading it.
        source: kube::config::KubeconfigError,
    },
    /// No service account is mounted.
    #[error("cannot use the pod's service account (give --kubeconfig outside of a cluster): {0}")]
    InCluster(#[from] kube::config::InClusterError),
    /// An error of TLS or of the form of the credentials.
    #[error("cannot make a client: {0}")]
    Client(#[from] kube::Error),
}

/// Returns a client with the credentials of a kubeconfig, else those of the pod.
///
/// # Errors
/// If they cannot be read. Nothing is asked of the kube-apiserver yet.
pub async fn client(kubeconfig: Option<&Path>) -> Result<Client, ClientError> {
    let config = match kubeconfig {
        None => Config::incluster()?,
        Some(path) => {
            let unusable = |source| ClientError::Kubeconfig {
                path: path.to_owned(),
                source,
            };
            let file = Kubeconfig::read_from(path).map_err(unusable)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(unusable)?
        }
    };
    Ok(Client::try_from(config)?)
}
