//! The addresses inside a cluster's network namespace. Every cluster has the same ones.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Address of the node, where local processes listen that a Service has to reach: `EndpointSlices`
/// refuse loopback addresses. `testcluster/namespace.sh` adds it.
pub const NODE_IP: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 1);
/// The node's name.
pub const NODE_NAME: &str = "node";
/// Port of every kube-apiserver; they differ by address, as the endpoints of the
/// Service `kubernetes` do.
pub const APISERVER_PORT: u16 = 6443;
/// Number of addresses for kube-apiservers that `namespace.sh` adds.
pub const MAX_APISERVERS: usize = 5;
/// Range of the cluster IPs.
pub const SERVICE_CIDR: &str = "10.96.0.0/16";
/// Cluster IP of the Service `kubernetes`: the first of [`SERVICE_CIDR`].
pub const KUBERNETES_SERVICE_IP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// Cluster IP of the cluster's DNS.
pub const DNS_SERVICE_IP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// Pod addresses of the whole cluster.
pub const CLUSTER_CIDR: &str = "10.244.0.0/16";
/// Pod addresses of the node.
pub const POD_CIDR: &str = "10.244.0.0/24";

/// Address of etcd's client port (plain HTTP).
pub const ETCD: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2379);
/// Address where kube-proxy answers `/healthz`.
pub const KUBE_PROXY_HEALTH: SocketAddr = SocketAddr::new(IpAddr::V4(NODE_IP), 10256);
/// Address where `CoreDNS` answers `/ready`.
pub const COREDNS_READY: SocketAddr = SocketAddr::new(IpAddr::V4(NODE_IP), 8181);

/// Returns the address of the kube-apiserver with this index.
#[must_use]
pub fn apiserver_ip(index: usize) -> Ipv4Addr {
    let host = 10 + u8::try_from(index).unwrap_or(u8::MAX - 10);
    Ipv4Addr::new(10, 200, 0, host)
}

/// Returns address and port of the kube-apiserver with this index.
#[must_use]
pub fn apiserver(index: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(apiserver_ip(index)), APISERVER_PORT)
}
