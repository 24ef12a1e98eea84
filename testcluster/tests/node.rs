//! The node: pods run, volumes are provided, and a crash leaves nothing behind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, LogParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use testcluster::{Cluster, ClusterOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_mins(2);
const CONTENT: &str = "written by a pod";

fn claim() -> PersistentVolumeClaim {
    serde_json::from_value(json!({
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "16Mi"}},
        },
    }))
    .unwrap()
}

/// Within the `restricted` Pod Security Standard, on a volume that belongs to root: only
/// the `fsGroup` makes it writable. It answers over HTTP once it has found the cluster's
/// API by name.
fn pod() -> Pod {
    let script = format!(
        "echo '{CONTENT}' >/data/index.html && \
         nslookup kubernetes.default.svc.cluster.local >/dev/null && \
         echo named && exec httpd -f -p 8080 -h /data"
    );
    serde_json::from_value(json!({
        "metadata": {"name": "writer", "labels": {"app": "writer"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 10001, "fsGroup": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "writer",
                "image": "registry.reports-server.io/tools:busybox",
                "imagePullPolicy": "Never",
                "command": ["sh", "-c", script],
                "readinessProbe": {"httpGet": {"path": "/index.html", "port": 8080}, "periodSeconds": 1},
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }))
    .unwrap()
}

#[tokio::test]
async fn pods_run_with_volumes_and_names() {
    let cluster = Cluster::start(ClusterOptions::node()).await.unwrap();
    let client = cluster.client().await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    claims
        .create(&PostParams::default(), &claim())
        .await
        .unwrap();
    pods.create(&PostParams::default(), &pod()).await.unwrap();
    pod_is_ready(&pods).await;

    let logs = pods.logs("writer", &LogParams::default()).await.unwrap();
    assert_eq!(logs, "named\n");
    let volume = volume_of(&client, &claims).await;
    assert_eq!(
        fs::read_to_string(volume.join("index.html"))
            .unwrap()
            .trim(),
        CONTENT
    );

    a_pod_is_reached_through_a_service(&cluster).await;
    a_killed_container_comes_back(&cluster, &pods).await;
    Box::pin(a_deleted_claim_takes_its_volume_along(
        &client, &pods, &claims, &volume,
    ))
    .await;
    an_archive_that_is_none_is_refused(&cluster).await;
}

async fn pod_is_ready(pods: &Api<Pod>) {
    let ready = await_condition(pods.clone(), "writer", conditions::is_pod_running());
    tokio::time::timeout(PATIENCE, ready)
        .await
        .expect("the pod does not run")
        .unwrap();
    let ready = await_condition(pods.clone(), "writer", |pod: Option<&Pod>| {
        let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
    });
    tokio::time::timeout(PATIENCE, ready)
        .await
        .expect("the pod is not ready")
        .unwrap();
}

/// Directory of the claim's volume on this machine.
async fn volume_of(client: &Client, claims: &Api<PersistentVolumeClaim>) -> PathBuf {
    let claim = claims.get("data").await.unwrap();
    assert_eq!(claim.status.unwrap().phase.as_deref(), Some("Bound"));
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let volume = volumes
        .get(&claim.spec.unwrap().volume_name.unwrap())
        .await
        .unwrap();
    volume.spec.unwrap().local.unwrap().path.into()
}

/// By the cluster IP from outside of the pod network, as the kube-apiserver reaches an
/// aggregated API server.
async fn a_pod_is_reached_through_a_service(cluster: &Cluster) {
    cluster
        .kubectl(["expose", "pod", "writer", "--port=80", "--target-port=8080"])
        .await
        .unwrap();
    let address = cluster
        .kubectl([
            "get",
            "service",
            "writer",
            "-o",
            "jsonpath={.spec.clusterIP}",
        ])
        .await
        .unwrap();
    let service: SocketAddr = format!("{address}:80").parse().unwrap();
    let local = cluster.forward(service).unwrap();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    // kube-proxy needs a moment to make the rules.
    while !answer(local)
        .await
        .is_some_and(|answer| answer.trim_end().ends_with(CONTENT))
    {
        assert!(
            tokio::time::Instant::now() < deadline,
            "{service} does not answer"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn answer(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream
        .write_all(b"GET /index.html HTTP/1.0\r\n\r\n")
        .await
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}

async fn a_killed_container_comes_back(cluster: &Cluster, pods: &Api<Pod>) {
    cluster
        .kill_container("default", "writer", "writer")
        .await
        .unwrap();
    let again = await_condition(pods.clone(), "writer", |pod: Option<&Pod>| {
        let statuses = pod.and_then(|pod| pod.status.as_ref()?.container_statuses.as_ref());
        statuses.is_some_and(|all| all[0].restart_count == 1 && all[0].ready)
    });
    tokio::time::timeout(PATIENCE, again)
        .await
        .expect("it is not started again")
        .unwrap();
    let error = cluster
        .kill_container("default", "writer", "other")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("'other'"), "{error}");
}

async fn a_deleted_claim_takes_its_volume_along(
    client: &Client,
    pods: &Api<Pod>,
    claims: &Api<PersistentVolumeClaim>,
    volume: &Path,
) {
    pods.delete("writer", &DeleteParams::default())
        .await
        .unwrap();
    claims
        .delete("data", &DeleteParams::default())
        .await
        .unwrap();
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    for volume in volumes.list(&ListParams::default()).await.unwrap() {
        let (name, uid) = (volume.name_any(), volume.uid().unwrap());
        let gone = await_condition(volumes.clone(), &name, conditions::is_deleted(&uid));
        tokio::time::timeout(PATIENCE, gone)
            .await
            .expect("the volume stays")
            .unwrap();
    }
    assert!(!volume.exists(), "{}", volume.display());
}

async fn an_archive_that_is_none_is_refused(cluster: &Cluster) {
    let file = cluster.directory().join("not-an-image");
    fs::write(&file, "x").unwrap();
    cluster.load_image(&file).await.unwrap_err();
}

/// Whoever started the cluster is killed, and so is the cluster: the next start of the
/// same name finds nothing in its way.
#[tokio::test]
async fn a_crash_leaves_nothing_that_stops_the_next_start() {
    let name = format!("crash-{}", std::process::id());
    let up = |shape: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cluster"));
        command.args(["up", "--name", &name, "--shape", shape]);
        command
    };
    assert!(up("node").status().unwrap().success());
    let cluster = Cluster::attach(&name).unwrap();
    let client = cluster.client().await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client);
    claims
        .create(&PostParams::default(), &claim())
        .await
        .unwrap();
    pods.create(&PostParams::default(), &pod()).await.unwrap();
    pod_is_ready(&pods).await;
    assert!(!cgroups_of(&name).is_empty());

    let founder = cluster.founder_pid().to_string();
    assert!(
        Command::new("sh")
            .args(["-c", &format!("kill -KILL {founder}")])
            .status()
            .unwrap()
            .success()
    );
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while Cluster::running().contains(&name) {
        assert!(tokio::time::Instant::now() < deadline, "the agent lives on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    assert!(up("control-plane").status().unwrap().success());
    let next = Cluster::attach(&name).unwrap();
    let pods: Api<Pod> = Api::default_namespaced(next.client().await.unwrap());
    assert!(
        pods.list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    let down = Command::new(env!("CARGO_BIN_EXE_cluster"))
        .args(["down", "--name", &name])
        .status();
    assert!(down.unwrap().success());
    assert_eq!(cgroups_of(&name), Vec::<PathBuf>::new());
    assert!(!testcluster::base_directory().join(&name).exists());
}

/// The cluster's own cgroups, in each hierarchy.
fn cgroups_of(name: &str) -> Vec<PathBuf> {
    let mount = Path::new("/sys/fs/cgroup");
    let below = fs::read_dir(mount)
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    std::iter::once(mount.to_owned())
        .chain(below)
        .map(|hierarchy| hierarchy.join("reports-server-e2e").join(name))
        .filter(|cgroup| cgroup.exists())
        .collect()
}
