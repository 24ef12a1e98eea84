//! etcd, kube-apiserver, kube-controller-manager and kube-proxy.

use std::path::Path;

use serde_json::json;

use super::{ProcessSpec, Record, Shape, StateDir, network};

/// Quota of etcd: several times the size of a test's or the benchmark's data; the default of 2 GiB
/// is not.
const ETCD_QUOTA_BYTES: u64 = 8 << 30;

/// Returns a flag with a path.
pub(super) fn flag(name: &str, path: impl AsRef<Path>) -> String {
    format!("--{name}={}", path.as_ref().display())
}

pub(super) fn etcd(name: String, state: &StateDir, record: &Record) -> ProcessSpec {
    let client = format!("http://{}", network::ETCD);
    let spec = ProcessSpec::new(name, "etcd").args([
        "--name=etcd".to_owned(),
        flag("data-dir", state.join("etcd")),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        "--listen-peer-urls=http://127.0.0.1:2380".to_owned(),
        "--initial-advertise-peer-urls=http://127.0.0.1:2380".to_owned(),
        "--initial-cluster=etcd=http://127.0.0.1:2380".to_owned(),
        format!("--quota-backend-bytes={ETCD_QUOTA_BYTES}"),
        "--log-level=warn".to_owned(),
    ]);
    if record.fsync {
        spec
    } else {
        spec.args(["--unsafe-no-fsync"])
    }
}

pub(super) fn apiserver(
    name: String,
    index: usize,
    state: &StateDir,
    record: &Record,
) -> ProcessSpec {
    let ip = network::apiserver_ip(index);
    ProcessSpec::new(name, "kube-apiserver")
        .args([
            format!("--etcd-servers=http://{}", network::ETCD),
            // Its own address, not a port: the endpoints of the Service `kubernetes`
            // are told apart by address.
            format!("--bind-address={ip}"),
            format!("--advertise-address={ip}"),
            format!("--secure-port={}", network::APISERVER_PORT),
            format!("--service-cluster-ip-range={}", network::SERVICE_CIDR),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        ])
        .args([
            flag("client-ca-file", state.pki("ca.crt")),
            flag("tls-cert-file", state.pki("serving.crt")),
            flag("tls-private-key-file", state.pki("serving.key")),
            flag(
                "kubelet-client-certificate",
                state.pki("kube-apiserver.crt"),
            ),
            flag("kubelet-client-key", state.pki("kube-apiserver.key")),
            flag(
                "service-account-key-file",
                state.pki("service-accounts.pub"),
            ),
            flag(
                "service-account-signing-key-file",
                state.pki("service-accounts.key"),
            ),
        ])
        // What makes aggregated API servers trust it with the user's name.
        .args([
            flag(
                "proxy-client-cert-file",
                state.pki("front-proxy-client.crt"),
            ),
            flag("proxy-client-key-file", state.pki("front-proxy-client.key")),
            flag(
                "requestheader-client-ca-file",
                state.pki("front-proxy-ca.crt"),
            ),
            "--requestheader-allowed-names=front-proxy-client".to_owned(),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        ])
        .args(record.apiserver_args.iter().cloned())
}

pub(super) fn controller_manager(name: String, state: &StateDir, record: &Record) -> ProcessSpec {
    let controllers = match record.shape {
        Shape::Node => "--controllers=*",
        // Nobody renews the lease of the node that stands for kube-proxy's address.
        Shape::ControlPlane => "--controllers=*,-node-lifecycle-controller,-node-ipam-controller",
    };
    ProcessSpec::new(name, "kube-controller-manager")
        .args([
            flag("kubeconfig", state.kubeconfig("kube-controller-manager")),
            flag(
                "service-account-private-key-file",
                state.pki("service-accounts.key"),
            ),
            flag("root-ca-file", state.pki("ca.crt")),
            flag("cluster-signing-cert-file", state.pki("ca.crt")),
            flag("cluster-signing-key-file", state.pki("ca.key")),
            "--use-service-account-credentials=true".to_owned(),
            "--allocate-node-cidrs=true".to_owned(),
            format!("--cluster-cidr={}", network::CLUSTER_CIDR),
            "--bind-address=127.0.0.1".to_owned(),
            "--leader-elect=false".to_owned(),
            controllers.to_owned(),
        ])
        .args(record.controller_args.iter().cloned())
}

pub(super) fn kube_proxy(name: String, state: &StateDir) -> ProcessSpec {
    ProcessSpec::new(name, "kube-proxy")
        .args([flag("config", state.join("config/kube-proxy.json"))])
}

pub(super) fn kube_proxy_files(state: &StateDir) -> Vec<(&'static str, String)> {
    let config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": network::NODE_NAME,
        "bindAddress": network::NODE_IP,
        "clusterCIDR": network::CLUSTER_CIDR,
        "healthzBindAddress": network::KUBE_PROXY_HEALTH,
        "metricsBindAddress": "127.0.0.1:10249",
        "clientConnection": {"kubeconfig": state.kubeconfig("kube-proxy")},
        // The limits are the machine's, not the namespace's: leave them.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    });
    vec![("kube-proxy.json", config.to_string())]
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;

    fn record(fsync: bool) -> Record {
        Record {
            shape: Shape::ControlPlane,
            apiservers: 2,
            apiserver_args: vec!["--v=4".into()],
            controller_args: Vec::new(),
            fsync,
            ready_timeout: Duration::ZERO,
            pid: 0,
            parts: Vec::new(),
        }
    }

    #[test]
    fn benchmarks_let_etcd_wait_for_the_disk() {
        let state = StateDir::at(PathBuf::from("/s"));
        let unsafe_no_fsync = |fsync| {
            etcd("etcd".into(), &state, &record(fsync))
                .args
                .contains(&"--unsafe-no-fsync".into())
        };
        assert!(unsafe_no_fsync(false));
        assert!(!unsafe_no_fsync(true));
    }

    #[test]
    fn apiservers_differ_by_address_and_take_additional_flags() {
        let state = StateDir::at(PathBuf::from("/s"));
        let second = apiserver("kube-apiserver-1".into(), 1, &state, &record(false));
        for expected in [
            "--advertise-address=10.200.0.11",
            "--bind-address=10.200.0.11",
            "--v=4",
        ] {
            assert!(
                second.args.contains(&expected.into()),
                "{expected} in {:?}",
                second.args
            );
        }
    }
}
