//! The connection to the kube-apiserver.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

/// Time without a packet after which a peer is asked whether it is there, and between questions.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Questions without an answer after which it is gone.
const KEEPALIVE_RETRIES: u32 = 3;

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
    Ok(Client::try_from(config(kubeconfig).await?)?)
}

/// Returns a client like [`client`], which notices a peer that is gone though it has nothing to say,
/// and makes each request once.
///
/// # Errors
/// As [`client`].
pub async fn patient_client(kubeconfig: Option<&Path>) -> Result<Client, ClientError> {
    let config = config(kubeconfig).await?;
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE));
    connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(Client::new(service, config.default_namespace))
}

async fn config(kubeconfig: Option<&Path>) -> Result<Config, ClientError> {
    let Some(path) = kubeconfig else {
        return Ok(Config::incluster()?);
    };
    let unusable = |source| ClientError::Kubeconfig {
        path: path.to_owned(),
        source,
    };
    let file = Kubeconfig::read_from(path).map_err(unusable)?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(unusable)
}
