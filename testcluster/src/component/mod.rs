//! The programs of Kubernetes itself: their names and their start.

mod control_plane;
mod node;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use super::agent::ProcessSpec;
use super::state::{Record, StateDir};
use super::{Error, Shape, network};

pub(super) use node::{containerd_socket, manifests};

/// A part of the cluster that tests can kill, hang and start again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The database.
    Etcd,
    /// The kube-apiserver with this index.
    ApiServer(usize),
    /// kube-controller-manager.
    ControllerManager,
    /// kube-proxy.
    KubeProxy,
    /// kube-scheduler (with a node only).
    Scheduler,
    /// The container runtime (with a node only). Its containers outlive it.
    Containerd,
    /// kubelet (with a node only).
    Kubelet,
    /// The cluster's DNS (with a node only).
    CoreDns,
    /// The provisioner of persistent volumes (with a node only).
    Provisioner,
}

impl Component {
    /// Returns the components of a new cluster in the order in which they are started.
    pub(super) fn of(shape: Shape, apiservers: usize) -> Vec<Self> {
        let mut components = vec![Self::Etcd];
        components.extend((0..apiservers).map(Self::ApiServer));
        components.extend([Self::ControllerManager, Self::KubeProxy]);
        if shape == Shape::Node {
            components.extend([
                Self::Containerd,
                Self::Scheduler,
                Self::Kubelet,
                Self::CoreDns,
                Self::Provisioner,
            ]);
        }
        components
    }

    /// Returns the process that starts it. Files that it reads are in `config`, see
    /// [`Component::files`].
    pub(super) fn spec(self, state: &StateDir, record: &Record) -> ProcessSpec {
        let name = self.to_string();
        match self {
            Self::Etcd => control_plane::etcd(name, state, record),
            Self::ApiServer(index) => control_plane::apiserver(name, index, state, record),
            Self::ControllerManager => control_plane::controller_manager(name, state, record),
            Self::KubeProxy => control_plane::kube_proxy(name, state),
            Self::Scheduler => node::scheduler(name, state),
            Self::Containerd => node::containerd(name, state),
            Self::Kubelet => node::kubelet(name, state),
            Self::CoreDns => node::coredns(name, state),
            Self::Provisioner => node::provisioner(name, state),
        }
    }

    /// Returns its configuration files: names below `config/` with their contents.
    pub(super) fn files(self, state: &StateDir) -> Vec<(&'static str, String)> {
        match self {
            Self::KubeProxy => control_plane::kube_proxy_files(state),
            Self::Containerd => node::containerd_files(state),
            Self::Kubelet => node::kubelet_files(state),
            Self::CoreDns => node::coredns_files(state),
            _ => Vec::new(),
        }
    }

    /// Returns the address where it answers over plain HTTP when it is ready, for those whose
    /// readiness is not seen in the API.
    pub(super) fn health(self) -> Option<(SocketAddr, &'static str)> {
        match self {
            Self::Etcd => Some((network::ETCD, "/readyz")),
            Self::KubeProxy => Some((network::KUBE_PROXY_HEALTH, "/healthz")),
            Self::CoreDns => Some((network::COREDNS_READY, "/ready")),
            _ => None,
        }
    }
}

/// Writes the name of its process and of its log.
impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Etcd => f.write_str("etcd"),
            Self::ApiServer(index) => write!(f, "kube-apiserver-{index}"),
            Self::ControllerManager => f.write_str("kube-controller-manager"),
            Self::KubeProxy => f.write_str("kube-proxy"),
            Self::Scheduler => f.write_str("kube-scheduler"),
            Self::Containerd => f.write_str("containerd"),
            Self::Kubelet => f.write_str("kubelet"),
            Self::CoreDns => f.write_str("coredns"),
            Self::Provisioner => f.write_str("provisioner"),
        }
    }
}

impl FromStr for Component {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::of(Shape::Node, network::MAX_APISERVERS)
            .into_iter()
            .find(|component| component.to_string() == name)
            .ok_or_else(|| Error::Option(format!("there is no component '{name}'")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for component in Component::of(Shape::Node, 2) {
            assert_eq!(
                component.to_string().parse::<Component>().unwrap(),
                component
            );
        }
        assert!("kube-dns".parse::<Component>().is_err());
    }
}
