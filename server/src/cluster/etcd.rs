//! The revision of the cluster's etcd.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use storage::store::{Etcd, RevisionError};

use super::client;

/// Longest time for one question.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The etcd behind a kube-apiserver: each list carries its revision.
pub struct KubeEtcd {
    kubeconfig: Option<PathBuf>,
}

impl KubeEtcd {
    /// Returns the etcd of the cluster of `kubeconfig`, or of the pod. Nothing is asked yet.
    #[must_use]
    pub fn new(kubeconfig: Option<PathBuf>) -> Self {
        Self { kubeconfig }
    }

    async fn ask(&self) -> Result<u64, RevisionError> {
        let namespaces: Api<Namespace> = Api::all(client(self.kubeconfig.as_deref()).await?);
        let list = namespaces
            .list_metadata(&ListParams::default().limit(1))
            .await?;
        Ok(list.metadata.resource_version.unwrap_or_default().parse()?)
    }
}

#[async_trait]
impl Etcd for KubeEtcd {
    async fn revision(&self) -> Result<u64, RevisionError> {
        tokio::time::timeout(TIMEOUT, self.ask()).await?
    }
}
