//! Services that lead to local processes.

use std::net::SocketAddr;

use serde_json::json;

use super::{Cluster, Error};

/// A Service without selector and the addresses it leads to.
#[derive(Clone, Debug)]
pub struct Backend {
    /// Namespace of the Service; it must exist.
    pub namespace: String,
    /// Name of the Service.
    pub name: String,
    /// Port of the Service.
    pub port: u16,
    /// Addresses where local processes listen. Not loopback addresses: the kube-apiserver refuses
    /// them. An empty list makes a Service without endpoints.
    pub targets: Vec<SocketAddr>,
}

impl Cluster {
    /// Creates or changes a Service (port name `https`) and its `EndpointSlice`, so that it leads
    /// to local processes, which [`Cluster::run`] starts. All targets have the same port.
    ///
    /// # Errors
    /// If the kube-apiserver refuses them, or the targets' ports differ.
    pub async fn expose(&self, backend: &Backend) -> Result<(), Error> {
        let Backend {
            namespace,
            name,
            port,
            targets,
        } = backend;
        let target_port = targets.first().map_or(*port, SocketAddr::port);
        if targets.iter().any(|target| target.port() != target_port) {
            return Err(Error::Option(
                "the ports of an EndpointSlice's targets differ".into(),
            ));
        }
        let endpoints: Vec<_> = targets
            .iter()
            .map(|target| json!({"addresses": [target.ip()], "conditions": {"ready": true}}))
            .collect();
        self.apply(vec![
            json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"namespace": namespace, "name": name},
                "spec": {"ports": [
                    {"name": "https", "protocol": "TCP", "port": port, "targetPort": target_port},
                ]},
            }),
            json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {
                    "namespace": namespace, "name": name,
                    "labels": {"kubernetes.io/service-name": name},
                },
                "addressType": "IPv4",
                "endpoints": endpoints,
                "ports": [{"name": "https", "protocol": "TCP", "port": target_port}],
            }),
        ])
        .await
    }
}
