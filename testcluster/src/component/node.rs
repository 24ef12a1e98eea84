//! The components of a node: containerd, kubelet, kube-scheduler, `CoreDNS`, the provisioner.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::control_plane::flag;
use super::{ProcessSpec, StateDir, network};
use crate::{cgroup, provisioner};

/// The image of the pause container. Pinned in `hack/lib/cluster.sh` too, which writes the image.
const PAUSE_IMAGE: &str = "registry.k8s.io/pause:3.10.1";

/// Folder of the plugins of Debian's package containernetworking-plugins.
const CNI_PLUGINS: &str = "/usr/lib/cni";

pub(in super::super) fn containerd_socket(state: &StateDir) -> PathBuf {
    state.join("containerd.sock")
}

pub(super) fn containerd(name: String, state: &StateDir) -> ProcessSpec {
    ProcessSpec::new(name, "containerd")
        .args([flag("config", state.join("config/containerd.toml"))])
}

pub(super) fn containerd_files(state: &StateDir) -> Vec<(&'static str, String)> {
    let path = |below: &str| state.join(below).display().to_string();
    let config = format!(
        "version = 3
root = '{root}'
state = '{run}'

[grpc]
  address = '{socket}'

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{PAUSE_IMAGE}'

[plugins.'io.containerd.cri.v1.runtime']
  netns_mounts_under_state_dir = true
  # Root of a test machine may lack CAP_SYS_RESOURCE; runc then fails to lower the score.
  restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['{CNI_PLUGINS}']
  conf_dir = '{cni}'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
",
        root = path("containerd"),
        run = path("containerd-run"),
        socket = containerd_socket(state).display(),
        cni = path("config"),
    );
    // ptp, not bridge: pods are routed, so that answers pass the node's connection
    // tracking also where the kernel cannot track bridged frames.
    let cni = json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {"type": "ptp", "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": network::POD_CIDR}]],
                "routes": [{"dst": "0.0.0.0/0"}],
                "dataDir": path("cni"),
            }},
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    vec![
        ("containerd.toml", config),
        ("10-pods.conflist", cni.to_string()),
    ]
}

pub(super) fn kubelet(name: String, state: &StateDir) -> ProcessSpec {
    ProcessSpec::new(name, "kubelet").args([
        flag("config", state.join("config/kubelet.json")),
        flag("kubeconfig", state.kubeconfig("kubelet")),
        flag("root-dir", state.join("kubelet")),
        flag("cert-dir", state.join("kubelet/pki")),
        format!("--hostname-override={}", network::NODE_NAME),
        format!("--node-ip={}", network::NODE_IP),
    ])
}

pub(super) fn kubelet_files(state: &StateDir) -> Vec<(&'static str, String)> {
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": network::NODE_IP,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": state.pki("ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup::root(&state.name()),
        "failCgroupV1": false,
        "failSwapOn": false,
        "localStorageCapacityIsolation": false,
        "makeIPTablesUtilChains": false,
        "clusterDNS": [network::DNS_SERVICE_IP],
        "clusterDomain": "cluster.local",
        "resolvConf": state.join("config/resolv.conf"),
        "containerRuntimeEndpoint": format!("unix://{}", containerd_socket(state).display()),
        "podLogsDir": state.pod_logs(),
        "volumePluginDir": state.join("kubelet-plugins"),
        // The machine's disk and memory are shared with others: only a real want of
        // either evicts, and images come from archives, so none is collected.
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "serializeImagePulls": false,
        // How long a changed Secret takes to reach a pod: a minute by default.
        "syncFrequency": "10s",
    });
    let resolv = format!("nameserver {}\n", network::NODE_IP);
    vec![
        ("kubelet.json", config.to_string()),
        ("resolv.conf", resolv),
    ]
}

pub(super) fn scheduler(name: String, state: &StateDir) -> ProcessSpec {
    ProcessSpec::new(name, "kube-scheduler").args([
        flag("kubeconfig", state.kubeconfig("kube-scheduler")),
        "--bind-address=127.0.0.1".to_owned(),
        "--leader-elect=false".to_owned(),
    ])
}

pub(super) fn coredns(name: String, state: &StateDir) -> ProcessSpec {
    ProcessSpec::new(name, "coredns").args([
        "-conf".to_owned(),
        state.join("config/Corefile").display().to_string(),
    ])
}

/// Returns the files of `CoreDNS`. Names outside of the cluster are refused: there is no way out of
/// its network.
pub(super) fn coredns_files(state: &StateDir) -> Vec<(&'static str, String)> {
    let corefile = format!(
        "cluster.local in-addr.arpa ip6.arpa {{
    bind {node}
    errors
    ready {ready}
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 5
    }}
    cache 5
    loadbalance
}}
",
        node = network::NODE_IP,
        ready = network::COREDNS_READY,
        kubeconfig = state.kubeconfig("coredns").display(),
    );
    vec![("Corefile", corefile)]
}

/// Returns the process of this workspace's own program, see [`provisioner`].
pub(super) fn provisioner(name: String, state: &StateDir) -> ProcessSpec {
    // The agent's own program file, by the one name that cannot be missing.
    ProcessSpec::new(name, "/proc/self/exe")
        .args([
            "provisioner".to_owned(),
            state.join("volumes").display().to_string(),
        ])
        .env(
            "KUBECONFIG",
            state.kubeconfig("admin").display().to_string(),
        )
}

/// Returns the API objects that a node's components need.
pub(in super::super) fn manifests() -> Vec<Value> {
    let dns_ports = |named: &str| {
        json!([
            {"name": "dns", "protocol": "UDP", "port": 53},
            {"name": "dns-tcp", "protocol": "TCP", "port": 53},
            {"name": named, "protocol": "TCP", "port": network::COREDNS_READY.port()},
        ])
    };
    vec![
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system"},
            "spec": {"clusterIP": network::DNS_SERVICE_IP, "ports": dns_ports("ready")},
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": "kube-dns", "namespace": "kube-system",
                "labels": {"kubernetes.io/service-name": "kube-dns"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [network::NODE_IP], "conditions": {"ready": true}}],
            "ports": dns_ports("ready"),
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "system:coredns"},
            "rules": [
                {"apiGroups": [""], "resources": ["namespaces", "pods", "services"], "verbs": ["list", "watch"]},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:coredns"}],
        }),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {
                "name": "standard",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": provisioner::NAME,
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        }),
    ]
}
