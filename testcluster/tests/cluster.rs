//! The cluster itself: what the other tests rely on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use testcluster::{
    Backend, Cluster, ClusterOptions, Component, Error, ProcessSpec, Release, Signal, network,
};

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "b"}})).unwrap()
}

async fn names(client: &Client) -> Vec<String> {
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let list = config_maps.list(&ListParams::default()).await.unwrap();
    list.iter()
        .map(ResourceExt::name_any)
        .filter(|name| name.starts_with("test-"))
        .collect()
}

/// Returns the release that the environment asks for.
fn asked_for() -> Release {
    match std::env::var("REPORTS_SERVER_KUBERNETES").as_deref() {
        Ok("oldest") => Release::oldest().unwrap(),
        _ => Release::newest().unwrap(),
    }
}

#[tokio::test]
async fn a_control_plane_with_its_faults() {
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    assert_eq!(cluster.release().await.unwrap(), asked_for());
    let client = cluster.client().await.unwrap();
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    config_maps
        .create(&PostParams::default(), &config_map("test-1"))
        .await
        .unwrap();

    // A second kube-apiserver sees the same objects, and the cluster knows of it.
    assert_eq!(cluster.add_apiserver().await.unwrap(), 1);
    let second = cluster.client_of(1).await.unwrap();
    assert_eq!(names(&second).await, ["test-1"]);
    assert_eq!(
        cluster.apiserver_urls(),
        ["https://10.200.0.10:6443", "https://10.200.0.11:6443"]
    );

    // One that is killed takes nothing along; the other goes on.
    cluster.kill(Component::ApiServer(0)).await.unwrap();
    assert!(
        cluster
            .info(Component::ApiServer(0))
            .unwrap()
            .ended
            .is_some()
    );
    assert!(
        config_maps.get("test-1").await.is_err(),
        "nobody answers for the killed one"
    );
    let others: Api<ConfigMap> = Api::namespaced(second.clone(), "default");
    others
        .create(&PostParams::default(), &config_map("test-2"))
        .await
        .unwrap();
    cluster.start_again(Component::ApiServer(0)).await.unwrap();
    assert_eq!(names(&client).await, ["test-1", "test-2"]);
    cluster.restart_apiserver(1).await.unwrap();
    assert_eq!(names(&second).await, ["test-1", "test-2"]);

    // One that hangs keeps its connections and does not answer until it goes on.
    cluster.stop(Component::ApiServer(1)).unwrap();
    let hanging = tokio::time::timeout(Duration::from_secs(1), others.get("test-1")).await;
    assert!(hanging.is_err(), "{hanging:?}");
    cluster.cont(Component::ApiServer(1)).unwrap();
    others.get("test-1").await.unwrap();

    etcd_is_maintained(&cluster).await;
    a_local_process_is_reached_through_a_service(&cluster).await;
    kubectl_works_inside_and_outside(&cluster).await;
    the_name_is_taken_and_everything_is_removed(cluster).await;
}

async fn etcd_is_maintained(cluster: &Cluster) {
    assert_eq!(
        cluster
            .etcd_count("/registry/configmaps/default/test-")
            .await
            .unwrap(),
        2
    );
    let before = cluster.etcd_status().await.unwrap();
    cluster.etcd_compact().await.unwrap();
    cluster.etcd_defragment().await.unwrap();
    let after = cluster.etcd_status().await.unwrap();
    assert!(after.db_bytes <= before.db_bytes, "{before:?} {after:?}");
    assert!(after.revision >= before.revision, "{before:?} {after:?}");
}

/// The kube-apiserver reaches it by the Service's cluster IP, as an APIService's backend.
async fn a_local_process_is_reached_through_a_service(cluster: &Cluster) {
    // The healthz endpoint of kube-proxy stands for any local server.
    let backend = Backend {
        namespace: "default".into(),
        name: "test-backend".into(),
        port: 80,
        targets: vec![network::KUBE_PROXY_HEALTH],
    };
    cluster.expose(&backend).await.unwrap();
    let address = cluster
        .kubectl([
            "get",
            "service",
            "test-backend",
            "-o",
            "jsonpath={.spec.clusterIP}",
        ])
        .await
        .unwrap();
    let service: SocketAddr = format!("{address}:80").parse().unwrap();
    let local = cluster.forward(service).unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    // kube-proxy needs a moment to make the rules.
    while !http_ok(local).await {
        assert!(
            tokio::time::Instant::now() < deadline,
            "{service} does not answer"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let sleeper = ProcessSpec::new("sleeper", "sleep").args(["600"]);
    let process = cluster.run(sleeper.clone()).unwrap();
    assert!(process.info().unwrap().resident_bytes > 0);
    process.kill().await.unwrap();
    assert!(process.info().unwrap().ended.unwrap().contains("signal: 9"));

    let process = cluster.run(sleeper).unwrap();
    // A process of the same name outside, such as one of another cluster, gets nothing of it.
    let mut outside = tokio::process::Command::new("sleep");
    let mut outside = outside.arg("600").kill_on_drop(true).spawn().unwrap();
    assert!(cluster.signal_program("sleep", Signal::Kill).await.unwrap());
    process.wait().await.unwrap();
    assert!(process.info().unwrap().ended.unwrap().contains("signal: 9"));
    assert!(!cluster.signal_program("sleep", Signal::Kill).await.unwrap());
    assert!(outside.try_wait().unwrap().is_none());
    outside.kill().await.unwrap();
}

async fn http_ok(address: SocketAddr) -> bool {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = "GET /healthz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    let mut answer = String::new();
    stream.write_all(request.as_bytes()).await.is_ok()
        && stream.read_to_string(&mut answer).await.is_ok()
        && answer.starts_with("HTTP/1.1 200")
}

async fn kubectl_works_inside_and_outside(cluster: &Cluster) {
    let manifest = r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "test-ns"}}"#;
    cluster
        .kubectl_with_input(["apply", "-f", "-"], manifest)
        .await
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(cluster.client().await.unwrap());
    namespaces.get("test-ns").await.unwrap();

    let error = cluster
        .kubectl(["get", "nonsense"])
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("nonsense"), "{error}");
    // Another cluster at the same address has its own.
    let discovery = cluster.directory().join("kubectl-cache/discovery");
    assert!(discovery.is_dir(), "discovery is kept elsewhere");

    let kubeconfig = cluster.host_kubeconfig(1).unwrap();
    let config = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default())
            .await
            .unwrap();
    let outside = Client::try_from(config).unwrap();
    assert_eq!(names(&outside).await, ["test-1", "test-2"]);
}

async fn the_name_is_taken_and_everything_is_removed(cluster: Cluster) {
    let (name, directory) = (cluster.name(), cluster.directory().to_owned());
    let same = ClusterOptions {
        name: name.clone(),
        ..ClusterOptions::default()
    };
    assert!(matches!(Cluster::start(same).await, Err(Error::Running(_))));
    assert!(Cluster::running().contains(&name));
    let attached = Cluster::attach(&name).unwrap();
    assert_eq!(attached.apiservers(), 2);

    drop(cluster);
    assert!(!directory.exists());
    assert!(matches!(Cluster::attach(&name), Err(Error::NotRunning(_))));
    assert_eq!(
        processes_of(&directory),
        Vec::<String>::new(),
        "left behind"
    );
    // Ending what has ended already is no error.
    Cluster::down(&name).unwrap();
}

/// Command lines of this machine's processes that name the directory.
fn processes_of(directory: &Path) -> Vec<String> {
    let directory = directory.display().to_string();
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok())
        .map(|line| line.replace('\0', " "))
        .filter(|line| line.contains(&directory))
        .collect()
}

/// A component that cannot start is named at once, with the log that says why; the log
/// stays, the cluster does not.
#[tokio::test]
async fn a_component_that_ends_is_named_with_its_log() {
    let options = ClusterOptions {
        apiserver_args: vec!["--no-such-flag".into()],
        ..ClusterOptions::default()
    };
    let directory = testcluster::base_directory().join(&options.name);
    let error = Cluster::start(options).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("kube-apiserver-0 is not ready: it has ended"),
        "{text}"
    );
    assert!(text.contains("unknown flag: --no-such-flag"), "{text}");
    let Error::NotReady { log, .. } = error else {
        panic!("{error:?}")
    };
    assert!(log.is_file(), "{}", log.display());
    assert!(!directory.exists());
    assert_eq!(
        processes_of(&directory),
        Vec::<String>::new(),
        "left behind"
    );
}

/// The lifeline: a cluster ends with the process that started it, by whatever cause.
#[tokio::test]
async fn a_cluster_ends_with_its_starter() {
    let name = format!("starter-{}", std::process::id());
    let mut starter = tokio::process::Command::new(env!("CARGO_BIN_EXE_cluster"))
        .args(["up", "--name", &name])
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let directory = testcluster::base_directory().join(&name);
    until("the cluster runs", || Cluster::running().contains(&name)).await;
    starter.kill().await.unwrap();
    until("its processes have ended", || {
        processes_of(&directory).is_empty()
    })
    .await;
    assert!(!Cluster::running().contains(&name));
    Cluster::down(&name).unwrap();
    assert!(!directory.exists());
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    while !done() {
        assert!(
            tokio::time::Instant::now() < deadline,
            "not after a minute: {what}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
